"""The API's records, one table each, and the tables that tonframes makes of them.

Everything else follows from this file: the decoder and the encoder, columns, dtypes, Arrow and
Parquet schemas, `describe`, and the strategies of the property tests. There is no function here.

Columns have the names that others use: ton-indexer's Postgres tables, the public Parquet lake and
Dune agree on `compute_gas_used`, `storage_fees_collected`, `descr`, `prev_trans_lt`, … so that one
query runs on all of them. A meaning that begins with + is of a field that deployed services send
and the specification does not have. `always` marks what every real answer fills, in every version
of the service. `null` marks what deployed services send as null where there is no value (Go fields
without `omitempty`: ton-index-go, index/models/blockchain.go); they leave out other keys, and the
specification's dialect leaves out all. A column that is added later says `since` which version it
exists, and needs a `rule` if it is `always` filled: its value in older files. `older` says
how older versions of the service spelled a field; a row keeps the spelling that it had.
"""

from __future__ import annotations

from tonframes.wire.kinds import ARRAY, BOOL, DIGITS, INT, OBJECT, OPCODE, SHARD, TEXT, TIME, Older
from tonframes.wire.record import Column, Derived, Entries, Field, Loose, Part, Record, Rows, Table

#: The version of the schema: raised by one whenever columns are added. Each file of a store says
#: with which version it was written. Columns are never removed, renamed or given another kind.
VERSION = 1

# ── inside a transaction ─────────────────────────────────────────────────────────────────────────

SIZE = Record("SizeRecord", "Size of something in cells.", (
    #     key      kind    unit     meaning
    Field("cells", DIGITS, "cells", "Number of distinct cells."),
    Field("bits",  DIGITS, "bits",  "Number of data bits in them."),
))

BLOCK_REF = Record("BlockReference", "A block.", (
    Field("workchain", INT,   "", "Workchain: -1 masterchain, 0 basechain.", always=True),
    Field("shard",     SHARD, "", "Shard: tagged 64-bit prefix, signed.",    always=True),
    Field("seqno",     INT,   "", "Number of the block in its shard.",       always=True),
))

SNAPSHOT = Record("AccountStateSnapshot", "An account's state before or after a transaction.", (
    #     key                kind    unit       meaning                                              column
    Field("hash",             TEXT,   "",        "Hash of the state, base64.", always=True),
    Field("balance",          DIGITS, "nanoton", "Balance; null if it changed again in the block.", null=True),
    Field("extra_currencies", OBJECT, "",        "Extra currencies: id to amount, JSON.", null=True),
    Field("account_status",   TEXT,   "",        "uninit, frozen, active or nonexist.",               "status", null=True),
    Field("frozen_hash",      TEXT,   "",        "Hash of the state that was frozen, base64.", null=True),
    Field("data_hash",        TEXT,   "",        "Hash of the contract's data, base64.", null=True),
    Field("code_hash",        TEXT,   "",        "Hash of the contract's code, base64.", null=True),
    Field("data_boc",         TEXT,   "",        "The contract's data, a bag of cells in base64."),
    Field("code_boc",         TEXT,   "",        "The contract's code, a bag of cells in base64."),
))

STORAGE_PHASE = Record("StoragePhase", "Rent for the account's cells since it was last touched.", (
    Field("storage_fees_collected", DIGITS, "nanoton", "Rent collected."),
    Field("storage_fees_due",       DIGITS, "nanoton", "Rent still owed after that; null if none."),
    Field("status_change",          TEXT,   "",        "unchanged, frozen or deleted.", "storage_status_change"),
))

CREDIT_PHASE = Record("CreditPhase", "The message's value is added to the balance.", (
    Field("due_fees_collected",      DIGITS, "nanoton", "Old storage debt collected; null if none.", "credit_due_fees_collected"),
    Field("credit",                  DIGITS, "nanoton", "Value added to the balance."),
    Field("credit_extra_currencies", OBJECT, "",        "Extra currencies added: id to amount, JSON."),
))

# Until August 2024 the service wrote {"type": "skipped", "skip_reason": "no_state"}, or "vm" (jsonify
# in InsertManagerPostgres.cpp of ton-index-worker, which the Python service passed on).
_TYPE = Older("type", {"skipped": True, "vm": False})
_SKIP_REASON = Older("skip_reason")

COMPUTE_PHASE = Record("ComputePhase", "Execution of the contract by the virtual machine (VM).", (
    #     key                   kind    unit       meaning                                          column
    Field("skipped",             BOOL,   "",        "The VM did not run; `skipped_reason` says why.",      "compute_skipped", older=_TYPE),
    Field("reason",              TEXT,   "",        "no_state, bad_state, no_gas or suspended.",     "skipped_reason", older=_SKIP_REASON),
    Field("success",             BOOL,   "",        "The run was accepted and committed.",           "compute_success"),
    Field("msg_state_used",      BOOL,   "",        "The message's init state was used.",            "compute_msg_state_used"),
    Field("account_activated",   BOOL,   "",        "The run made the account active.",              "compute_account_activated"),
    Field("gas_fees",            DIGITS, "nanoton", "Price of `compute_gas_used`; services exchange the two for special accounts (undo_gas_exchange).",                  "compute_gas_fees"),
    Field("gas_used",            DIGITS, "gas",     "Gas consumed.",                                 "compute_gas_used"),
    Field("gas_limit",           DIGITS, "gas",     "Gas that the message's value buys; 0 for external messages; the whole limit for tick_tock.", "compute_gas_limit"),
    Field("gas_credit",          DIGITS, "gas",     "Gas lent to an external message until it is accepted.", "compute_gas_credit"),
    Field("mode",                INT,    "",        "Always 0.",                                     "compute_mode"),
    Field("exit_code",           INT,    "",        "Exit code of the run; 0 and 1 are success.",    "compute_exit_code"),
    Field("exit_arg",            INT,    "",        "Argument of the exit code; null is 0.",         "compute_exit_arg"),
    Field("vm_steps",            INT,    "steps",   "Instructions executed.",                        "compute_vm_steps"),
    Field("vm_init_state_hash",  TEXT,   "",        "Hash of the VM's first state, base64.",         "compute_vm_init_state_hash"),
    Field("vm_final_state_hash", TEXT,   "",        "Hash of the VM's last state, base64.",          "compute_vm_final_state_hash"),
))

ACTION_PHASE = Record("ActionPhase", "The actions that the run has requested, such as messages to send.", (
    #     key                 kind    unit       meaning                                            column
    Field("success",           BOOL,   "",        "All actions were carried out.",                   "action_success"),
    Field("valid",             BOOL,   "",        "The list of actions could be read.",              "action_valid"),
    Field("no_funds",          BOOL,   "",        "An action failed because money was missing.",     "action_no_funds"),
    Field("status_change",     TEXT,   "",        "unchanged, frozen or deleted.",                   "action_status_change"),
    Field("total_fwd_fees",    DIGITS, "nanoton", "Forwarding fees of the messages created, with the part that is in `action_total_action_fees`.", "action_total_fwd_fees"),
    Field("total_action_fees", DIGITS, "nanoton", "The part of them collected here, and fines.",     "action_total_action_fees"),
    Field("result_code",       INT,    "",        "0 is success.",                                   "action_result_code"),
    Field("result_arg",        INT,    "",        "Index of the action that failed; null is 0.",     "action_result_arg"),
    Field("tot_actions",       INT,    "",        "Actions in the list.",                            "action_tot_actions"),
    Field("spec_actions",      INT,    "",        "Actions other than sending.",                     "action_spec_actions"),
    Field("skipped_actions",   INT,    "",        "Actions skipped as their mode allows.",           "action_skipped_actions"),
    Field("msgs_created",      INT,    "",        "Messages created; not sent if the phase failed.", "action_msgs_created"),
    Field("action_list_hash",  TEXT,   "",        "Hash of the list, base64.",                       "action_action_list_hash"),
    Part("tot_msg_size", SIZE, "Size of the messages created.", "has_action_tot_msg_size", "action_tot_msg_size_{}"),
))

# prepare_bounce_phase in transaction.cpp does not count the root cell, and an ordinary bounced body is in it.
BOUNCED_SIZE = Record("SizeRecord", "Size of something in cells.", (
    Field("cells", DIGITS, "cells", "Number of distinct cells below the root cell; mostly 0."),
    Field("bits",  DIGITS, "bits",  "Number of data bits in them."),
))

BOUNCE_PHASE = Record("BouncePhase", "The message's value is sent back.", (
    Field("type",         TEXT,   "",        "ok, nofunds or negfunds.",                             "bounce"),
    Part("msg_size", BOUNCED_SIZE, "Size of the bounced message below its root cell.", "has_bounce_msg_size", "bounce_msg_size_{}"),
    Field("req_fwd_fees", DIGITS, "nanoton", "Price of sending it back, which was not paid (nofunds).", "bounce_req_fwd_fees"),
    Field("msg_fees",     DIGITS, "nanoton", "The part of the forwarding fee collected here.",       "bounce_msg_fees"),
    Field("fwd_fees",     DIGITS, "nanoton", "The part that travels with the bounced message.",      "bounce_fwd_fees"),
))

SPLIT_INFO = Record("SplitInfo", "Split and merge of accounts; disabled on the network.", (
    Field("cur_shard_pfx_len", INT,  "bits", "Length of the shard's prefix.",       "split_info_cur_shard_pfx_len"),
    Field("acc_split_depth",   INT,  "bits", "Depth at which the account splits.",  "split_info_acc_split_depth"),
    Field("this_addr",         TEXT, "",     "This half's address.",                "split_info_this_addr"),
    Field("sibling_addr",      TEXT, "",     "The other half's address.",           "split_info_sibling_addr"),
))

DESCRIPTION = Record("TransactionDescription", "What kind of transaction, and its phases.", (
    Field("type",         TEXT, "", "ord, tick_tock, …",                               "descr", always=True),
    Field("aborted",      BOOL, "", "The compute phase or the action phase did not succeed."),
    Field("destroyed",    BOOL, "", "The account was deleted."),
    Field("credit_first", BOOL, "", "The credit phase came before the storage phase: the message does not bounce."),
    Field("is_tock",      BOOL, "", "Runs at the end of the block (tick_tock)."),
    Field("installed",    BOOL, "", "Split or merge took effect."),
    Part("storage_ph", STORAGE_PHASE, "Storage phase.", "has_storage"),
    Part("credit_ph",  CREDIT_PHASE,  "Credit phase.",  "has_credit"),
    Part("compute_ph", COMPUTE_PHASE, "Compute phase.", "has_compute"),
    Part("action",     ACTION_PHASE,  "Action phase.",  "has_action"),
    Part("bounce",     BOUNCE_PHASE,  "Bounce phase.",  "has_bounce"),
    Part("split_info", SPLIT_INFO,    "Split info.",    "has_split_info"),
))

# ── messages ─────────────────────────────────────────────────────────────────────────────────────

DECODED_BODY = Record("DecodedBody", "A message's body as the service has decoded it, if it could.", (
    #     key       kind    unit meaning                                              column
    Field("type",    TEXT,   "", "Scheme, such as text_comment; some services wrongly send a field's name, such as @type or amount.", "decoded_type"),
    Field("@type",   TEXT,   "", "+ The same, from newer services.",                   "decoded_type"),
    Field("comment", TEXT,   "", "The text of a comment. Anyone can write any text.",  "comment"),
    Field("data",    OBJECT, "", "The fields of the scheme."),
))

MESSAGE_CONTENT = Record("MessageContent", "A message's body.", (
    Field("hash", TEXT, "", "Hash of the body, base64.",             "body_hash", null=True),
    Field("body", TEXT, "", "The body, a bag of cells in base64.",   "body", null=True),
    Loose("decoded", DECODED_BODY, "The body as the service has decoded it, JSON.", "decoded", null=True),
))

INIT_STATE = Record("InitState", "Code and data that come with a message.", (
    Field("hash", TEXT, "", "Hash of the init state, base64.",           "init_state_hash", null=True),
    Field("body", TEXT, "", "The init state, a bag of cells in base64.", "init_state_body", null=True),
    Field("decoded", OBJECT, "", "Always null so far, JSON.",            "init_state_decoded", null=True),
))

MESSAGE = Record("Message", "A message, as one of its two transactions has it.", (
    #     key                     kind     unit       meaning                                        column
    Field("hash",                   TEXT,   "",        "Hash of the message, base64.",                "msg_hash", always=True),
    Field("hash_norm",              TEXT,   "",        "Hash of an external message, normalised (TEP-467).", "msg_hash_norm"),
    Field("source",                 TEXT,   "",        "Sender, raw; null for external-in.", null=True),
    Field("destination",            TEXT,   "",        "Receiver, raw; null for external-out.", null=True),
    Field("value",                  DIGITS, "nanoton", "Value carried.", null=True),
    Field("value_extra_currencies", OBJECT, "",        "Extra currencies carried: id to amount, JSON.", null=True),
    Field("fwd_fee",                DIGITS, "nanoton", "Forwarding fee that travels with the message.", null=True),
    Field("ihr_fee",                DIGITS, "nanoton", "Fee for instant hypercube routing; the receiver gets it.", null=True),
    Field("extra_flags",            DIGITS, "",        "+ Flags of the message; bit 0 asks for the new bounce format.", null=True),
    Field("created_lt",             DIGITS, "lt",      "Logical time of the message.", null=True),
    Field("created_at",             DIGITS, "s",       "Unix time of the message.", null=True),
    Field("opcode",                 OPCODE, "",        "First 32 bits of the body, unsigned; of a signature, mostly, in external messages.", null=True),
    Field("decoded_opcode",         TEXT,   "",        "+ Name of the opcode at the service.", null=True),
    Field("ihr_disabled",           BOOL,   "",        "Instant hypercube routing is disabled.", null=True),
    Field("bounce",                 BOOL,   "",        "Is sent back if its receiver fails.", null=True),
    Field("bounced",                BOOL,   "",        "Was sent back.", null=True),
    Field("import_fee",             DIGITS, "nanoton", "Import fee as the sender declared it; the network ignores it.", null=True),
    Field("in_msg_tx_hash",         TEXT,   "",        "The transaction that received it, base64."),
    Field("out_msg_tx_hash",        TEXT,   "",        "The transaction that sent it, base64."),
    Part("message_content", MESSAGE_CONTENT, "Body.",       "has_message_content", null=True),
    Part("init_state",      INIT_STATE,      "Init state.", "has_init_state", null=True),
))

# ── transactions and blocks ──────────────────────────────────────────────────────────────────────

TRANSACTION = Record("Transaction", "One run of one account, with its phases.", (
    #     key                         kind    unit       meaning                                        column
    Field("account",                   TEXT,   "",        "Account, raw.",                                   always=True),
    Field("hash",                      TEXT,   "",        "Hash of the transaction, base64.",                always=True),
    Field("lt",                        DIGITS, "lt",      "Logical time; unique within the account.",        always=True),
    Field("now",                       INT,    "s",       "Unix time of its block.",                         always=True),
    Derived("block_time", "now",                          "Time of its block."),
    Field("mc_block_seqno",            INT,    "",        "Masterchain block that first commits it.",        always=True),
    Part("block_ref", BLOCK_REF,                          "The block that contains it.", columns="block_{}"),
    Field("trace_id",                  TEXT,   "",        "Hash of the first transaction of its trace, base64."),
    Field("trace_external_hash",       TEXT,   "",        "Hash of the first message of its trace, base64."),
    Field("prev_trans_hash",           TEXT,   "",        "Hash of the account's previous transaction, base64.", always=True),
    Field("prev_trans_lt",             DIGITS, "lt",      "Its logical time.",                               always=True),
    Field("orig_status",               TEXT,   "",        "Status before: uninit, frozen, active or nonexist.",      always=True),
    Field("end_status",                TEXT,   "",        "The account after.",                              always=True),
    Field("total_fees",                DIGITS, "nanoton", "Fees that validators collect here; forwarding fees travel with the messages.", always=True),
    Field("total_fees_extra_currencies", OBJECT, "",      "The same in extra currencies, JSON.", null=True),
    Part("description", DESCRIPTION,                      "Kind and phases."),
    Part("account_state_before", SNAPSHOT, "The account before.", "has_account_state_before", "account_state_{}_before", null=True),
    Part("account_state_after",  SNAPSHOT, "The account after.",  "has_account_state_after",  "account_state_{}_after", null=True),
    Field("emulated",                  BOOL,   "",        "Emulated, not from the chain."),
    Field("finality",                  TEXT,   "",        "+ pending, confirmed or finalized."),
    Rows("in_msg",   MESSAGE, "The message that started it.", single=True, null=True),
    Rows("out_msgs", MESSAGE, "The messages that it sent."),
))

BLOCK = Record("Block", "A block of the masterchain or of a shard.", (
    #     key                         kind    unit  meaning                                             column
    Part("masterchain_block_ref", BLOCK_REF,        "The masterchain block that first commits it.", columns="mc_block_{}"),
    Field("workchain",                 INT,    "",   "Workchain: -1 masterchain, 0 basechain.",          always=True),
    Field("shard",                     SHARD,  "",   "Shard: tagged 64-bit prefix, signed.",             always=True),
    Field("seqno",                     INT,    "",   "Number of the block in its shard.",                always=True),
    Field("root_hash",                 TEXT,   "",   "Hash of the block's cells, base64."),
    Field("file_hash",                 TEXT,   "",   "Hash of the block's file, base64."),
    Field("global_id",                 INT,    "",   "Network: -239 mainnet, -3 testnet."),
    Field("version",                   INT,    "",   "Version of the block's format."),
    Field("gen_utime",                 DIGITS, "s",  "Unix time."),
    Derived("block_time", "gen_utime",               "Time."),
    Field("start_lt",                  DIGITS, "lt", "First logical time."),
    Field("end_lt",                    DIGITS, "lt", "Last logical time."),
    Field("tx_count",                  INT,    "",   "Transactions in the block."),
    Field("prev_blocks",               ARRAY,  "",   "The block before it, two after a merge, JSON.", null=True),
    Field("after_merge",               BOOL,   "",   "Two shards were merged into this one."),
    Field("before_split",              BOOL,   "",   "The shard splits after this block."),
    Field("after_split",               BOOL,   "",   "The first block after a split."),
    Field("want_merge",                BOOL,   "",   "Too little to do for two shards."),
    Field("want_split",                BOOL,   "",   "Too much to do for one shard."),
    Field("key_block",                 BOOL,   "",   "Holds the network's configuration."),
    Field("vert_seqno_incr",           BOOL,   "",   "Hard fork."),
    Field("flags",                     INT,    "",   "Flags of the header."),
    Field("validator_list_hash_short", INT,    "",   "Short hash of the list of validators."),
    Field("gen_catchain_seqno",        INT,    "",   "Number of the validators' session (catchain)."),
    Field("min_ref_mc_seqno",          INT,    "",   "Oldest masterchain block that it refers to."),
    Field("prev_key_block_seqno",      INT,    "",   "The previous key block."),
    Field("vert_seqno",                INT,    "",   "Number of hard forks before."),
    Field("master_ref_seqno",          INT,    "",   "Masterchain block whose configuration it uses."),
    Field("rand_seed",                 TEXT,   "",   "Random seed, base64."),
    Field("created_by",                TEXT,   "",   "Key of the validator that created it, base64."),
))

# ── accounts and what is known by address ────────────────────────────────────────────────────────

ACCOUNT = Record("AccountState", "An account at the moment it was fetched.", (
    Field("address",               TEXT,   "",        "Account, raw.", always=True),
    Field("status",                TEXT,   "",        "uninit, frozen, active or nonexist.", null=True),
    Field("balance",               DIGITS, "nanoton", "Balance, rent since the last transaction not deducted.", null=True),
    Field("extra_currencies",      OBJECT, "",        "Extra currencies: id to amount, JSON.", null=True),
    Field("last_transaction_lt",   DIGITS, "lt",      "Logical time of its last transaction.", null=True),
    Field("last_transaction_hash", TEXT,   "",        "Its last transaction, base64.", null=True),
    Field("account_state_hash",    TEXT,   "",        "Hash of the state, base64."),
    Field("frozen_hash",           TEXT,   "",        "Hash of the state that was frozen, base64."),
    Field("data_hash",             TEXT,   "",        "Hash of the contract's data, base64."),
    Field("code_hash",             TEXT,   "",        "Hash of the contract's code, base64."),
    Field("data_boc",              TEXT,   "",        "The contract's data, a bag of cells in base64."),
    Field("code_boc",              TEXT,   "",        "The contract's code, a bag of cells in base64."),
    Field("contract_methods",      ARRAY,  "",        "Ids of its get-methods, JSON.", null=True),
    Field("interfaces",            ARRAY,  "",        "+ Interfaces that it has, JSON.", null=True),
))

ADDRESS_BOOK_ENTRY = Record("AddressBookEntry", "An address in the forms that people read.", (
    Field("user_friendly", TEXT,  "", "+ User-friendly form.",                            "user_friendly"),
    Field("domain",        TEXT,  "", "+ Its .ton name. Anyone can register a free name.", "domain"),
    Field("interfaces",    ARRAY, "", "+ Interfaces that the account has, JSON.",         "interfaces"),
))

ADDRESS_BOOK_ROW = Record("AddressBookRow", "An entry of the address book.", (
    Field("address", TEXT, "", "Account, raw.", always=True),
    Loose("entry", ADDRESS_BOOK_ENTRY, "The entry as the service sent it, JSON.", "entry"),
))

METADATA_ENTRY = Record("MetadataEntry", "What the service knows about a token.", (
    Field("is_indexed", BOOL,  "", "+ The service has read the token's description.",       "is_indexed"),
    Field("token_info", ARRAY, "", "+ Type, name, symbol, image, … from the token, JSON.",    "token_info"),
))

METADATA_ROW = Record("MetadataRow", "An entry of the metadata.", (
    Field("address", TEXT, "", "Account, raw.", always=True),
    Loose("entry", METADATA_ENTRY, "The entry as the service sent it, JSON.", "entry"),
))

# ── answers and tables ────────────────────────────────────────────────────────────────────────────

BLOCKS_ANSWER = Record("MasterchainBlockShards", "Answer about one masterchain block.", (
    Rows("blocks",       BLOCK,       "+ The blocks it commits; deployed services answer with these."),
    Rows("transactions", TRANSACTION, "The transactions in them.", raw=True),
    Entries("address_book", ADDRESS_BOOK_ROW, "Entries for the addresses in the answer."),
))

ACCOUNTS_ANSWER = Record("AccountStates", "Answer about a list of accounts.", (
    Rows("accounts", ACCOUNT, "The accounts that exist, in any order."),
    Entries("address_book", ADDRESS_BOOK_ROW, "Entries for the addresses that were asked for."),
    Entries("metadata",     METADATA_ROW,     "Entries for the tokens among them."),
))

_EXTRA = Column("extra", OBJECT, "", "Fields without a column, older spellings, numbers outside int64: value by JSON pointer, JSON.")
_FETCHED = Column("fetched_at", TIME, "", "When it was fetched.")

TRANSACTIONS = Table("transactions", TRANSACTION, keys=(("hash",), ("account", "lt")), order=("mc_block_seqno", "lt", "account"), after=(_EXTRA,))

MESSAGES = Table("messages", MESSAGE, keys=(("tx_hash", "direction", "position"),), order=(), before=(
    Column("tx_hash",        TEXT,   "",   "The transaction, base64.", always=True, of="hash"),
    Column("tx_lt",          DIGITS, "lt", "Its logical time.",        always=True, of="lt"),
    Column("tx_now",         INT,    "s",  "Its unix time.",           always=True, of="now"),
    Column("block_time",     TIME,   "",   "Time of the transaction.", of="block_time"),
    Column("mc_block_seqno", INT,    "",   "Masterchain block that first commits it.", always=True, of="mc_block_seqno"),
    Column("trace_id",       TEXT,   "",   "Its trace, base64.",       of="trace_id"),
    Column("direction",      TEXT,   "",   "in: it started the transaction; out: it was sent by it.", always=True),
    Column("position",       INT,    "",   "Position among the out messages, from 0; null for in."),
), after=(_EXTRA,))

BLOCKS = Table("blocks", BLOCK, keys=(("workchain", "shard", "seqno"),), order=("mc_block_seqno", "workchain", "shard", "seqno"), after=(_EXTRA,))

ACCOUNTS = Table("accounts", ACCOUNT, keys=(("address",),), order=(), after=(
    _EXTRA,
    Column("found",      BOOL, "", "The service knows the account.", always=True),
    Column("with_boc",   BOOL, "", "Whether code and data were asked for; null if unknown."),
    _FETCHED,
))

ADDRESS_BOOK = Table("address_book", ADDRESS_BOOK_ROW, keys=(("address",),), order=("address",), after=(_FETCHED,))

METADATA = Table("metadata", METADATA_ROW, keys=(("address",),), order=("address",), after=(_FETCHED,))

# What a store knows of histories; no answer has it.
HISTORIES = Table("histories", Record("History", "Consecutive transactions of an account.", ()), keys=(), order=("account", "start_lt", "stop_lt"), before=(
    Column("account",     TEXT,   "",   "Account, raw.", always=True),
    Column("start_lt",    DIGITS, "lt", "From this logical time on nothing is missing; the transaction before is that of 1 less.", always=True),
    Column("stop_lt",     DIGITS, "lt", "Before this logical time; the last transaction is that of 1 less.", always=True),
    Column("start_utime", INT,    "s",  "From this unix second on nothing is missing.", always=True),
    Column("stop_utime",  INT,    "s",  "Before this unix second.", always=True),
    Column("start_hash",  TEXT,   "",   "The transaction before, base64; null if there is none."),
    Column("stop_hash",   TEXT,   "",   "The last transaction, base64; null where a span has no transactions."),
))

TABLES = {table.name: table for table in (TRANSACTIONS, MESSAGES, BLOCKS, ACCOUNTS, ADDRESS_BOOK, METADATA)}
