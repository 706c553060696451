"""Decode message bodies into columns."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from tonframes.batches import in_batches, left_join
from tonframes.bodies.boc import require_pytoniq
from tonframes.bodies.columns import KEYS, READ
from tonframes.bodies.schemes import read_body
from tonframes.errors import shorten
from tonframes.native import enter
from tonframes.wire.dtypes import dtype_of

if TYPE_CHECKING:
    import pandas as pd

    Rows = nw.DataFrame[Any]

AnyFrame = TypeVar("AnyFrame")

_BODIES = ("body", "body_boc")
_KEY = "body that was read"
_WRONG = "decode_bodies needs base64 text or bytes in the column {!r}, not"
_SCHEMA = pa.schema([(column.name, column.kind.arrow) for column in READ])


def decode_bodies(messages: AnyFrame) -> AnyFrame:
    r"""Decode message bodies: comments, jettons, NFTs, bounces.

    This needs pytoniq-core: ``pip install 'tonframes[boc]'``.

    Parameters
    ----------
    messages
        A frame of any engine with the column `body` (base64) or, if there is none, `body_boc`
        (bytes, as in the public Parquet lake); or a `Blocks`, whose messages are decoded. If the
        frame has the column `source`, external messages are recognized by it.

    Returns
    -------
    A new frame of the same kind with one row per message, in the same order; in pandas, with the
    same index. DuckDB, Dask and PySpark keep no order. The dtypes do not depend on the rows:

    - tx_hash, direction, position, msg_hash, source, destination: copied from `messages`, if it
      has them.
    - opcode: the first 32 bits of the body, unsigned; null in shorter bodies.
    - kind: the kind of body that the opcode stands for, as in `decoded_type` of the service:
      text_comment, encrypted_text_comment, jetton_transfer, jetton_internal_transfer,
      jetton_notify, jetton_burn, jetton_burn_notification, jetton_mint, excess, nft_transfer,
      nft_ownership_assigned, get_static_data, report_static_data, bounce (both formats),
      empty_cell. Two more, which the service does not name: provide_wallet_address,
      take_wallet_address. Null for every other opcode, and for external messages into the
      chain, which begin with a signature and not with an opcode. All columns after it are null for
      these messages as well.
    - bounced_opcode: in a bounce, the opcode of the message that was returned.
    - query_id: a number that the sender chose and that answers repeat (UInt64; on PySpark, which
      has no such type, a decimal).
    - amount: number of jettons, in the smallest unit of the jetton, as float64: exact up to 2^53,
      rounded above. Use it for calculation and plots.
    - amount_exact: the same amount with every digit, as text. ``sum(map(int, column))`` is an
      exact sum.
    - sender: the sender of the jettons, or the previous owner of the NFT.
    - recipient: the receiver of the jettons or the NFT.
    - response_destination: the receiver of the rest of the value.
    - forward_amount: nanoton to forward to the recipient; null above 2^63 - 1.
    - comment: the text of a comment: the body itself, or its forward payload.
    - error: why a body, or a part of it, could not be read; null if everything was read.

    Addresses are raw. They are null for `addr_none` and for external addresses.

    Raises
    ------
    TypeError
        `messages` is not such a frame, or its bodies are neither text nor bytes.
    ValueError
        `messages` has no column of bodies.
    ImportError
        pytoniq-core is not installed.

    Notes
    -----
    Anyone can write anything into a body. An opcode is only a claim: before you trust a transfer,
    compare `source` with the jetton wallet or NFT that you know. A comment is returned as it was
    written, with its control characters; `tonframes.inert.inert` makes it safe to print. Bytes
    that are not UTF-8 become U+FFFD, and `error` says so.

    No body makes the call fail. If a body cannot be read, `error` says why, and all other columns
    except opcode and kind are null. If only a payload cannot be read, the other columns are
    filled. A body that exceeds the limits of the network (8192 cells, 2^21 bits) is not read, and
    `error` says so.

    Python reads each distinct body once, on Dask once in each partition. Lazy engines do so in
    batches when the result is computed, except DuckDB: there the distinct bodies are read during
    the call, and are held in memory with what they contain.

    A sum of jettons must count each movement once, and each jetton by itself:

    - A message has a row with direction "out", where it was sent, and one with "in", where it
      arrived. Keep one row for each `msg_hash`.
    - One movement has up to three messages. A jetton_transfer goes from the owner to the own jetton
      wallet, a jetton_internal_transfer from there to the jetton wallet of the receiver, and a
      jetton_notify from there to the receiver. Keep one `kind`. A jetton_transfer is a request,
      which may fail. A jetton_internal_transfer is sent when the jettons have left the wallet, and
      also for new jettons. A jetton_notify is sent only if the sender has asked for it.
    - Amounts of different jettons cannot be added. `jetton_amounts` names the jetton of a message.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> messages = read_blocks(sample()).messages
    >>> decoded = decode_bodies(messages)
    >>> decoded.kind.value_counts().head(3).to_dict()
    {'text_comment': 1176, 'excess': 484, 'jetton_transfer': 423}

    The sum of the transfers of each jetton whose metadata is known:

    >>> from tonframes import jetton_amounts, read_accounts
    >>> transfers = decoded[decoded.kind == "jetton_transfer"].drop_duplicates("msg_hash")
    >>> amounts = jetton_amounts(transfers, read_accounts(sample()).metadata)
    >>> exact = amounts.amount_exact.map(int)
    >>> {jetton[:6]: int(total) for jetton, total in exact.groupby(amounts.jetton).sum().items()}
    {'0:002C': 975234296, '0:1545': 1304887877}
    """
    require_pytoniq("decode_bodies")
    rows, name = _rows_and_name(messages)
    if rows.implementation.is_dask():  # its partitions are pandas frames
        native: Any = rows.to_native()
        empty = decode_bodies(native._meta)  # noqa: SLF001 - Dask has no public name for it
        partitions: AnyFrame = native.map_partitions(decode_bodies, meta=empty)
        return partitions
    decoded = _lazily(rows, name) if isinstance(rows, nw.LazyFrame) else _at_once(rows, name)
    present = set(decoded.collect_schema().names())
    keys = [key.name for key in KEYS if key.name in present]
    result: AnyFrame = decoded.select(*keys, *_SCHEMA.names).to_native()
    return result


def _at_once(rows: Rows, name: str) -> Rows:
    # Many messages have the same body, and most appear twice: as out message and as in message.
    distinct = _bodies(rows[name], name).dictionary_encode()
    table = _read(distinct.dictionary).take(distinct.indices)
    if "source" in rows.columns:
        table = _without_kinds(table, rows["source"].is_null().to_arrow())
    decoded = _frame(table, rows)
    return rows.with_columns(*(decoded[each] for each in _SCHEMA.names))


def _read(bodies: pa.Array) -> pa.Table:
    return pa.Table.from_pylist([read_body(body.as_py()) for body in bodies], _SCHEMA)


def _lazily(rows: nw.LazyFrame[Any], name: str) -> nw.LazyFrame[Any]:
    """Join the rows with what their distinct bodies contain."""
    dtype = rows.collect_schema()[name]
    if dtype not in (nw.String, nw.Binary):
        raise TypeError(f"{_WRONG.format(name)} {dtype}")
    keys = [key.name for key in KEYS if key.name in rows.collect_schema().names()]
    key = pa.field(_KEY, pa.string() if dtype == nw.String else pa.binary())
    distinct = rows.select(name).filter(~nw.col(name).is_null()).unique()
    read = in_batches(distinct, partial(_keyed, key=key), pa.schema([key, *_SCHEMA]))
    joined = left_join(rows.select(*keys, name), read, left_on=name, right_on=_KEY)
    if "source" not in keys:
        return joined
    readable = ~nw.col("source").is_null() | nw.col("opcode").is_null()
    return joined.with_columns(
        nw.when(readable).then(nw.col(each)).alias(each)
        for each in _SCHEMA.names
        if each != "opcode"
    )


def _keyed(distinct: pa.Table, key: pa.Field) -> pa.Table:
    bodies = distinct.column(0).cast(key.type).combine_chunks()
    return _read(bodies).add_column(0, key, bodies)


def _without_kinds(table: pa.Table, external: pa.Array) -> pa.Table:
    """Keep only the first 32 bits of external messages. A shorter or broken body keeps all."""
    hidden = pc.and_(external, pc.is_valid(table["opcode"]))
    columns = [
        column if name == "opcode" else pc.if_else(hidden, None, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _rows_and_name(messages: Any) -> tuple[Rows | nw.LazyFrame[Any], str]:
    """Check the messages and return them with the name of the column of bodies."""
    if inspect.getattr_static(messages, "messages", None) is not None:
        messages = messages.messages
    rows = enter(messages, "decode_bodies")
    if not isinstance(rows, nw.DataFrame | nw.LazyFrame):
        raise TypeError(
            "decode_bodies takes messages as a frame of pandas, polars, pyarrow, DuckDB, Dask or "
            f"PySpark, or a Blocks, not {type(messages).__name__}"
        )
    names = rows.collect_schema().names() if isinstance(rows, nw.LazyFrame) else rows.columns
    name = next((name for name in _BODIES if name in names), None)
    if name is None:
        raise ValueError(
            "decode_bodies needs a column body (base64) or body_boc (bytes); the frame has "
            f"{shorten(', '.join(names[:6])) if names else 'no columns'}"
        )
    return rows, name


def _bodies(column: nw.Series[Any], name: str) -> pa.Array:
    wrong = _WRONG.format(name)
    try:
        bodies = column.to_arrow()
    except (pa.ArrowException, TypeError):
        raise TypeError(f"{wrong} {column.dtype} of mixed values") from None
    kind = bodies.type.value_type if pa.types.is_dictionary(bodies.type) else bodies.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        wide = pa.large_string()
    elif (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    ):
        wide = pa.large_binary()
    else:
        raise TypeError(f"{wrong} {kind}")
    bodies = bodies.cast(kind).cast(wide)
    return bodies.combine_chunks() if isinstance(bodies, pa.ChunkedArray) else bodies


def _frame(table: pa.Table, like: Rows) -> Rows:
    """Convert a table to a frame of the same library, in pandas with the same index."""
    if not like.implementation.is_pandas():
        return nw.from_arrow(table, backend=like.implementation)
    frame: pd.DataFrame = table.to_pandas(types_mapper=dtype_of)
    return nw.from_native(frame.set_axis(like.to_native().index), eager_only=True)
