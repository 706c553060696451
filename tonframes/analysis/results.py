"""What each helper returns, one table each.

From this file follow the columns of the frames and their order, `describe`, what `to_ton` converts,
and the units on the axes of plots. There is no function here. On pandas integers are Int64,
booleans boolean, ratios Float64 and texts str, whatever the rows.
"""

from __future__ import annotations

from tonframes.analysis.result import BY, Result
from tonframes.bodies import result as bodies
from tonframes.wire.kinds import BOOL, FLOAT, INT, TEXT
from tonframes.wire.record import Column

_HASH    = Column("hash",    TEXT, "",   "The transaction, base64.")
_ACCOUNT = Column("account", TEXT, "",   "Its account, raw.")
_LT      = Column("lt",      INT,  "lt", "Its logical time.")
_NOW     = Column("now",     INT,  "s",  "Its unix time.")

_TRANSACTIONS = Column("transactions", INT, "", "Number of transactions.")
_ACCOUNTS     = Column("accounts",     INT, "", "Number of accounts that they are of.")

# ── fees ─────────────────────────────────────────────────────────────────────────────────────────

_PARTS = (
    #      name        kind  unit       meaning
    Column("storage", INT,  "nanoton", "Rent collected."),
    Column("gas",     INT,  "nanoton", "Fee of the compute phase."),
    Column("action",  INT,  "nanoton", "Part of the forwarding fees that is collected here, and fines."),
    Column("bounce",  INT,  "nanoton", "The same part for the message that bounced."),
    Column("import",  INT,  "nanoton", "Fee for importing the external message."),
    Column("due",     INT,  "nanoton", "Old storage debt collected."),
)

FEE_BREAKDOWN = Result("fee_breakdown", "A row a transaction: the parts of its fees.", (
    _HASH,
    *_PARTS,
    Column("total",    INT,  "nanoton", "`total_fees` of the transaction."),
    Column("residual", INT,  "nanoton", "`total` less all parts; 0 in true data."),
    Column("complete", BOOL, "",        "Every phase that the transaction must have had is there."),
))

FEE_SUMMARY = Result("fee_summary", "A row a group: what its transactions cost. The largest cost comes first.", (
    BY,
    _TRANSACTIONS,
    *_PARTS,
    Column("residual",   INT,   "nanoton", "Fees that violate the rules; 0 in true data."),
    Column("unknown",    INT,   "nanoton", "Fees of transactions with phases missing, as far as unexplained."),
    Column("total_fees", INT,   "nanoton", "What validators collected in these transactions."),
    Column("fwd_fees",   INT,   "nanoton", "What left with the messages that they sent."),
    Column("cost",       INT,   "nanoton", "`total_fees` and `fwd_fees`: what the accounts paid."),
    Column("share",      FLOAT, "",        "Part of the cost of all groups, 0 to 1."),
))

CHECK_FEES = Result("check_fees", "A row a transaction: whether its fees add up.", (
    _HASH,
    _ACCOUNT,
    Column("verdict",    TEXT, "",        "ok, unknown or violated."),
    Column("difference", INT,  "nanoton", "How much more there is than the rules give; null is unknown."),
    Column("why",        TEXT, "",        "The reason, where the verdict is not ok."),
))

CHECK_BALANCES = Result("check_balances", "A row a transaction: whether the account's balance adds up.", (
    _HASH,
    _ACCOUNT,
    _LT,
    *CHECK_FEES.columns[2:],
    Column("chain",      INT,  "",        "Number of transactions that are judged together."),
))

# ── gas ──────────────────────────────────────────────────────────────────────────────────────────

GAS_SUMMARY = Result("gas_summary", "A row a group: the gas of its calls. The largest gas_fees come first.", (
    BY,
    _TRANSACTIONS,
    Column("calls",         INT,   "",            "Transactions in which the contract was run."),
    Column("skipped",       INT,   "",            "Transactions of which the compute phase was skipped."),
    Column("free",          INT,   "",            "Calls of special accounts, whose gas is free."),
    Column("gas_used",      INT,   "gas",         "Gas of all calls."),
    Column("gas_mean",      FLOAT, "gas",         "Mean gas of a call."),
    Column("gas_median",    INT,   "gas",         "Median gas of a call, by nearest rank."),
    Column("gas_p95",       INT,   "gas",         "95th percentile of the gas of a call, by nearest rank."),
    Column("gas_max",       INT,   "gas",         "Most gas of a call."),
    Column("gas_fees",      INT,   "nanoton",     "What the gas cost."),
    Column("price_per_gas", FLOAT, "nanoton/gas", "`gas_fees` divided by `gas_used`."),
    Column("limit_use_max", FLOAT, "",            "Most gas of a call, divided by the network's limit."),
    Column("vm_steps",      INT,   "steps",       "Steps of the virtual machine."),
    Column("gas_per_step",  FLOAT, "gas/step",    "`gas_used` divided by `vm_steps`."),
))

GAS_OUTLIERS = Result("gas_outliers", "A row a call that used far more gas than is usual. The largest ratio comes first.", (
    _HASH,
    _ACCOUNT,
    _LT,
    _NOW,
    BY,
    Column("gas_used",   INT,   "gas", "Gas of the call."),
    Column("gas_median", INT,   "gas", "Median gas of the calls of its group, by nearest rank."),
    Column("ratio",      FLOAT, "",    "`gas_used` divided by `gas_median`; null where that is 0."),
    Column("calls",      INT,   "",    "Number of calls in its group."),
))

PRICE_OF = Result("price_of", "A row a transaction: by which prices it paid for gas.", (
    _HASH,
    Column("price",  TEXT, "", "Name of the row of the price history."),
    Column("reason", TEXT, "", "Why there is none: skipped, free, none, several or unknown."),
))

# ── failures ─────────────────────────────────────────────────────────────────────────────────────

FAILURES = Result("failures", "A row a transaction that failed or looks as if: why.", (
    _HASH,
    _ACCOUNT,
    _LT,
    _NOW,
    Column("phase",      TEXT, "",        "skipped, compute, action, committed, ignored or deposit."),
    Column("code",       INT,  "",        "Exit code, of phase action result code."),
    Column("name",       TEXT, "",        "Name of the code or reason."),
    Column("meaning",    TEXT, "",        "Meaning of the code or reason."),
    Column("result_arg", INT,  "",        "Of phase action: index of the action that failed, from 0."),
    Column("no_funds",   BOOL, "",        "Of phase action: it failed for want of money."),
    Column("bounce",     TEXT, "",        "ok, nofunds or none: what became of the value."),
    Column("cost",       INT,  "nanoton", "Fees, and what left with the bounce for forwarding it."),
    Column("stuck",      INT,  "nanoton", "What came with the message and stayed with the account for nothing."),
))

FAILURE_SUMMARY = Result("failure_summary", "A row a group in which something failed. The most failures come first.", (
    BY,
    Column("failures", INT,   "",        "Number of failed transactions."),
    Column("rate",     FLOAT, "",        "Part of all transactions of the group that failed so, 0 to 1."),
    Column("accounts", INT,   "",        "Number of accounts that failed so."),
    Column("cost",     INT,   "nanoton", "Sum of `cost` of `failures`."),
    Column("stuck",    INT,   "nanoton", "Sum of `stuck` of `failures`."),
))

# ── traces, activity, storage ────────────────────────────────────────────────────────────────────

TRACE_COSTS = Result("trace_costs", "A row a trace: what it cost. The largest cost comes first.", (
    Column("trace_id",   TEXT, "",        "Hash of the first transaction, base64."),
    Column("started_by", TEXT, "",        "Account of the first transaction, raw."),
    Column("started_at", INT,  "s",       "Unix time of the first transaction."),
    Column("complete",   BOOL, "",        "The frames hold all of the trace."),
    _TRANSACTIONS,
    _ACCOUNTS,
    Column("depth",      INT,  "",        "Transactions of the longest chain."),
    Column("failures",   INT,  "",        "Number of aborted transactions that are no deposits."),
    Column("total_fees", INT,  "nanoton", "What validators collected in these transactions."),
    Column("fwd_fees",   INT,  "nanoton", "What left with the messages that they sent."),
    Column("cost",       INT,  "nanoton", "`total_fees` and `fwd_fees`: what the accounts paid."),
    Column("attached",   INT,  "nanoton", "Value of the messages that the first transaction sent."),
    Column("excesses",   INT,  "nanoton", "Value of the excesses that came back to `started_by`."),
))

ACTIVITY = Result("activity", "A row a group: what its transactions did, in the order of `by`.", (
    BY,
    _TRANSACTIONS,
    _ACCOUNTS,
    Column("messages_in",  INT, "",        "Messages that ran these transactions."),
    Column("messages_out", INT, "",        "Messages that they sent."),
    Column("external",     INT, "",        "Those of both that came from outside, or went there."),
    Column("internal",     INT, "",        "Messages from account to account that arrived."),
    Column("value",        INT, "nanoton", "What these brought."),
    Column("gas_used",     INT, "gas",     "Gas of the transactions."),
    Column("total_fees",   INT, "nanoton", "What validators collected in these transactions."),
))

FLOWS = Result("flows", "A row a group of messages: who sent how much to whom. The largest value comes first.", (
    BY,
    Column("messages",      INT, "",        "Number of messages that did not bounce."),
    Column("value",         INT, "nanoton", "What they carried."),
    Column("bounced",       INT, "",        "Number of further messages, which came back."),
    Column("bounced_value", INT, "nanoton", "What those carried."),
))

STORAGE_RATES = Result("storage_rates", "A row an account: its rent. The largest rent comes first.", (
    Column("account",        TEXT,  "",            "The account, raw."),
    Column("status",         TEXT,  "",            "Its status after its last transaction."),
    Column("now",            INT,   "s",           "Unix time of that transaction."),
    Column("balance",        INT,   "nanoton",     "Balance after that transaction."),
    Column("debt",           INT,   "nanoton",     "Rent owed after that transaction."),
    Column("intervals",      INT,   "",            "Intervals between transactions that are counted."),
    Column("collected",      INT,   "nanoton",     "Rent collected over them."),
    Column("seconds",        INT,   "s",           "Length of them together."),
    Column("rent_per_day",   FLOAT, "nanoton/day", "`collected` divided by `seconds`, for a day."),
    Column("rent_error",     FLOAT, "nanoton/day", "The true rent is smaller than that by less than this."),
    Column("steady",         BOOL,  "",            "One rate explains every interval."),
    Column("days_left",      FLOAT, "days",        "From `now`: how long the balance pays the rent, at least."),
    Column("days_to_freeze", FLOAT, "days",        "From `now`: how long until the account may be frozen, at least."),
))

# ── bodies and names ────────────────────────────────────────────────────────────────────────────────────────

DECODE_BODIES = Result("decode_bodies", "A row a message: what its body says.", bodies.RESULT)

WITH_NAMES = Result("with_names", "The rows of the frame, and after each column of addresses two more.", (
    Column("<column>_name",     TEXT, "", "Symbol or name of the token, or else the domain."),
    Column("<column>_friendly", TEXT, "", "User-friendly form of the address."),
))

RESULTS = {result.name: result for result in (
    FEE_BREAKDOWN, FEE_SUMMARY, CHECK_FEES, CHECK_BALANCES, GAS_SUMMARY, GAS_OUTLIERS, PRICE_OF,
    FAILURES, FAILURE_SUMMARY, TRACE_COSTS, ACTIVITY, FLOWS, STORAGE_RATES, DECODE_BODIES,
    WITH_NAMES,
)}
