"""Sums of groups, exact on every engine.

Sums of int64 overflow silently on pandas, polars and pyarrow. So each amount is split into two
halves, whose sums fit int64 for nine billion rows. `whole` joins the sums of the halves, or raises
an error that names the group whose sum does not fit.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.analysis import engines
from tonframes.analysis.currency import PRICE, UNPRICED, known
from tonframes.analysis.expressions import divided, one_if
from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.analysis.currency import Currency
    from tonframes.analysis.engines import Frame

#: The column to group by if there is no other: it has the same value in all rows.
ALL = "all_rows"

_BILLION = 10**9
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SHORT = 100  # characters of a key in an error


# ── adding up ────────────────────────────────────────────────────────────────────────────────────


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
    """Count the rows of each group, and add up columns.

    Parameters
    ----------
    rows
        The rows, with the columns named here.
    keys
        Columns to group by. If there are none, all rows are one group, and the key is `ALL`.
    sums
        Columns of integers whose sums fit int64.
    amounts
        Columns of integers whose sums may not fit. Their sums are returned as halves, for `whole`.
    unsure
        The amounts that may be null in all rows of a group. Their known values are counted, for
        `whole`.
    combine
        Amounts that are computed from the sums: name to the amounts to add and to subtract.
    rows_as
        Name of the column with the number of rows.
    accounts
        Whether to add `accounts`, the number of different accounts.
    currency
        If it is passed, the rows have the column `PRICE`. Its amounts are converted and added up as
        floats, and `UNPRICED` counts the rows whose price is unknown, for `whole`.

    Returns
    -------
    One row per group: the keys, the counts, `sums`, and the halves of `amounts` and `combine`. A
    null adds nothing to a sum.

    Notes
    -----
    Rows with the same price are added up as integers. Only these sums are converted, so the error
    of floats grows with the number of prices, not with the number of rows.
    """
    keys = list(keys) or [ALL]
    combine = combine or {}
    # Group by account as well, then without it: so accounts are rows, which every engine can count.
    first = list(dict.fromkeys([*keys, "account"])) if accounts else keys
    by_price = first if currency is None else [*first, PRICE]
    sums, amounts, unsure = list(sums), list(amounts), list(unsure)
    groups = _amounts_added_up(
        rows, by_price, rows_as=rows_as, sums=sums, amounts=amounts, unsure=unsure
    )
    added = [rows_as, *sums, *halves_of(amounts), *counts_of(unsure)]
    if combine:
        groups = engines.by_row(groups, functools.partial(_combined, combine=combine))
        added += halves_of(combine)
    if currency is not None:
        converted = functools.partial(_converted, currency=currency, rows_as=rows_as)
        added += [UNPRICED, *currency.columns]
        groups = _added_up(engines.by_row(groups, converted), first, added)
    if accounts:
        groups = engines.by_row(groups, lambda frame: frame.with_columns(accounts=nw.lit(1)))
        groups = _added_up(groups, keys, [*added, "accounts"])
    return groups


def _amounts_added_up(
    rows: Frame,
    keys: Sequence[str],
    *,
    rows_as: str,
    sums: list[str],
    amounts: list[str],
    unsure: list[str],
) -> Frame:
    """Count the rows of groups and known values, and add up columns: amounts in halves."""
    # On DuckDB a sum of int64 has 128 bits, so it is divided after it is made.
    at_once = rows.implementation.is_duckdb()
    parts = amounts if at_once else halves_of(amounts)
    prepared = functools.partial(
        _prepared, keys=keys, rows_as=rows_as, sums=sums, amounts=amounts, at_once=at_once
    )
    counted = unsure if at_once else [f"{name}_high" for name in unsure]
    rows = engines.by_row(rows, prepared)
    dtypes = rows.collect_schema()
    made = rows.group_by(keys, drop_null_keys=False).agg(
        *(nw.col(name).sum() for name in (rows_as, *sums, *parts)),
        *(
            nw.col(name).count().alias(count)
            for name, count in zip(counted, counts_of(unsure), strict=True)
        ),
    )
    if at_once:
        others = made.collect_schema().names()
        made = made.select(
            *(name for name in others if name not in amounts),
            *(half for name in amounts for half in halves(name)),
        )
    whole = [name for name in sums if not dtypes[name].is_float()]
    return engines.integers(made, rows_as, *whole, *halves_of(amounts), *counts_of(unsure))


def _prepared(
    rows: Frame,
    *,
    keys: Sequence[str],
    rows_as: str,
    sums: Iterable[str],
    amounts: Iterable[str],
    at_once: bool,
) -> Frame:
    return rows.select(
        *(nw.lit(0).alias(ALL) if key == ALL else key for key in keys),
        nw.lit(1).alias(rows_as),
        *sums,
        *(amounts if at_once else (half for name in amounts for half in halves(name))),
    )


def _added_up(rows: Frame, keys: Sequence[str], names: Sequence[str]) -> Frame:
    dtypes = rows.collect_schema()
    groups = rows.group_by(keys, drop_null_keys=False).agg(nw.col(name).sum() for name in names)
    return engines.integers(groups, *(name for name in names if not dtypes[name].is_float()))


def _combined(groups: Frame, combine: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Frame:
    return groups.with_columns(
        half for name, (plus, minus) in combine.items() for half in combined(name, plus, minus)
    )


def _converted(groups: Frame, currency: Currency, rows_as: str) -> Frame:
    unknown = nw.col(PRICE).is_null()
    return groups.with_columns(
        nw.when(unknown).then(nw.col(rows_as)).otherwise(nw.lit(0)).alias(UNPRICED),
        *(
            # An unknown price makes the sum null in the end: until then 0, which adds nothing.
            nw.when(~unknown).then(_ton(amount) * nw.col(PRICE)).otherwise(nw.lit(0.0)).alias(name)
            for amount, name in zip(currency.amounts, currency.columns, strict=True)
        ),
    )


def _ton(name: str) -> nw.Expr:
    high, low = halves_of([name])
    return nw.col(high) / 1 + divided(nw.col(low), _BILLION)


def counts_of(names: Iterable[str]) -> list[str]:
    """List the names of the counts of known values."""
    return [f"{name}_known" for name in names]


def _null_if_unknown(groups: Frame, names: Sequence[str], currency: Currency | None) -> Frame:
    """Replace sums, also those in a currency, by null in groups where no row has a known value."""
    priced = {} if currency is None else dict(zip(currency.amounts, currency.columns, strict=True))
    return groups.with_columns(
        nw.when(nw.col(count) > 0).then(nw.col(column)).alias(column)
        for name, count in zip(names, counts_of(names), strict=True)
        for column in (*halves_of([name]), *([priced[name]] if name in priced else []))
    ).drop(counts_of(names))


def with_share(frame: Frame, name: str) -> Frame:
    """Add `share`: each row's part of the sum of an amount in halves, 0 to 1."""
    high, low = halves_of([name])
    frame = engines.by_row(
        frame, lambda rows: rows.with_columns(share=nw.col(high) * float(_BILLION) + nw.col(low))
    )
    part = nw.col("share")
    return frame.with_columns(share=nw.when(part.sum() != 0).then(divided(part, part.sum())))


# ── halves and wholes ────────────────────────────────────────────────────────────────────────────


def halves(name: str) -> tuple[nw.Expr, nw.Expr]:
    """Split an amount, so that sums of both halves fit int64 over nine billion rows."""
    # The high half may be off by one, because Spark divides through a double. The low half is the
    # exact difference, so their sum is exact. For negative amounts the high half is one larger, so
    # that the product always fits int64.
    amount = nw.col(name)
    high = amount // _BILLION + one_if(amount < 0)
    high_name, low_name = halves_of([name])
    return high.alias(high_name), (amount - high * _BILLION).alias(low_name)


def halves_of(names: Iterable[str]) -> list[str]:
    """List the names of the halves of amounts."""
    return [f"{name}_{half}" for name in names for half in ("high", "low")]


def combined(name: str, plus: Sequence[str], minus: Sequence[str] = ()) -> list[nw.Expr]:
    """Add and subtract amounts in halves. The result is in halves as well."""
    made = []
    for half in ("high", "low"):
        terms = [nw.col(f"{other}_{half}") for other in plus]
        terms += [nw.lit(0) - nw.col(f"{other}_{half}") for other in minus]
        made.append(functools.reduce(operator.add, terms).alias(f"{name}_{half}"))
    return made


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
    """Join the halves of sums.

    Parameters
    ----------
    groups
        One row per group, with the halves of `names`.
    names
        The amounts.
    helper, keys
        The function that the user called and the columns that identify a group, for error messages.
    wide
        Whether to return decimal128(38, 0), which holds any sum, or int64.
    unsure
        The amounts whose known values `add_up` has counted: null in groups without any.
    currency
        If it is passed, its amounts become null in groups with a row whose price is unknown.

    Returns
    -------
    The rows with `names` in place of the halves.

    Raises
    ------
    OverflowError
        A sum does not fit int64. A lazy frame raises it, or an error of its engine with the same
        message, when it is computed.
    """
    names, keys = list(names), [key for key in keys if key != ALL]
    if unsure:
        step = functools.partial(_null_if_unknown, names=unsure, currency=currency)
        groups = engines.by_row(groups, step)
    if currency is not None:
        groups = known(groups, currency)
    step = functools.partial(_joined, names=names, helper=helper, keys=keys, wide=wide)
    return engines.by_row(groups, step)


def _joined(
    frame: Frame, names: Sequence[str], helper: str, keys: Sequence[str], *, wide: bool
) -> Frame:
    if frame.implementation.is_polars() and not wide:
        return _whole_on_polars(frame, names, helper, keys)
    if frame.implementation.is_duckdb() and not wide:
        return _whole_on_duckdb(frame, names, helper, keys)
    decimal = nw.Decimal(38, 0)
    billion = nw.lit(_BILLION).cast(decimal)
    for name in names:
        high, low = (nw.col(half).cast(decimal) for half in halves_of([name]))
        frame = frame.with_columns((high * billion + low).cast(decimal).alias(name))
    frame = frame.drop(halves_of(names))
    return frame if wide else _narrow_on_spark(frame, names, helper, keys)


def _whole_on_arrow(
    table: pa.Table, names: Sequence[str], helper: str, keys: Sequence[str]
) -> pa.Table:
    # Decimals of pyarrow get wider with each operation: 19 digits times 10 digits give 30.
    billion = pa.scalar(_BILLION, pa.decimal128(10, 0))
    for name in names:
        high, low = (table[half].cast(pa.decimal128(19, 0)) for half in halves_of([name]))
        amounts = pc.add(pc.multiply(high, billion), low).cast(pa.decimal128(38, 0))
        for end in pc.min_max(amounts).as_py().values():
            if end is not None and not _SMALLEST <= end <= _LARGEST:
                row = table.slice(pc.index(amounts, end).as_py(), 1)
                group = {key: row[key][0].as_py() for key in keys}
                raise OverflowError(_says(helper, name, group) + str(end) + _WAY_OUT)
        table = table.append_column(name, amounts.cast(pa.int64()))
    return table.drop_columns(halves_of(names))


def _whole_on_polars(
    groups: Frame, names: Sequence[str], helper: str, keys: Sequence[str]
) -> Frame:
    import polars as pl  # noqa: PLC0415 - as late as possible: it takes long

    def work(frame: Any) -> Any:
        table = _whole_on_arrow(frame.to_arrow(), names, helper, keys)
        return pl.DataFrame(table, schema_overrides=columns)

    native: Any = groups.to_native()
    columns = dict(native.collect_schema())
    for half in halves_of(names):
        del columns[half]
    columns |= dict.fromkeys(names, pl.Int64)
    return engines.on_polars(native, work, columns)


def _whole_on_duckdb(
    groups: Frame, names: Sequence[str], helper: str, keys: Sequence[str]
) -> Frame:
    native: Any = groups.to_native()
    halves = halves_of(names)
    columns = [_quoted(name) for name in native.columns if name not in halves]
    for name in names:
        high, low = map(_quoted, halves_of([name]))
        amount = f"({high}::HUGEINT * {_BILLION} + {low})"
        says = _in_sql(helper, name, keys, f"{amount}::VARCHAR")
        columns.append(
            f"CASE WHEN {amount} NOT BETWEEN {_SMALLEST} AND {_LARGEST} THEN error({says})::BIGINT "
            f"ELSE {amount}::BIGINT END AS {_quoted(name)}"
        )
    return engines.lazy(native.project(", ".join(columns)))


def _narrow_on_spark(frame: Frame, names: Sequence[str], helper: str, keys: Sequence[str]) -> Frame:
    from pyspark.sql import functions  # noqa: PLC0415 - installed if the frame is one of it

    native: Any = frame.to_native()
    for name in names:
        says = _in_sql(helper, name, keys, f"CAST({_quoted(name, '`')} AS STRING)", "`")
        amount = functions.col(name)
        fits = amount.isNull() | amount.between(_SMALLEST, _LARGEST)
        raised = functions.raise_error(functions.expr(says)).cast("bigint")
        native = native.withColumn(
            name, functions.when(fits, amount.cast("bigint")).otherwise(raised)
        )
    return engines.lazy(native)


# ── the message ──────────────────────────────────────────────────────────────────────────────────

_WAY_OUT = " does not fit int64. Pass wide=True for sums as decimals"


def _says(helper: str, name: str, group: Mapping[str, object]) -> str:
    values = {k: shorten(v) if isinstance(v, str) else str(v) for k, v in group.items()}
    named = ", ".join(f"{key}={value}" for key, value in values.items()) or "all rows"
    return f"{helper} cannot add up {name} of {named}: "


def _in_sql(helper: str, name: str, keys: Sequence[str], amount: str, quote: str = '"') -> str:
    """Return the message as an SQL expression."""
    parts = [_text(f"{helper} cannot add up {name} of {'' if keys else 'all rows'}")]
    for at, key in enumerate(keys):
        text = f"CAST({_quoted(key, quote)} AS {'STRING' if quote == '`' else 'VARCHAR'})"
        parts += [_text(f"{', ' * bool(at)}{key}="), f"coalesce(left({text}, {_SHORT}), 'None')"]
    return f"concat({', '.join([*parts, _text(': '), amount, _text(_WAY_OUT)])})"


def _quoted(name: str, quote: str = '"') -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
