"""Sums of groups, exact on every engine.

Sums of int64 overflow silently on most engines, so amounts are added up in 128 bits: as Int128 on
polars, HUGEINT on DuckDB, and decimals elsewhere. `whole` returns the sums as int64, or raises an
error that names the group whose sum does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from operator import add, sub
from typing import TYPE_CHECKING, Any

import narwhals as nw

from tonframes.analysis import engines
from tonframes.analysis.engines import as_float, divided, one_if, quoted
from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.analysis.engines import Frame

#: The column to group by if there is no other: it has the same value in all rows.
ALL = "all_rows"
#: The column with the price of 1 TON at the moment of a row, which results do not have.
PRICE = "price_of_ton"
#: The column that counts the rows whose price is unknown, which results do not have either.
UNPRICED = "rows_without_price"

_NANOTON = 10**9  # in a TON
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SHORT = 100  # characters of a key in an error
_WAY_OUT = " does not fit int64. Pass wide=True for sums as decimals"


@dataclass(frozen=True, eq=False)
class Currency:
    """The prices of 1 TON in a currency, and names of columns of amounts to convert with them."""

    name: str
    amounts: tuple[str, ...]
    starts: tuple[int, ...]
    """From which unix second on each price is in force; sorted."""
    prices: tuple[float, ...]
    step: float | None
    """The usual number of seconds between two prices; None if there is one price."""

    @property
    def suffix(self) -> str:
        """What is added to the name of an amount in nanoton."""
        return f"_{self.name.lower()}"

    @property
    def columns(self) -> list[str]:
        """The names of the amounts in the currency."""
        return [f"{amount}{self.suffix}" for amount in self.amounts]


def add_up(
    rows: Frame,
    keys: Sequence[str],
    *,
    sums: Iterable[str] = (),
    amounts: Iterable[str] = (),
    unsure: Iterable[str] = (),
    combine: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None = None,
    rows_as: str = "transactions",
    accounts: bool = False,
    currency: Currency | None = None,
) -> Frame:
    """Count the rows of each group, and add up columns: one row per group, for `whole`.

    Null adds nothing to a sum. Without keys all rows are one group, whose key is `ALL`. `amounts`
    are columns whose sums may not fit int64, in contrast to `sums`; `combine` names amounts that
    are computed from the sums, with what to add and what to subtract. `unsure` are the amounts that
    may be null in all rows of a group: their known values are counted. With `accounts`, different
    accounts are counted.

    With a currency, the rows have the column `PRICE`. Rows with the same price are added up as
    integers, and only these sums are converted: the error of floats grows with the number of
    prices, not of rows. `UNPRICED` counts the rows whose price is unknown.
    """
    keys, sums, amounts, unsure = list(keys) or [ALL], list(sums), list(amounts), list(unsure)
    # Group by account as well, then without it: so accounts are rows, which every engine can count.
    # Counting different accounts beside the sums is faster on DuckDB, but it keeps them in memory:
    # `activity` of 30 million transactions then fails with 1.5 GB.
    first = list(dict.fromkeys([*keys, "account"])) if accounts else keys
    by_price = first if currency is None else [*first, PRICE]
    added = [rows_as, *sums, *amounts, *counts_of(unsure)]
    large = [*amounts, *(combine or ())]

    def prepared(frame: Frame) -> Frame:
        return frame.select(
            *(nw.lit(0).alias(ALL) if key == ALL else key for key in by_price),
            nw.lit(1).alias(rows_as),
            *sums,
            *(exact(frame, name) for name in amounts),
            *(one_if(~nw.col(name).is_null()).alias(f"{name}_known") for name in unsure),
        )

    groups = grouped(engines.by_row(rows, prepared), by_price, added, amounts=large)
    if combine:
        groups = engines.by_row(groups, partial(_combined, combine=combine))
        added = [*added, *combine]
    if currency is not None:
        step = partial(_converted, currency=currency, rows_as=rows_as)
        added = [*added, UNPRICED, *currency.columns]
        groups = grouped(engines.by_row(groups, step), first, added, amounts=large)
    if accounts:
        groups = engines.by_row(groups, lambda frame: frame.with_columns(accounts=nw.lit(1)))
        groups = grouped(groups, keys, [*added, "accounts"], amounts=large)
    return groups


def exact(rows: Frame, name: str) -> nw.Expr:
    """Return an amount in a type whose sums are exact; DuckDB adds up int64 in 128 bits."""
    if rows.implementation.is_duckdb():
        return nw.col(name)
    return nw.col(name).cast(nw.Int128 if rows.implementation.is_polars() else nw.Decimal(38, 0))


def _combined(groups: Frame, combine: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Frame:
    return groups.with_columns(
        reduce(sub, map(nw.col, minus), reduce(add, map(nw.col, plus))).alias(name)
        for name, (plus, minus) in combine.items()
    )


def _converted(groups: Frame, currency: Currency, rows_as: str) -> Frame:
    unknown = nw.col(PRICE).is_null()
    return groups.with_columns(
        nw.when(unknown).then(nw.col(rows_as)).otherwise(nw.lit(0)).alias(UNPRICED),
        *(
            # An unknown price makes the sum null in the end: until then 0, which adds nothing.
            nw.when(~unknown)
            .then(divided(as_float(amount), _NANOTON) * nw.col(PRICE))
            .otherwise(nw.lit(0.0))
            .alias(name)
            for amount, name in zip(currency.amounts, currency.columns, strict=True)
        ),
    )


def grouped(
    rows: Frame,
    keys: Sequence[str],
    sums: Sequence[str],
    *,
    amounts: Sequence[str] = (),
    least: Sequence[str] = (),
    largest: Sequence[str] = (),
) -> Frame:
    """Group rows by keys, of which null is one. Sums of integers are int64, but for `amounts`."""

    def step(frame: Frame) -> Frame:
        return frame.group_by(keys, drop_null_keys=False).agg(
            *(nw.col(name).sum() for name in sums),
            *(nw.col(name).min() for name in least),
            *(nw.col(name).max() for name in largest),
        )

    dtypes = rows.collect_schema()
    if rows.implementation.is_dask():
        # Dask would add up in int64. So each partition is added up, then the sums of all of them.
        through = partial(engines.through_polars, step=step)
        groups = engines.by_group(engines.by_partition(rows.to_native(), through), keys, step)
    else:
        groups = step(rows)
    counts = [name for name in sums if dtypes[name].is_integer() and name not in amounts]
    return engines.integers(groups, *counts)


def counts_of(names: Iterable[str]) -> list[str]:
    """List the names of the counts of known values."""
    return [f"{name}_known" for name in names]


def with_share(frame: Frame, name: str) -> Frame:
    """Add `share`: each row's part of the sum of an amount, 0 to 1."""
    frame = engines.by_row(frame, lambda rows: rows.with_columns(share=as_float(name)))
    share = nw.col("share")
    return frame.with_columns(share=nw.when(share.sum() != 0).then(divided(share, share.sum())))


# ── sums that fit ────────────────────────────────────────────────────────────────────────────────


def whole(
    groups: Frame,
    names: Sequence[str],
    *,
    helper: str,
    keys: Sequence[str],
    wide: bool,
    unsure: Sequence[str] = (),
    currency: Currency | None = None,
) -> Frame:
    """Return sums as int64, or as decimal128(38, 0), which holds any sum, if they shall be `wide`.

    The sums of `unsure`, whose known values `add_up` has counted, become null in groups without
    any; those in the currency become null in groups with a row whose price is unknown.
    A lazy frame raises the error of a sum that does not fit when it is computed.
    """
    if unsure or currency is not None:
        groups = engines.by_row(groups, partial(_unknown, unsure=unsure, currency=currency))
    if wide:
        decimals = nw.col(*names).cast(nw.Decimal(38, 0))
        return engines.by_row(groups, lambda frame: frame.with_columns(decimals))
    step = partial(_fitting, names=names, helper=helper, keys=[key for key in keys if key != ALL])
    return engines.by_row(groups, step)


def _unknown(groups: Frame, unsure: Sequence[str], currency: Currency | None) -> Frame:
    """Replace sums by null that are not known, or not in the currency."""
    priced = {} if currency is None else dict(zip(currency.amounts, currency.columns, strict=True))
    known = {name: nw.col(count) > 0 for name, count in zip(unsure, counts_of(unsure), strict=True)}
    known |= {priced[name]: known[name] for name in unsure if name in priced}
    for column in priced.values():
        every = nw.col(UNPRICED) == 0
        known[column] = known[column] & every if column in known else every
    groups = groups.with_columns(
        nw.when(holds).then(nw.col(name)).alias(name) for name, holds in known.items()
    )
    return groups.drop(*counts_of(unsure), *([] if currency is None else [UNPRICED]))


def _fitting(frame: Frame, names: Sequence[str], helper: str, keys: Sequence[str]) -> Frame:
    if frame.implementation.is_polars():
        return _fitting_on_polars(frame, names, helper, keys)
    native: Any = frame.to_native()
    duckdb = frame.implementation.is_duckdb()
    quote, text, fail = ('"', "VARCHAR", "error") if duckdb else ("`", "STRING", "raise_error")
    shown = [
        f"coalesce(left(CAST({quoted(key, quote)} AS {text}), {_SHORT}), 'None')" for key in keys
    ]
    columns = [quoted(name, quote) for name in native.columns if name not in names]
    for name in names:
        amount = quoted(name, quote)
        says = [quoted(f"{helper} cannot add up {name} of {'' if keys else 'all rows'}", "'")]
        for at, (key, value) in enumerate(zip(keys, shown, strict=True)):
            says += [quoted(f"{', ' * bool(at)}{key}=", "'"), value]
        says += ["': '", f"CAST({amount} AS {text})", quoted(_WAY_OUT, "'")]
        columns.append(
            f"CASE WHEN {amount} NOT BETWEEN {_SMALLEST} AND {_LARGEST} "
            f"THEN CAST({fail}(concat({', '.join(says)})) AS BIGINT) "
            f"ELSE CAST({amount} AS BIGINT) END AS {amount}"
        )
    made = native.project(", ".join(columns)) if duckdb else native.selectExpr(*columns)
    return engines.lazy(made)


def _fitting_on_polars(
    frame: Frame, names: Sequence[str], helper: str, keys: Sequence[str]
) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    def work(groups: Any) -> Any:
        for name in names:
            amount = pl.col(name)
            if len(beyond := groups.filter(~amount.is_between(_SMALLEST, _LARGEST)).head(1)):
                [row] = beyond.to_dicts()
                values = {k: shorten(row[k]) if isinstance(row[k], str) else row[k] for k in keys}
                group = ", ".join(f"{key}={value}" for key, value in values.items()) or "all rows"
                raise OverflowError(
                    f"{helper} cannot add up {name} of {group}: {row[name]}{_WAY_OUT}"
                )
        return groups.with_columns(pl.col(names).cast(pl.Int64))

    native: Any = frame.to_native()
    columns = dict(native.collect_schema()) | dict.fromkeys(names, pl.Int64)
    return engines.on_polars(native, work, columns)
