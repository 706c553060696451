"""Check whether fees and balances add up. Do this before any other analysis."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, overload

import narwhals as nw
import pyarrow as pa

from tonframes.analysis import engines, intake, results, sums
from tonframes.analysis.expressions import first_match, one_if
from tonframes.analysis.fees import BREAKDOWN, taken_apart
from tonframes.batches import BATCH, in_batches, left_join
from tonframes.bodies import import_fees
from tonframes.network.pricing import checked_prices, possible_prices
from tonframes.wire.schema import MESSAGES, TRANSACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd

    from tonframes.analysis.engines import AnyFrame, Frame
    from tonframes.frames import Blocks
    from tonframes.network.prices import Prices

# Value that is sent to this address is burned (configuration parameter 5, since May 2023).
_BLACKHOLE = "-1:" + "F" * 64

_STATES = (
    "orig_status",
    "account_state_balance_before",
    "end_status",
    "account_state_balance_after",
)
_CHAIN = (
    "hash",
    "account",
    "lt",
    "descr",
    "prev_trans_hash",
    "total_fees",
    "action_success",
    "action_msgs_created",
    "bounce",
    *_STATES,
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
    """Check whether the fees of each transaction add up.

    Parameters
    ----------
    transactions
        A frame of any engine, or a `Blocks`, which brings its messages.
    messages
        The messages of the same transactions, with the column body or body_boc. With them, and
        with the extra `boc`, the fee for importing an external message is computed from the
        message, at the prices in force at its time, and compared. Between two rows of the price
        history, the fee may be that of either row.
    prices
        The price history. None means `tonframes.network.prices.PRICES`, the history of mainnet.
        Pass your own if the network is not mainnet, or if the prices have changed.

    Returns
    -------
    A frame of the same engine with a row for each transaction, in the same order (on pandas with
    the same index). DuckDB, Dask and PySpark keep no order: join the result by `hash`.

    - hash, account: the transaction.
    - verdict: ok, unknown or violated.
    - difference: nanoton, `total_fees` minus the fees by the rules; null if unknown.
    - why: the reason, if the verdict is not ok.

    Notes
    -----
    Python reads the bodies of external messages, in batches. Lazy engines do so when the result is
    computed, except DuckDB: there they are read during the call, and the fees are held in memory,
    with about 60 bytes for each external message.

    ``total_fees = storage + gas + action + bounce + import + due`` (transaction.cpp; see
    `fee_breakdown`). The chain follows this rule, so "violated" means that the data is wrong.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> transactions = read_blocks(sample()).transactions
    >>> check_fees(transactions)["verdict"].value_counts().to_dict()
    {'ok': 2223, 'unknown': 777}
    """
    history = checked_prices(prices)
    messages = intake.paired("check_fees", transactions, messages)
    rows = intake.take(transactions, "check_fees", TRANSACTIONS, BREAKDOWN, also=("account",))
    rows = engines.by_row(intake.numbered(rows, transactions), taken_apart)
    judge = _judge_fees
    if messages is not None:
        intake.same_engine("check_fees", transactions=transactions, messages=messages)
        imports = _imports(rows, messages, history)
        rows = left_join(rows, imports, left_on="hash", right_on="tx_hash")
        judge = partial(_judge_fees, imports=True)
    return intake.give(engines.by_row(rows, judge), transactions, results.CHECK_FEES.names())


def _judge_fees(rows: Frame, *, imports: bool = False) -> Frame:
    """Check rows with the columns of `fee_breakdown`, and `expected` if there are `imports`."""
    off = nw.col("residual")
    rows = rows.with_columns(fee=nw.col("import"))
    external = nw.col("external") & (nw.col("fee") != 0)
    known = nw.col("complete") & ~external
    if imports:
        off = nw.when(external).then(nw.col("fee") - nw.col("expected")).otherwise(off)
        known = nw.col("complete") & ~(external & nw.col("expected").is_null())
    # No message has a negative fee.
    off = nw.when(nw.col("fee") < 0).then(nw.col("fee")).otherwise(off)
    known = known | (nw.col("fee") < 0).fill_null(value=False)
    missing = (
        "the body of the message, or a price in force at its time, is missing"
        if imports
        else "no field has the fee for importing the message"
    )
    return _judged(rows, off, known).with_columns(
        why=first_match(
            (nw.col("verdict") == "violated", nw.lit("the parts do not add up to total_fees")),
            (~nw.col("complete"), nw.lit("phases are missing")),
            (nw.col("verdict") == "unknown", nw.lit(missing)),
        )
    )


def _judged(rows: Frame, off: nw.Expr, known: nw.Expr) -> Frame:
    rows = rows.with_columns(difference=nw.when(known).then(off))
    verdict = nw.when(nw.col("difference") == 0).then(nw.lit("ok")).otherwise(nw.lit("violated"))
    return rows.with_columns(
        verdict=nw.when(nw.col("difference").is_null()).then(nw.lit("unknown")).otherwise(verdict)
    )


def _imports(rows: Frame, messages: object, prices: Sequence[Prices]) -> Frame:
    """Compute the import fee of each external message, at the prices in force at its time."""
    here = set(intake.columns_of(messages, "check_fees", MESSAGES))
    body, init = (
        ("body_boc", "init_state_boc") if "body_boc" in here else ("body", "init_state_body")
    )
    found = intake.take(
        messages,
        "check_fees",
        MESSAGES,
        ("tx_hash", "direction", "source", "value"),
        also=(body, init),
    )
    external = found.filter(
        (nw.col("direction") == "in") & nw.col("source").is_null() & nw.col("value").is_null()
    ).join(
        # Without all its phases, the import fee of a transaction is null.
        rows.select("hash", "now", "block_workchain", paid=nw.col("import")).drop_nulls(),
        left_on="tx_hash",
        right_on="hash",
    )
    work = partial(_expected, body=body, init=init, prices=prices)
    if intake.in_memory(messages):
        return engines.made_of(work(external.collect().to_arrow()), like=rows)
    reads = ("tx_hash", body, init, "now", "block_workchain", "paid")
    return engines.once(in_batches(external.select(reads), work, _EXPECTED), "tx_hash")


def _expected(external: pa.Table, body: str, init: str, prices: Sequence[Prices]) -> pa.Table:
    """Return the possible import fee of each transaction that is nearest to the fee it paid."""
    fees = cache(_fees)  # many messages are the same: each is read once
    expected = {
        row["tx_hash"]: _nearest(
            partial(fees, row[body], row[init]),
            row["paid"],
            possible_prices(row["now"], workchain=row["block_workchain"], prices=prices),
        )
        for batch in external.to_batches(max_chunksize=BATCH)
        for row in batch.to_pylist()
    }
    return pa.table([list(expected.keys()), list(expected.values())], schema=_EXPECTED)


def _fees(body: object, init: object, row: Prices) -> frozenset[int]:
    """Return what it may cost to import a message; nothing if its body cannot be read.

    A message can be written as cells in several ways, so it has several possible fees.
    """
    if not isinstance(body, str | bytes):
        return frozenset()
    with suppress(ValueError):  # not a bag of cells
        return import_fees(
            body,
            init if isinstance(init, str | bytes) else None,
            lump_price=row.lump_price,
            bit_price=row.bit_price,
            cell_price=row.cell_price,
        )
    return frozenset()


def _nearest(
    fees: Callable[[Prices], frozenset[int]], paid: int, prices: Iterable[Prices]
) -> int | None:
    """Return the possible fee nearest to the fee paid; None if there is none."""
    possible = {fee for row in prices for fee in fees(row)}
    return min(possible, key=lambda fee: abs(fee - paid), default=None)


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
    messages = intake.paired("check_balances", transactions, messages)
    rows = intake.take(transactions, "check_balances", TRANSACTIONS, _CHAIN)
    moved = intake.take(messages, "check_balances", MESSAGES, _MOVED)
    intake.same_engine("check_balances", transactions=transactions, messages=messages)
    moved = engines.by_row(moved, _with_flow)
    flows = sums.add_up(moved, ["tx_hash"], sums=["flow", "ins", "outs"], rows_as="messages")
    rows = left_join(rows, flows, left_on="hash", right_on="tx_hash")
    rows = engines.by_row(rows, _with_change)
    rows = engines.by_group(rows, ["account"], _with_chains)
    rows = engines.integers(rows, "changes", "known", "chain", "first", "last")
    return intake.give(engines.by_row(rows, _judge_balances), transactions)


def _with_flow(rows: Frame) -> Frame:
    carried = (
        nw.col("value").fill_null(0)
        + nw.col("ihr_fee").fill_null(0)
        + nw.col("fwd_fee").fill_null(0)
    )
    incoming = nw.col("direction") == "in"
    gained = carried - nw.col("fwd_fee").fill_null(0)
    return rows.with_columns(
        # An outgoing external message carries no value; its cost is in the action fees.
        flow=nw.when(incoming).then(gained).otherwise(nw.lit(0) - carried),
        ins=one_if(incoming),
        outs=one_if(~incoming),
    )


def _with_change(rows: Frame) -> Frame:
    """Add the change of the balance by each transaction; null if messages are missing."""
    none = nw.lit(0)
    sent = nw.when(nw.col("action_success")).then(nw.col("action_msgs_created")).otherwise(none)
    bounced = one_if(nw.col("bounce") == "ok")
    received = one_if(nw.col("descr") == "ord")
    whole = (nw.col("outs").fill_null(0) == sent.fill_null(0) + bounced) & (
        nw.col("ins").fill_null(0) == received
    )
    burned = nw.col("account") == _BLACKHOLE
    kept = nw.when(burned).then(none).otherwise(nw.col("flow").fill_null(0))
    rows = rows.with_columns(
        change=nw.when(whole).then(kept - nw.col("total_fees")),
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
    return (
        _judged(rows, off, ~unknown)
        .with_columns(
            why=first_match(
                (nw.col("verdict") == "violated", nw.lit("balances do not add up")),
                (missing, nw.lit("messages are missing")),
                (
                    nw.col("verdict") == "unknown",
                    nw.lit("no balance is known before or after"),
                ),
            )
        )
        .select(results.CHECK_BALANCES.names())
    )
