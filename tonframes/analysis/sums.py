"""Sums of groups, exact on every engine.

Sums of int64 wrap silently on pandas, polars and pyarrow. So an amount is split into two halves,
whose sums fit int64 for nine billion rows. `whole` puts the sums together, or raises an error that
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
from tonframes.analysis.expressions import one_if
from tonframes.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tonframes.analysis.engines import Frame

#: The column that all rows are grouped by where no other is named.
ALL = "all_rows"

_BILLION = 10**9
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SHORT = 100  # characters of a key that an error repeats


# ── adding up ────────────────────────────────────────────────────────────────────────────────────


def add_up(
    rows: Frame,
    keys: Sequence[str],
    *,
    sums: Iterable[str] = (),
    amounts: Iterable[str] = (),
    rows_as: str = "transactions",
    accounts: bool = False,
) -> Frame:
    """Count the rows of each group, and add up columns.

    Parameters
    ----------
    rows
        The rows, with the columns named here.
    keys
        Columns to group by; where there are none, all rows are one group, named by `ALL`.
    sums
        Columns of integers whose sums fit int64.
    amounts
        Columns of integers whose sums may not. They come as halves, to be put together by `whole`.
    rows_as
        The name of the count of rows.
    accounts
        Whether to count the different accounts of a group, as `accounts`.

    Returns
    -------
    A row a group: the keys, the counts, `sums` and the halves of `amounts`.
    """
    keys = list(keys) or [ALL]
    # First by account too. Then accounts are rows, which every engine counts in the same way.
    first = list(dict.fromkeys([*keys, "account"])) if accounts else keys
    added = [rows_as, *sums, *halves_of(amounts)]
    prepared = functools.partial(_prepared, keys=first, rows_as=rows_as, sums=sums, amounts=amounts)
    groups = _added_up(engines.by_row(rows, prepared), first, added)
    if accounts:
        groups = engines.by_row(groups, lambda frame: frame.with_columns(accounts=nw.lit(1)))
        groups = _added_up(groups, keys, [*added, "accounts"])
    return groups


def _prepared(
    rows: Frame, keys: Sequence[str], rows_as: str, sums: Iterable[str], amounts: Iterable[str]
) -> Frame:
    return rows.select(
        *(nw.lit(0).alias(ALL) if key == ALL else key for key in keys),
        nw.lit(1).alias(rows_as),
        *sums,
        *(half for name in amounts for half in halves(name)),
    )


def _added_up(rows: Frame, keys: Sequence[str], names: Sequence[str]) -> Frame:
    groups = rows.group_by(keys, drop_null_keys=False).agg(nw.col(name).sum() for name in names)
    return engines.integers(groups, *names)


def with_share(frame: Frame, name: str) -> Frame:
    """Add the part that each row has of the sum of an amount in halves, as `share`: 0 to 1."""
    high, low = halves_of([name])
    frame = engines.by_row(
        frame, lambda rows: rows.with_columns(share=nw.col(high) * float(_BILLION) + nw.col(low))
    )
    part = nw.col("share")
    return frame.with_columns(share=nw.when(part.sum() != 0).then(part / part.sum()))


# ── halves and wholes ────────────────────────────────────────────────────────────────────────────


def halves(name: str) -> tuple[nw.Expr, nw.Expr]:
    """Split an amount, so that sums of both halves fit int64 over nine billion rows."""
    # The quotient need not be exact, for the difference makes up for it: Spark divides through a
    # double, which may be off by one. For negative amounts it is one larger, so that the product
    # always fits int64.
    amount = nw.col(name)
    high = amount // _BILLION + one_if(amount < 0)
    high_name, low_name = halves_of([name])
    return high.alias(high_name), (amount - high * _BILLION).alias(low_name)


def halves_of(names: Iterable[str]) -> list[str]:
    """List the columns that amounts are split into."""
    return [f"{name}_{half}" for name in names for half in ("high", "low")]


def combined(name: str, plus: Sequence[str], minus: Sequence[str] = ()) -> list[nw.Expr]:
    """Add and subtract amounts in halves, as a new one in halves."""
    made = []
    for half in ("high", "low"):
        terms = [nw.col(f"{other}_{half}") for other in plus]
        terms += [nw.lit(0) - nw.col(f"{other}_{half}") for other in minus]
        made.append(functools.reduce(operator.add, terms).alias(f"{name}_{half}"))
    return made


def whole(
    groups: Frame, names: Sequence[str], *, helper: str, keys: Sequence[str], wide: bool
) -> Frame:
    """Put the halves of sums together.

    Parameters
    ----------
    groups
        A row a group, with the halves of `names`.
    names
        The amounts.
    helper, keys
        The function that the user called, and the columns that name the groups, for messages.
    wide
        Whether the sums are decimal128(38, 0), which holds any, or int64.

    Returns
    -------
    The rows with `names` in place of the halves.

    Raises
    ------
    OverflowError
        A sum does not fit int64. Frames that are lazy raise it, or their engine's own error with
        the same message, when they are computed.
    """
    names, keys = list(names), [key for key in keys if key != ALL]
    if groups.implementation.is_polars() and not wide:
        return _whole_on_polars(groups, names, helper, keys)
    if groups.implementation.is_duckdb() and not wide:
        return _whole_on_duckdb(groups, names, helper, keys)
    step = functools.partial(_joined, names=names, helper=helper, keys=keys, wide=wide)
    return engines.by_row(groups, step)


def _joined(
    frame: Frame, names: Sequence[str], helper: str, keys: Sequence[str], *, wide: bool
) -> Frame:
    if frame.implementation.is_pyarrow():
        return engines.lazy(
            _whole_on_arrow(frame.collect().to_native(), names, helper, keys, wide=wide)
        )
    decimal = nw.Decimal(38, 0)
    billion = nw.lit(_BILLION).cast(decimal)
    for name in names:
        high, low = (nw.col(half).cast(decimal) for half in halves_of([name]))
        frame = frame.with_columns((high * billion + low).cast(decimal).alias(name))
    frame = frame.drop(halves_of(names))
    return frame if wide else _narrow_on_spark(frame, names, helper, keys)


def _whole_on_arrow(
    table: pa.Table, names: Sequence[str], helper: str, keys: Sequence[str], *, wide: bool
) -> pa.Table:
    # Decimals of pyarrow get wider with each operation: 19 digits times 10 are 30.
    billion = pa.scalar(_BILLION, pa.decimal128(10, 0))
    for name in names:
        high, low = (table[half].cast(pa.decimal128(19, 0)) for half in halves_of([name]))
        amounts = pc.add(pc.multiply(high, billion), low).cast(pa.decimal128(38, 0))
        for end in [] if wide else pc.min_max(amounts).as_py().values():
            if end is not None and not _SMALLEST <= end <= _LARGEST:
                row = table.slice(pc.index(amounts, end).as_py(), 1)
                group = {key: row[key][0].as_py() for key in keys}
                raise OverflowError(_says(helper, name, group) + str(end) + _WAY_OUT)
        table = table.append_column(name, amounts if wide else amounts.cast(pa.int64()))
    return table.drop_columns(halves_of(names))


def _whole_on_polars(
    groups: Frame, names: Sequence[str], helper: str, keys: Sequence[str]
) -> Frame:
    import polars as pl  # noqa: PLC0415 - there where a frame of it is

    def work(frame: Any) -> Any:
        table = _whole_on_arrow(frame.to_arrow(), names, helper, keys, wide=False)
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
    from pyspark.sql import functions  # noqa: PLC0415 - there where a frame of it is

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
    """Write the message as an expression of SQL."""
    parts = [_text(f"{helper} cannot add up {name} of {'' if keys else 'all rows'}")]
    for at, key in enumerate(keys):
        text = f"CAST({_quoted(key, quote)} AS {'STRING' if quote == '`' else 'VARCHAR'})"
        parts += [_text(f"{', ' * bool(at)}{key}="), f"coalesce(left({text}, {_SHORT}), 'None')"]
    return f"concat({', '.join([*parts, _text(': '), amount, _text(_WAY_OUT)])})"


def _quoted(name: str, quote: str = '"') -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
