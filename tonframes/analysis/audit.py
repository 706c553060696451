"""Check whether fees and balances add up and fields agree. Do this before any other analysis."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, cast, overload

import narwhals as nw
import pyarrow as pa

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.engines import first_match, one_if
from tonframes.analysis.fees import BREAKDOWN, taken_apart
from tonframes.batches import BATCH, in_batches, left_join
from tonframes.bodies import import_fees
from tonframes.network.lookup import look_up
from tonframes.network.prices import checked_prices, possible_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.analysis.intake import Given
    from tonframes.frames import Blocks
    from tonframes.network.prices import Prices

# Value that is sent to this address is burned (configuration parameter 5, since May 2023).
_BLACKHOLE = "-1:" + "F" * 64

# Hash of the state of an account that does not exist: the cell account_none$0.
_NO_STATE = "kK7Illr6uxbrw8ubQI665xthjXh4i8gNCYQ1k8rJjaQ="

# What says how many messages a transaction has.
_COUNTS = ("descr", "action_success", "action_msgs_created", "bounce")
_STATUS = ("orig_status", "end_status")
_CHAIN = (
    "hash",
    "account",
    "lt",
    "prev_trans_hash",
    "total_fees",
    "account_state_balance_before",
    "account_state_balance_after",
    *_STATUS,
    *_COUNTS,
)
_CHECKED = (
    *BREAKDOWN,
    "account",
    "aborted",
    "destroyed",
    "credit_first",
    "storage_status_change",
    "credit",
    "compute_exit_code",
    "action_status_change",
    "action_total_fwd_fees",
    "action_tot_actions",
    "action_spec_actions",
    "bounce_fwd_fees",
    "account_state_hash_before",
    "account_state_hash_after",
    *_STATUS,
    *_COUNTS,
)
_EXPECTED = pa.schema([("tx_hash", pa.string()), ("expected", pa.int64())])
_MOVED = ("tx_hash", "direction", "source", "value", "fwd_fee", "ihr_fee")


@overload
def check_fees(
    transactions: Blocks, messages: None = None, *, prices: Iterable[Prices] | None = ...
) -> pd.DataFrame: ...
@overload
def check_fees(
    transactions: AnyFrame,
    messages: AnyFrame | None = ...,
    *,
    prices: Iterable[Prices] | None = ...,
) -> AnyFrame: ...
def check_fees(
    transactions: AnyFrame,
    messages: AnyFrame | None = None,
    *,
    prices: Iterable[Prices] | None = None,
) -> AnyFrame:
    """Check whether the fees of each transaction add up, and whether its fields agree.

    Parameters
    ----------
    transactions
        A frame of any engine, or a `Blocks`, which brings its messages.
    messages
        All messages of the same transactions, with the column body or body_boc. With them,
        forwarding fees and `credit` are compared as well. With the extra `boc`, the fee for
        importing an external message is computed from the message, at the prices in force at its
        time, and compared. Between two rows of the price history, the fee may be that of either
        row.
    prices
        The price history. None means `tonframes.network.prices.PRICES`, the history of mainnet.
        Pass your own if the network is not mainnet, or if the prices have changed.

    Returns
    -------
    A frame of the same engine with a row for each transaction, in the same order (on pandas with
    the same index). DuckDB, Dask and PySpark keep no order: join the result by `hash`.

    - hash, account: the transaction.
    - verdict: ok, unknown or violated.
    - difference: nanoton, the first amount that is wrong minus the amount by the rules; 0 if all
      amounts are right; null if unknown.
    - why: the reason, if the verdict is not ok.

    Notes
    -----
    Python reads the bodies of external messages, in batches. Lazy engines do so when the result is
    computed, except DuckDB: there they are read during the call, and the fees are held in memory,
    with about 60 bytes for each external message.

    The chain follows these rules (transaction.cpp), so "violated" means that the data is wrong:

    - ``total_fees = storage + gas + action + bounce + import + due`` (see `fee_breakdown`).
    - If the action phase succeeded, ``action_total_fwd_fees = action_total_action_fees + sum of out
      (fwd_fee + ihr_fee)``. It may be less by a fine if actions were skipped. A failed phase has
      the fees of messages that were not sent: they are not compared.
    - ``bounce_fwd_fees`` is the fwd_fee of the message that was sent back.
    - ``credit = value + ihr_fee - due``, of an internal message. If it is null, it is not compared.
    - `aborted` is true exactly if the compute phase or the action phase is missing or did not
      succeed. There is an action phase exactly if the compute phase succeeded.
    - A compute phase with exit code 0 or 1 succeeded. Other exit codes say nothing: a contract can
      commit and then fail. An action phase succeeded exactly if its result code is 0.
    - A message that bounces (`credit_first` is false) is sent back, or lacks the money for it, if
      the compute phase did not succeed. Nothing is sent back after success.
    - `end_status` follows from `orig_status`, what the phases did, and the hash of the state after;
      `destroyed` follows from the phases.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> transactions = read_blocks(sample()).transactions
    >>> check_fees(transactions)["verdict"].value_counts().to_dict()
    {'ok': 2223, 'unknown': 777}
    """
    history = checked_prices(prices)
    given, theirs = intake.entered("check_fees", transactions, messages)
    rows = given.take(_CHECKED, numbered=True)
    alone = theirs.passed is None
    if not alone:
        intake.same_engine(given, theirs)
        imports = _imports(engines.by_row(rows, taken_apart), theirs, history)
        rows = left_join(rows, imports, left_on="hash", right_on="tx_hash")
        rows = left_join(rows, _moved(theirs), left_on="hash", right_on="tx_hash")
    rows = engines.by_row(rows, partial(_judge_fees, messages=not alone))
    return cast("AnyFrame", given.give(rows, results.CHECK_FEES.names()))


def _judge_fees(rows: Frame, *, messages: bool) -> Frame:
    """Check rows, with `messages` against `expected` and the columns of `_moved` as well."""
    # How far amounts are off; null if that is unknown, and 0 if they are not compared.
    rows = rows.with_columns(
        bounce_type=nw.col("bounce"),
        forwarding=_forwarding() if messages else nw.lit(0),
        credited=_credited() if messages else nw.lit(0),
    )
    rows, paid = taken_apart(rows), nw.col("import")
    rows = rows.with_columns(
        total=first_match(
            (paid < 0, paid),  # no message has a negative fee
            (paid != 0, paid - (nw.col("expected") if messages else nw.lit(None, nw.Int64))),
            (nw.col("complete"), nw.col("residual")),
        )
    )
    total, forwarding, credited = nw.col("total"), nw.col("forwarding"), nw.col("credited")
    missing = (
        "the body of the message, or a price in force at its time, is missing"
        if messages
        else "no field has the fee for importing the message"
    )
    violations = (
        (total != 0, "the parts do not add up to total_fees"),
        (
            nw.col("action_success") & (forwarding != 0),
            "action_total_fwd_fees is not that of the messages",
        ),
        (forwarding != 0, "bounce_fwd_fees is not that of the message"),
        (credited != 0, "credit is not the value of the message"),
        *_contradictions(),
    )
    unknowns = (
        (~nw.col("complete"), "phases are missing"),
        (total.is_null(), missing),
        (forwarding.is_null(), "messages or their fees are missing, or messages are repeated"),
    )
    reasons = (*violations, *unknowns)
    rows = rows.with_columns(
        # Numbers, which become texts in the end: a column of texts for each reason takes longer.
        reason=first_match(*((holds, nw.lit(number)) for number, (holds, _) in enumerate(reasons))),
        difference=first_match(
            *((off != 0, off) for off in (total, forwarding, credited)),
            (~total.is_null() & ~forwarding.is_null(), nw.lit(0)),
        ),
    )
    verdicts = ["violated"] * len(violations) + ["unknown"] * len(unknowns)
    return rows.with_columns(
        verdict=look_up(nw.col("reason"), dict(enumerate(verdicts))).fill_null("ok"),
        why=look_up(nw.col("reason"), dict(enumerate(text for _, text in reasons))),
    )


def _forwarding() -> nw.Expr:
    """Return how far the recorded forwarding fees are from those of the messages."""
    zero, total = nw.lit(0), nw.col("action_total_fwd_fees")
    created, travels = nw.col("action_msgs_created"), nw.col("travels").fill_null(0)
    fees = nw.col("action_total_action_fees").fill_null(0) + travels
    # Fees of 0 are not recorded. A message that was not created has none.
    nothing = (created == 0) | (fees == 0)
    off = nw.when(nothing).then(total.fill_null(0)).otherwise(total) - fees
    # try_action_send_msg: a fine is paid for actions that are skipped, and only for these.
    all_done = nw.col("action_tot_actions") == nw.col("action_spec_actions") + created
    fined = ~all_done.fill_null(value=False) & (off < 0)
    returned = nw.when(nw.col("bounce") == "ok").then(nw.col("bounce_fwd_fees") - travels)
    return nw.when(_is_whole()).then(
        nw.when(nw.col("action_success"))
        .then(nw.when(fined).then(zero).otherwise(off))
        .otherwise(returned.otherwise(zero))
    )


def _credited() -> nw.Expr:
    """Return how far the credit is from the value of the message; null if it is not compared.

    Services have shown credits of external messages, which were none: only messages to which no
    gas was lent are compared. The address that burns is credited with nothing, since May 2023.
    """
    external = (nw.col("compute_gas_credit") > 0).fill_null(value=False)
    internal = (nw.col("descr") == "ord") & ~nw.col("compute_skipped").is_null() & ~external
    credited = internal & _is_whole() & (nw.col("account") != _BLACKHOLE)
    due = nw.col("credit_due_fees_collected").fill_null(0)
    return nw.when(credited).then(nw.col("credit") + due - nw.col("received"))


def _contradictions() -> tuple[tuple[nw.Expr, str], ...]:
    """Return what no transaction can be, and how to say it. Nothing is said of nulls."""
    skipped, computed = nw.col("compute_skipped"), nw.col("compute_success")
    failed, acted = skipped | ~computed, nw.col("action_success")
    bounced, bounces = ~nw.col("bounce_type").is_null(), ~nw.col("credit_first")
    storage, action = nw.col("storage_status_change"), nw.col("action_status_change")
    deleted = acted & (action == "deleted")
    kept = failed | ~acted | (action == "unchanged")
    begin, end = nw.col("orig_status"), nw.col("end_status")
    # An account without a state is uninit if anything is left to it, and does not exist otherwise:
    # the hash of its state says which.
    without_state = (end == "uninit") | (end == "nonexist")
    # Since version 13, an account that is frozen as it was deployed is uninit.
    frozen = (end == "frozen") | (end == "uninit")
    same = (end == begin) | (without_state & ((begin == "uninit") | (begin == "nonexist")))
    wrong_end = (
        (~skipped & deleted & ~without_state)
        | (~skipped & kept & (end != "active"))
        | (skipped & (storage == "deleted") & ~without_state)
        | (skipped & (storage == "frozen") & ~frozen)
        | (skipped & (storage == "unchanged") & ~same)
    )
    return (
        (
            ~skipped & ~computed & nw.col("compute_exit_code").is_in([0, 1]),
            "compute_success contradicts compute_exit_code",
        ),
        (
            acted != (nw.col("action_result_code") == 0),
            "action_success contradicts action_result_code",
        ),
        (failed & ~acted.is_null(), "action_success contradicts compute_success"),
        (nw.col("aborted") != (failed | ~acted), "aborted contradicts the phases"),
        (bounced & (~bounces | acted), "bounce contradicts credit_first or action_success"),
        (
            failed & bounces & ~bounced & (nw.col("descr") == "ord"),
            "bounce is missing after compute_success or compute_skipped",
        ),
        (
            (nw.col("destroyed") & (storage != "deleted") & kept)
            | (~nw.col("destroyed") & deleted),
            "destroyed contradicts action_status_change or storage_status_change",
        ),
        (
            (begin == "nonexist") != (nw.col("account_state_hash_before") == _NO_STATE),
            "orig_status contradicts account_state_hash_before",
        ),
        (
            (end == "nonexist") != (nw.col("account_state_hash_after") == _NO_STATE),
            "end_status contradicts account_state_hash_after",
        ),
        (
            wrong_end,
            "end_status contradicts orig_status, storage_status_change or action_status_change",
        ),
    )


def _imports(rows: Frame, messages: Given, prices: Sequence[Prices]) -> Frame:
    """Compute the import fee of each external message, at the prices in force at its time."""
    bocs = "body_boc" in messages.columns
    body, init = ("body_boc", "init_state_boc") if bocs else ("body", "init_state_body")
    found = messages.take(("tx_hash", "direction", "source", "value"), also=(body, init))
    external = found.filter(
        (nw.col("direction") == "in") & nw.col("source").is_null() & nw.col("value").is_null()
    ).join(
        # Without all its phases, the import fee of a transaction is null.
        rows.select("hash", "now", "block_workchain", paid=nw.col("import")).drop_nulls(),
        left_on="tx_hash",
        right_on="hash",
    )
    work = partial(_expected, body=body, init=init, prices=prices)
    if messages.in_memory:
        return engines.made_of(work(external.collect().to_arrow()), like=rows)
    reads = ("tx_hash", body, init, "now", "block_workchain", "paid")
    return engines.once(in_batches(external.select(reads), work, _EXPECTED), "tx_hash")


def _expected(external: pa.Table, body: str, init: str, prices: Sequence[Prices]) -> pa.Table:
    """Return the possible import fee of each transaction that is nearest to the fee it paid."""

    @cache  # many messages are the same: each is read once
    def fees(content: object, state: object, row: Prices) -> frozenset[int]:
        """Return what it may cost to import a message, which can be written in several ways."""
        with suppress(ValueError):  # not a bag of cells
            if isinstance(content, str | bytes):
                return import_fees(
                    content,
                    state if isinstance(state, str | bytes) else None,
                    lump_price=row.lump_price,
                    bit_price=row.bit_price,
                    cell_price=row.cell_price,
                )
        return frozenset()

    nearest = {}
    for batch in external.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            paid, now, workchain = row["paid"], row["now"], row["block_workchain"]
            rows = possible_prices(now, workchain=workchain, prices=prices)
            possible = {fee for each in rows for fee in fees(row[body], row[init], each)}
            distances = [(abs(fee - paid), fee) for fee in possible]
            nearest[row["tx_hash"]] = min(distances)[1] if distances else None
    return pa.table([list(nearest.keys()), list(nearest.values())], schema=_EXPECTED)


@overload
def check_balances(transactions: Blocks, messages: None = None) -> pd.DataFrame: ...
@overload
def check_balances(transactions: AnyFrame, messages: AnyFrame) -> AnyFrame: ...
def check_balances(transactions: AnyFrame, messages: AnyFrame | None = None) -> AnyFrame:
    """Check for each account that no nanoton appears or vanishes between its transactions.

    Parameters
    ----------
    transactions, messages
        Two frames of one engine, or a `Blocks` in place of both.

    Returns
    -------
    A frame of the same engine with a row for each transaction, in the same order. DuckDB, Dask and
    PySpark keep no order: join the result by `hash`.

    - hash, account, lt: the transaction.
    - verdict: ok, unknown or violated.
    - difference: nanoton, the balance after minus the expected balance; null if unknown.
    - why: the reason, if the verdict is not ok.
    - chain: number of transactions that are checked together. A service has one balance of an
      account per block, so several transactions of an account in one block can only be checked
      together. They have the same verdict and difference.

    Notes
    -----
    The node enforces this rule (validate-query.cpp, the currency flow)::

        before + value in + ihr_fee in = after + sum of out (value + fwd_fee + ihr_fee)
                                         + total_fees + burned

    The check goes from one known balance to the next, over transactions that are linked by
    prev_trans_hash. An unknown balance counts as 0 only if the account does not exist. Burned is
    the value sent to -1:FFFF…FFFF. Extra currencies are not checked.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> blocks = read_blocks(sample())
    >>> check_balances(blocks)["verdict"].unique().tolist()
    ['ok']
    """
    given, theirs = intake.entered("check_balances", transactions, messages)
    rows = given.take(_CHAIN)
    moved = _moved(theirs)
    intake.same_engine(given, theirs)
    rows = left_join(rows, moved, left_on="hash", right_on="tx_hash")
    rows = engines.by_row(rows, _with_change)
    rows = engines.by_group(rows, ["account"], _with_chains)
    rows = engines.integers(rows, "changes", "known", "chain", "first", "last")
    return cast("AnyFrame", given.give(engines.by_row(rows, _judge_balances)))


def _moved(messages: Given) -> Frame:
    """Add up what the messages of each transaction bring, take along, and pay for their way."""
    moved = engines.by_row(messages.take(_MOVED), _with_parts)
    parts = ["received", "sent", "travels", "ins", "outs"]
    return sums.add_up(moved, ["tx_hash"], sums=parts, rows_as="messages")


def _with_parts(rows: Frame) -> Frame:
    incoming, value, fwd_fee = nw.col("direction") == "in", nw.col("value"), nw.col("fwd_fee")
    ihr_fee, none = nw.col("ihr_fee").fill_null(0), nw.lit(0)
    return rows.with_columns(
        received=nw.when(incoming).then(value.fill_null(0) + ihr_fee).otherwise(none),
        # An outgoing external message carries no value; its cost is in the action fees.
        sent=nw.when(incoming).then(none).otherwise(value.fill_null(0)),
        travels=nw.when(incoming).then(none).otherwise(fwd_fee.fill_null(0) + ihr_fee),
        # Null in external messages, together. A message of which one is unknown is not counted.
        ins=one_if(incoming & (nw.col("source").is_null() == value.is_null())),
        outs=one_if(~incoming & (fwd_fee.is_null() == value.is_null())),
    )


def _is_whole() -> nw.Expr:
    """Return whether all messages of a transaction are there."""
    created = nw.when(nw.col("action_success")).then(nw.col("action_msgs_created"))
    sent = created.fill_null(0) + one_if(nw.col("bounce") == "ok")
    received = one_if(nw.col("descr") == "ord")
    return (nw.col("outs").fill_null(0) == sent) & (nw.col("ins").fill_null(0) == received)


def _with_change(rows: Frame) -> Frame:
    """Add the change of the balance by each transaction; null if messages are missing."""
    flow = nw.col("received") - nw.col("sent") - nw.col("travels")
    burned = nw.col("account") == _BLACKHOLE
    kept = nw.when(burned).then(nw.lit(0)).otherwise(flow.fill_null(0))
    rows = rows.with_columns(
        change=nw.when(_is_whole()).then(kept - nw.col("total_fees")),
        before=_balance("before", "orig_status"),
        after=_balance("after", "end_status"),
    )
    return rows.with_columns(
        known_change=one_if(~nw.col("change").is_null()),
        known_after=one_if(~nw.col("after").is_null()),
        one=nw.lit(1),
    )


def _balance(when: str, status: str) -> nw.Expr:
    balance = nw.col(f"account_state_balance_{when}")
    empty = balance.is_null() & (nw.col(status) == "nonexist")
    return nw.when(empty).then(nw.lit(0)).otherwise(balance)


def _with_chains(rows: Frame) -> Frame:
    """Divide the transactions of an account into chains, and add the figures of each chain."""
    rows = rows.with_columns(
        nw.col(name).shift(1).over("account", order_by="lt").alias(f"previous_{name}")
        for name in ("hash", "known_after")
    )
    linked = nw.col("previous_hash") == nw.col("prev_trans_hash")
    continues = linked & (nw.col("previous_known_after") == 0) & nw.col("before").is_null()
    continues = continues.fill_null(value=False)
    rows = rows.with_columns(start=nw.when(continues).then(nw.lit(0)).otherwise(nw.lit(1)))
    rows = rows.with_columns(number=nw.col("start").cum_sum().over("account", order_by="lt"))
    within = ("account", "number")
    return rows.with_columns(
        changes=nw.col("change").sum().over(*within),
        known=nw.col("known_change").sum().over(*within),
        chain=nw.col("one").sum().over(*within),
        first=nw.col("before").max().over(*within),
        last=nw.col("after").max().over(*within),
    )


def _judge_balances(rows: Frame) -> Frame:
    missing = nw.col("known") < nw.col("chain")
    unknown = missing | nw.col("first").is_null() | nw.col("last").is_null()
    off = nw.col("last") - nw.col("first") - nw.col("changes")
    difference = nw.col("difference")
    return (
        rows.with_columns(difference=nw.when(~unknown).then(off))
        .with_columns(
            verdict=first_match(
                (difference == 0, nw.lit("ok")),
                (difference != 0, nw.lit("violated")),
                (difference.is_null(), nw.lit("unknown")),
            ),
            why=first_match(
                (difference != 0, nw.lit("balances do not add up")),
                (missing, nw.lit("messages are missing")),
                (difference.is_null(), nw.lit("no balance is known before or after")),
            ),
        )
        .select(results.CHECK_BALANCES.names())
    )
