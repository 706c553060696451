"""Message bodies as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa

from tonframes.bodies.boc import need_pytoniq
from tonframes.bodies.schemes import read_body
from tonframes.errors import shorten

if TYPE_CHECKING:
    Rows = nw.DataFrame[Any]

AnyFrame = TypeVar("AnyFrame")

_KEYS = ("tx_hash", "direction", "position", "msg_hash")
_BODIES = ("body", "body_boc")
_COLUMNS = pa.schema(
    [
        ("opcode", pa.int64()),
        ("kind", pa.string()),
        ("bounced_opcode", pa.int64()),
        ("query_id", pa.decimal128(20, 0)),  # uint64
        ("amount", pa.decimal128(38, 0)),  # VarUInteger 16: less than 2^120
        ("sender", pa.string()),
        ("recipient", pa.string()),
        ("response_destination", pa.string()),
        ("forward_amount", pa.int64()),
        ("comment", pa.string()),
        ("error", pa.string()),
    ]
)
_NULLABLE = {pa.string(): pd.StringDtype(na_value=np.nan), pa.int64(): pd.Int64Dtype()}


def decode_bodies(messages: AnyFrame) -> AnyFrame:
    r"""Read what messages say: comments, jettons, NFTs, bounces.

    It needs pytoniq-core: ``pip install 'tonframes[boc]'``.

    Parameters
    ----------
    messages
        A pandas, polars or pyarrow frame with the column `body` (base64) or, where there is none,
        `body_boc` (bytes, as in the public lake).

    Returns
    -------
    A new frame of the same kind with a row a message, in the same order, on pandas with the same
    index. Its columns have these dtypes whatever the rows:

    - tx_hash, direction, position, msg_hash: as far as `messages` has them.
    - opcode: first 32 bits of the body, unsigned; null in shorter ones.
    - kind: what the opcode says that the body is, by the names of `decoded_type`: text_comment,
      encrypted_text_comment, jetton_transfer, jetton_internal_transfer, jetton_notify,
      jetton_burn, jetton_burn_notification, jetton_mint, excess, nft_transfer,
      nft_ownership_assigned, get_static_data, report_static_data, bounce (old form and new),
      empty_cell. And where the service has no name: provide_wallet_address,
      take_wallet_address. Null: another one.
    - bounced_opcode: of a bounce, the opcode of the message that came back.
    - query_id: a number that answers repeat, decimal128(20, 0).
    - amount: of jettons, in their smallest unit, decimal128(38, 0).
    - sender: who sent the jettons, or owned the NFT before.
    - recipient: whom jettons or the NFT are for.
    - response_destination: who gets what is left of the value.
    - forward_amount: nanoton that are to go on to the recipient; null beyond int64.
    - comment: the text of a comment, be it the body or a forward payload.
    - error: why a body, or a part of it, could not be read; null where all is well.

    Addresses are raw; null for `addr_none` and for external ones.

    Raises
    ------
    TypeError
        Not such a frame, or its bodies are neither text nor bytes.
    ValueError
        It has no column of bodies.
    ImportError
        pytoniq-core is not installed.

    Notes
    -----
    Anybody may write anything into a body. An opcode is a claim: compare `source` with the jetton
    wallet or NFT that you know before you believe a transfer. Comments hold what was written,
    control characters too; `inert` of `tonframes.display` makes them safe to print. Bytes that
    are not UTF-8 become U+FFFD, and `error` says so.

    No body makes the call fail. One that cannot be read has an `error`, and nulls but for opcode
    and kind; a payload that cannot be read leaves the other columns as they are. A body larger
    than the network lets messages be (8192 cells, 2^21 bits) is not looked into, and its `error`
    says so.

    Examples
    --------
    >>> from tonframes import read_blocks, sample
    >>> messages = read_blocks(sample()).messages
    >>> decoded = decode_bodies(messages)
    >>> decoded.kind.value_counts().head(3).to_dict()
    {'text_comment': 758, 'excess': 572, 'jetton_transfer': 483}
    >>> int(decoded.amount[decoded.kind == "jetton_transfer"].sum())
    227521286
    """
    need_pytoniq("decode_bodies")
    rows, bodies = _taken(messages)
    # Many messages say the same, and each comes as out message and as in message.
    distinct = bodies.dictionary_encode()
    said = [read_body(body.as_py()) for body in distinct.dictionary]
    table = pa.Table.from_pylist(said, _COLUMNS).take(distinct.indices)
    decoded = _frame(table, rows)
    keys = [key for key in _KEYS if key in rows.columns]
    names = _COLUMNS.names
    result: AnyFrame = (
        rows.with_columns(*(decoded[name] for name in names)).select(*keys, *names).to_native()
    )
    return result


def _taken(messages: object) -> tuple[Rows, pa.Array]:
    """Take a frame in, with its bodies as large text or bytes."""
    rows = nw.from_native(messages, pass_through=True)
    if isinstance(rows, nw.LazyFrame):
        engine = rows.implementation.value
        raise TypeError(
            f"decode_bodies takes a frame that is there, not a lazy one of {engine}: select the "
            "columns it needs and collect them first"
        )
    if not isinstance(rows, nw.DataFrame):
        raise TypeError(
            "decode_bodies takes messages as a frame of pandas, polars or pyarrow, not "
            f"{type(messages).__name__}"
        )
    name = next((name for name in _BODIES if name in rows.columns), None)
    if name is None:
        raise ValueError(
            "decode_bodies needs a column body (base64) or body_boc (bytes); the frame has "
            f"{shorten(', '.join(rows.columns[:6])) if rows.columns else 'no columns'}"
        )
    return rows, _bodies(rows[name], name)


def _bodies(column: nw.Series[Any], name: str) -> pa.Array:
    wrong = f"decode_bodies needs base64 text or bytes in the column {name!r}, not"
    try:
        found = column.to_arrow()
    except (pa.ArrowException, TypeError):
        raise TypeError(f"{wrong} {column.dtype} of mixed values") from None
    kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        wide = pa.large_string()
    elif (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    ):
        wide = pa.large_binary()
    else:
        raise TypeError(f"{wrong} {kind}")
    found = found.cast(kind).cast(wide)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _frame(table: pa.Table, like: Rows) -> Rows:
    if not like.implementation.is_pandas():
        return nw.from_arrow(table, backend=like.implementation)
    frame: pd.DataFrame = table.to_pandas(types_mapper=_dtype)
    return nw.from_native(frame.set_axis(like.to_native().index), eager_only=True)


def _dtype(kind: pa.DataType) -> Any:
    return _NULLABLE.get(kind) or pd.ArrowDtype(kind)
