"""Sums of groups, exact on every engine.

Sums of int64 overflow silently on pandas, polars and pyarrow. So each amount is split into two
halves, whose sums fit int64 for nine billion rows. On DuckDB a sum of int64 has 128 bits, so an
amount has one part there, itself. `whole` joins the sums of the parts, or raises an error that
names the group whose sum does not fit.
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
        Columns of integers whose sums may not fit. The sums of their parts are returned, for
        `whole`.
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
    One row per group: the keys, the counts, `sums`, and the parts of `amounts` and `combine`. A
    null adds nothing to a sum.

    Notes
    -----
    Rows with the same price are added up as integers. Only these sums are converted, so the error
    of floats grows with the number of prices, not with the number of rows.
    """
    keys = list(keys) or [ALL]
    combine = combine or {}
    # Group by account as well, then without it: so accounts are rows, which every engine can count.
    # Counting different accounts beside the sums is faster on DuckDB, but it keeps them in memory:
    # `activity` of 30 million transactions then fails with 1.5 GB.
    first = list(dict.fromkeys([*keys, "account"])) if accounts else keys
    by_price = first if currency is None else [*first, PRICE]
    sums, amounts, unsure = list(sums), list(amounts), list(unsure)
    groups = _amounts_added_up(
        rows, by_price, rows_as=rows_as, sums=sums, amounts=amounts, unsure=unsure
    )
    added = [rows_as, *sums, *parts_of(rows, amounts), *counts_of(unsure)]
    if combine:
        groups = engines.by_row(groups, functools.partial(_combined, combine=combine))
        added += parts_of(rows, combine)
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
    """Count the rows of groups and known values, and add up columns."""
    prepared = functools.partial(_prepared, keys=keys, rows_as=rows_as, sums=sums, amounts=amounts)
    rows = engines.by_row(rows, prepared)
    counted = [parts_of(rows, [name])[0] for name in unsure]
    made = rows.group_by(keys, drop_null_keys=False).agg(
        *(nw.col(name).sum() for name in (rows_as, *sums, *parts_of(rows, amounts))),
        *(
            nw.col(name).count().alias(count)
            for name, count in zip(counted, counts_of(unsure), strict=True)
        ),
    )
    counts = [rows_as, *_narrow(rows, sums), *counts_of(unsure)]
    return narrowed(made, counts, amounts)


def _prepared(
    rows: Frame,
    *,
    keys: Sequence[str],
    rows_as: str,
    sums: Iterable[str],
    amounts: Iterable[str],
) -> Frame:
    return rows.select(
        *(nw.lit(0).alias(ALL) if key == ALL else key for key in keys),
        nw.lit(1).alias(rows_as),
        *sums,
        *(part for name in amounts for part in parts(rows, name)),
    )


def _added_up(rows: Frame, keys: Sequence[str], names: Sequence[str]) -> Frame:
    groups = rows.group_by(keys, drop_null_keys=False).agg(nw.col(name).sum() for name in names)
    return engines.integers(groups, *_narrow(rows, names))


def _narrow(rows: Frame, names: Iterable[str]) -> list[str]:
    """List the columns whose sums are cast to int64: not floats, nor the amounts of DuckDB."""
    dtypes = rows.collect_schema()
    return [name for name in names if not (dtypes[name].is_float() or dtypes[name] == nw.Int128)]


def narrowed(groups: Frame, counts: Iterable[str], amounts: Iterable[str]) -> Frame:
    """Cast counts to int64, and halves of amounts."""
    duckdb = groups.implementation.is_duckdb()
    return engines.integers(groups, *counts, *([] if duckdb else halves_of(amounts)))


def _combined(groups: Frame, combine: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Frame:
    return groups.with_columns(
        part
        for name, (plus, minus) in combine.items()
        for part in combined(groups, name, plus, minus)
    )


def _converted(groups: Frame, currency: Currency, rows_as: str) -> Frame:
    unknown = nw.col(PRICE).is_null()
    return groups.with_columns(
        nw.when(unknown).then(nw.col(rows_as)).otherwise(nw.lit(0)).alias(UNPRICED),
        *(
            # An unknown price makes the sum null in the end: until then 0, which adds nothing.
            nw.when(~unknown)
            .then(_ton(groups, amount) * nw.col(PRICE))
            .otherwise(nw.lit(0.0))
            .alias(name)
            for amount, name in zip(currency.amounts, currency.columns, strict=True)
        ),
    )


def _ton(groups: Frame, name: str) -> nw.Expr:
    split = groups.implementation.is_duckdb()
    high, low = halves(name) if split else map(nw.col, halves_of([name]))
    return high / 1 + divided(low, _BILLION)


def counts_of(names: Iterable[str]) -> list[str]:
    """List the names of the counts of known values."""
    return [f"{name}_known" for name in names]


def _null_if_unknown(groups: Frame, names: Sequence[str], currency: Currency | None) -> Frame:
    """Replace sums, also those in a currency, by null in groups where no row has a known value."""
    priced = {} if currency is None else dict(zip(currency.amounts, currency.columns, strict=True))
    return groups.with_columns(
        nw.when(nw.col(count) > 0).then(nw.col(column)).alias(column)
        for name, count in zip(names, counts_of(names), strict=True)
        for column in (*parts_of(groups, [name]), *([priced[name]] if name in priced else []))
    ).drop(counts_of(names))


def with_share(frame: Frame, name: str) -> Frame:
    """Add `share`: each row's part of the sum of an amount, 0 to 1."""
    frame = engines.by_row(frame, functools.partial(_as_share, name=name))
    part = nw.col("share")
    return frame.with_columns(share=nw.when(part.sum() != 0).then(divided(part, part.sum())))


def _as_share(rows: Frame, name: str) -> Frame:
    *high, low = map(nw.col, parts_of(rows, [name]))
    return rows.with_columns(share=sum((half * float(_BILLION) for half in high), low / 1))


# ── parts and wholes ─────────────────────────────────────────────────────────────────────────────


def parts(rows: Frame, name: str) -> tuple[nw.Expr, ...]:
    """Return the parts of an amount whose sums `whole` joins: halves, or itself on DuckDB."""
    return (nw.col(name),) if rows.implementation.is_duckdb() else halves(name)


def parts_of(rows: Frame, names: Iterable[str]) -> list[str]:
    """List the names of the parts of amounts."""
    return list(names) if rows.implementation.is_duckdb() else halves_of(names)


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


def combined(
    groups: Frame, name: str, plus: Sequence[str], minus: Sequence[str] = ()
) -> list[nw.Expr]:
    """Add and subtract amounts by their parts. The result is in parts as well."""
    added = [parts_of(groups, [other]) for other in plus]
    taken = [parts_of(groups, [other]) for other in minus]
    made = []
    for at, part in enumerate(parts_of(groups, [name])):
        terms = [nw.col(names[at]) for names in added]
        terms += [nw.lit(0) - nw.col(names[at]) for names in taken]
        made.append(functools.reduce(operator.add, terms).alias(part))
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
    """Join the parts of sums.

    Parameters
    ----------
    groups
        One row per group, with the parts of `names`.
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
    The rows with `names` as int64 or decimals, in place of the parts.

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
    frame = _as_decimals(frame, names)
    return frame if wide else _narrow_on_spark(frame, names, helper, keys)


def _as_decimals(frame: Frame, names: Sequence[str]) -> Frame:
    decimal = nw.Decimal(38, 0)
    if frame.implementation.is_duckdb():
        return frame.with_columns(nw.col(*names).cast(decimal))
    billion = nw.lit(_BILLION).cast(decimal)
    for name in names:
        high, low = (nw.col(half).cast(decimal) for half in halves_of([name]))
        frame = frame.with_columns((high * billion + low).cast(decimal).alias(name))
    return frame.drop(halves_of(names))


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
    columns = [_quoted(name) for name in native.columns if name not in names]
    for name in names:
        amount = _quoted(name)
        says = _in_sql(helper, name, keys, f"{amount}::VARCHAR")
        columns.append(
            f"CASE WHEN {amount} NOT BETWEEN {_SMALLEST} AND {_LARGEST} THEN error({says})::BIGINT "
            f"ELSE {amount}::BIGINT END AS {amount}"
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
