"""What each helper returns, one table each.

The columns of the frames and their order, `describe`, what `to_ton` converts, and the units on the
axes of plots all follow from this file. On pandas, integers are Int64, booleans
boolean, ratios Float64 and texts str. These dtypes do not depend on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tonframes.bodies import columns as bodies
from tonframes.wire.kinds import BOOL, FLOAT, INT, TEXT
from tonframes.wire.record import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Marks the place of the columns of `by` in a declaration.
BY = Column("by", TEXT, "", 'The columns that were grouped by. An operation may have several opcodes: add "opcode" to by.')


@dataclass(frozen=True, eq=False)
class Result:
    """What a helper returns: what a row is, and which columns it has."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def figures(self) -> list[str]:
        """Names of the columns, without those of `by`."""
        return [column.name for column in self.columns if column is not BY]

    @property
    def amounts(self) -> list[str]:
        """Names of the amounts in nanoton."""
        return [column.name for column in self.columns if column.unit == "nanoton"]

    def names(self, keys: Sequence[str] = (), suffix: str = "") -> list[str]:
        """List the columns of a frame that is grouped by `keys`, in order."""
        names: list[str] = []
        for column in self.columns:
            names += keys if column is BY else [column.name]
            if suffix and column.unit == "nanoton":
                names.append(f"{column.name}{suffix}")
        return list(dict.fromkeys(names))


_HASH    = Column("hash",    TEXT, "",   "The transaction, base64.")
_ACCOUNT = Column("account", TEXT, "",   "Its account, raw.")
_LT      = Column("lt",      INT,  "lt", "Its logical time.")
_NOW     = Column("now",     INT,  "s",  "Its unix time.")

_TRANSACTIONS = Column("transactions", INT, "", "Number of transactions.")
_ACCOUNTS     = Column("accounts",     INT, "", "Number of different accounts.")

# ── fees ─────────────────────────────────────────────────────────────────────────────────────────

_PARTS = (
    #      name        kind  unit       meaning
    Column("storage", INT,  "nanoton", "Rent collected."),
    Column("gas",     INT,  "nanoton", "Fee of the compute phase."),
    Column("action",  INT,  "nanoton", "Part of the forwarding fees that is collected here, and fines."),
    Column("bounce",  INT,  "nanoton", "The same part of the forwarding fee of the bounced message."),
    Column("import",  INT,  "nanoton", "Fee for importing the external message."),
    Column("due",     INT,  "nanoton", "Old storage debt collected."),
)

FEE_BREAKDOWN = Result("fee_breakdown", "One row per transaction: the parts of its fees.", (
    _HASH,
    *_PARTS,
    Column("total",    INT,  "nanoton", "`total_fees` of the transaction."),
    Column("residual", INT,  "nanoton", "`total` minus all parts; 0 in correct data."),
    Column("complete", BOOL, "",        "No phase of the transaction is missing."),
))

FEE_SUMMARY = Result("fee_summary", "One row per group: what its transactions cost. The largest cost comes first.", (
    BY,
    _TRANSACTIONS,
    *_PARTS,
    Column("residual",   INT,   "nanoton", "Fees that violate the rules; 0 in correct data."),
    Column("unknown",    INT,   "nanoton", "Fees that cannot be assigned because phases are missing."),
    Column("total_fees", INT,   "nanoton", "What validators collected in these transactions."),
    Column("fwd_fees",   INT,   "nanoton", "Part of the forwarding fees that travels with the messages sent."),
    Column("cost",       INT,   "nanoton", "`total_fees` plus `fwd_fees`: what the accounts paid."),
    Column("share",      FLOAT, "",        "Share of the cost of all groups, 0 to 1."),
))

CHECK_FEES = Result("check_fees", "One row per transaction: whether its fees add up and its fields agree.", (
    _HASH,
    _ACCOUNT,
    Column("verdict",    TEXT, "",        "ok, unknown or violated."),
    Column("difference", INT,  "nanoton", "Amount in the data minus the amount by the rules; null if unknown."),
    Column("why",        TEXT, "",        "The reason, if the verdict is not ok."),
))

CHECK_BALANCES = Result("check_balances", "One row per transaction: whether the account's balance adds up.", (
    _HASH,
    _ACCOUNT,
    _LT,
    *CHECK_FEES.columns[2:],
    Column("chain",      INT,  "",        "Number of transactions that are checked together."),
))

# ── gas ──────────────────────────────────────────────────────────────────────────────────────────

GAS_SUMMARY = Result("gas_summary", "One row per group: the gas of its calls. The largest gas_fees come first.", (
    BY,
    _TRANSACTIONS,
    Column("calls",         INT,   "",            "Transactions in which the contract was run."),
    Column("skipped",       INT,   "",            "Transactions whose compute phase was skipped."),
    Column("free",          INT,   "",            "Calls of special accounts, whose gas is free."),
    Column("gas_used",      INT,   "gas",         "Gas of all calls."),
    Column("gas_mean",      FLOAT, "gas",         "Mean gas of a call."),
    Column("gas_median",    INT,   "gas",         "Median gas of a call, by nearest rank."),
    Column("gas_p95",       INT,   "gas",         "95th percentile of the gas of a call, by nearest rank."),
    Column("gas_max",       INT,   "gas",         "Largest gas of a call."),
    Column("gas_fees",      INT,   "nanoton",     "What the gas cost."),
    Column("price_per_gas", FLOAT, "nanoton/gas", "`gas_fees` divided by `gas_used`."),
    Column("limit_use_max", FLOAT, "",            "Largest gas of a call, divided by the network's limit."),
    Column("vm_steps",      INT,   "steps",       "Steps of the virtual machine."),
    Column("gas_per_step",  FLOAT, "gas/step",    "`gas_used` divided by `vm_steps`."),
))

GAS_OUTLIERS = Result("gas_outliers", "One row per call that used far more gas than usual. The largest ratio comes first.", (
    _HASH,
    _ACCOUNT,
    _LT,
    _NOW,
    BY,
    Column("gas_used",   INT,   "gas", "Gas of the call."),
    Column("gas_median", INT,   "gas", "Median gas of the calls of its group, or of all, by nearest rank."),
    Column("ratio",      FLOAT, "",    "`gas_used` divided by `gas_median`; null if that is 0."),
    Column("calls",      INT,   "",    "Number of calls in its group, or of all calls."),
))

PRICE_OF = Result("price_of", "One row per transaction: the prices at which it paid for gas.", (
    _HASH,
    Column("price",  TEXT, "", "Name of the row of the price history that fits."),
    Column("reason", TEXT, "", "Why `price` is null: skipped, free, none, several or unknown."),
))

# ── failures ─────────────────────────────────────────────────────────────────────────────────────

FAILURES = Result("failures", "One row per transaction that failed, or may look so: the reason.", (
    _HASH,
    _ACCOUNT,
    _LT,
    _NOW,
    Column("phase",      TEXT, "",        "skipped, compute, action, committed, ignored, deposit or dust."),
    Column("code",       INT,  "",        "Exit code; in phase action, result code."),
    Column("name",       TEXT, "",        "Name of the code or reason."),
    Column("meaning",    TEXT, "",        "Meaning of the code or reason."),
    Column("result_arg", INT,  "",        "In phase action: index of the action that failed, from 0."),
    Column("no_funds",   BOOL, "",        "In phase action: it failed because money was missing."),
    Column("bounce",     TEXT, "",        "ok, nofunds or none: whether the value was sent back."),
    Column("cost",       INT,  "nanoton", "`total_fees` plus the forwarding fee that travels with a bounce."),
    Column("stuck",      INT,  "nanoton", "Value that came with the message and stayed with the account."),
))

FAILURE_SUMMARY = Result("failure_summary", "One row per group with failures. The most failures come first.", (
    BY,
    Column("failures",      INT,   "",        "Number of failed transactions."),
    Column("rate",          FLOAT, "",        "Share of the transactions that failed in this way, 0 to 1."),
    Column("call_rate",     FLOAT, "",        "The same share of the transactions without deposits and dust."),
    Column("accounts",      INT,   "",        "Number of different accounts that failed in this way."),
    Column("cost",          INT,   "nanoton", "Sum of `cost` of `failures`."),
    Column("stuck",         INT,   "nanoton", "Sum of `stuck` of `failures`, where it is known."),
    Column("stuck_unknown", INT,   "",        "Number of failures whose `stuck` is unknown."),
))

# ── traces, activity, storage ────────────────────────────────────────────────────────────────────

TRACE_COSTS = Result("trace_costs", "One row per trace: what it cost. The largest cost comes first.", (
    Column("trace_id",   TEXT, "",        "Hash of the first transaction, base64."),
    Column("started_by", TEXT, "",        "Account of the first transaction, raw."),
    Column("started_at", INT,  "s",       "Unix time of the first transaction."),
    Column("complete",   BOOL, "",        "The frames contain the whole trace."),
    _TRANSACTIONS,
    _ACCOUNTS,
    Column("depth",      INT,  "",        "Number of transactions in the longest chain."),
    Column("failures",   INT,  "",        "Number of aborted transactions, without deposits and dust."),
    Column("total_fees", INT,  "nanoton", "What validators collected in these transactions."),
    Column("fwd_fees",   INT,  "nanoton", "Part of the forwarding fees that travels with the messages sent."),
    Column("cost",       INT,  "nanoton", "`total_fees` plus `fwd_fees`: what the accounts paid."),
    Column("attached",   INT,  "nanoton", "Value of the messages that the first transaction sent."),
    Column("excesses",   INT,  "nanoton", "Value of the excesses that came back to `started_by`."),
))

ACTIVITY = Result("activity", "One row per group: what its transactions did, in the order of `by`.", (
    BY,
    _TRANSACTIONS,
    _ACCOUNTS,
    Column("messages_in",  INT, "",        "Messages that started these transactions."),
    Column("messages_out", INT, "",        "Messages that these transactions sent."),
    Column("external",     INT, "",        "Messages in and out whose other end is outside the chain."),
    Column("internal",     INT, "",        "Messages in that another account sent."),
    Column("value",        INT, "nanoton", "Value of the internal messages."),
    Column("gas_used",     INT, "gas",     "Gas of the transactions."),
    Column("total_fees",   INT, "nanoton", "What validators collected in these transactions."),
))

FLOWS = Result("flows", "One row per group of messages: who sent how much to whom. The largest value comes first.", (
    BY,
    Column("messages",      INT, "",        "Number of messages, without those that come back."),
    Column("value",         INT, "nanoton", "Value of these messages, also of those that were sent back."),
    Column("bounced",       INT, "",        "Number of messages that come back from a failed call, which `messages` does not count."),
    Column("bounced_value", INT, "nanoton", "Value that comes back with them."),
))

STORAGE_RATES = Result("storage_rates", "One row per account: its rent. The largest rent comes first, special accounts last.", (
    Column("account",        TEXT,  "",            "The account, raw."),
    Column("status",         TEXT,  "",            "Its status after its last transaction."),
    Column("now",            INT,   "s",           "Unix time of that transaction."),
    Column("balance",        INT,   "nanoton",     "Balance after that transaction."),
    Column("debt",           INT,   "nanoton",     "Rent owed after that transaction."),
    Column("intervals",      INT,   "",            "Number of intervals between transactions that are counted."),
    Column("collected",      INT,   "nanoton",     "Rent collected over these intervals."),
    Column("seconds",        INT,   "s",           "Total length of these intervals."),
    Column("rent_per_day",   FLOAT, "nanoton/day", "`collected` divided by `seconds`, times 86400."),
    Column("rent_error",     FLOAT, "nanoton/day", "How much `rent_per_day` may be too high, at most."),
    Column("steady",         BOOL,  "",            "One rate explains every interval."),
    Column("days_left",      FLOAT, "days",        "For how long after `now` the balance pays the rent, at least."),
    Column("days_to_freeze", FLOAT, "days",        "How long after `now` the account can be frozen, at the earliest."),
    Column("cells",          INT,   "cells",       "Cells that the rent is for; null from transactions."),
    Column("bits",           INT,   "bits",        "Bits that the rent is for; null from transactions."),
    Column("special",        BOOL,  "",            "A special account of the masterchain, which pays no rent."),
))

# ── bodies and names ─────────────────────────────────────────────────────────────────────────────

DECODE_BODIES = Result("decode_bodies", "One row per message: the content of its body.", bodies.RESULT)

WITH_NAMES = Result("with_names", "The rows of the frame, with names after each column of addresses or code hashes.", (
    Column("<column>_name",     TEXT, "", "Symbol or name of the token, or else the domain; of a code hash, the name of the contract."),
    Column("<column>_friendly", TEXT, "", "User-friendly form of the address; only of addresses."),
))

WITH_OPERATION = Result("with_operation", "The rows of the frame, with one more column.", (
    Column("operation", TEXT, "", "One name for what it does; it may stand for several opcodes. Null if its message is missing."),
))

JETTON_AMOUNTS = Result("jetton_amounts", "The rows of the frame, with the jetton and the amount in its units.", (
    Column("jetton",             TEXT,  "", "The jetton (its master contract), raw."),
    Column("symbol",             TEXT,  "", "Its symbol. Anyone can choose any symbol."),
    Column("jetton_name",        TEXT,  "", "Its name. Anyone can choose any name."),
    Column("decimals",           INT,   "", "Its number of decimal places; null if unknown."),
    Column("amount_units",       FLOAT, "whole jettons", "`amount_exact` divided by 10 to the power of `decimals`."),
    Column("amount_units_exact", TEXT,  "", "The same with every digit, as text."),
))

WITH_PRICE = Result("with_price", "The rows of the frame, with amounts in a currency beside those in nanoton.", (
    Column("<column>_<currency>", FLOAT, "currency", "Amount at the price of its time; null if one of them is unknown."),
))

RESULTS = {result.name: result for result in (
    FEE_BREAKDOWN, FEE_SUMMARY, CHECK_FEES, CHECK_BALANCES, GAS_SUMMARY, GAS_OUTLIERS, PRICE_OF,
    FAILURES, FAILURE_SUMMARY, TRACE_COSTS, ACTIVITY, FLOWS, STORAGE_RATES, DECODE_BODIES,
    WITH_NAMES, WITH_OPERATION, WITH_PRICE, JETTON_AMOUNTS,
)}
