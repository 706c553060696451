"""Amounts of jettons in the units that people use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa

from tonframes.analysis import engines, results
from tonframes.analysis.intake import Given, newest
from tonframes.analysis.names import token_entries
from tonframes.native import enter
from tonframes.wire.schema import METADATA

if TYPE_CHECKING:
    from tonframes.analysis.engines import AnyFrame

_HELPER = "jetton_amounts"
_NEEDS = ("kind", "amount_exact", "source", "destination")

#: The end of a message that is a jetton wallet, or the jetton itself, by the kind of body (TEP-74).
ENDS = {
    "jetton_transfer": "destination",
    "jetton_internal_transfer": "destination",
    "jetton_notify": "source",
    "jetton_burn": "destination",
    "jetton_burn_notification": "destination",
    "jetton_mint": "destination",
}
_MOST_DECIMALS = 255  # an unsigned byte (TEP-64)


class _Jetton(NamedTuple):
    symbol: str | None = None
    name: str | None = None
    decimals: int | None = None


def jetton_amounts(bodies: AnyFrame, metadata: object) -> AnyFrame:
    """Add the jetton of each amount, and the amount in its units.

    Parameters
    ----------
    bodies
        What `decode_bodies` returns: a pandas, polars or pyarrow frame. The messages that were
        decoded must have had the columns source and destination.
    metadata
        The table `metadata` of `Accounts`, a frame of any engine. An amount needs two rows of it:
        that of the jetton wallet, which names the jetton, and that of the jetton. `fetch_accounts`
        of both addresses brings them.

    Returns
    -------
    The rows of `bodies`, in the same order; in pandas, with the same index. `amount` and
    `amount_exact`, in the smallest unit, stay as they are. After the last column, there are:

    - jetton: raw address of the jetton (its master contract).
    - symbol, jetton_name: its symbol and name. Their owners choose them: anyone can call a jetton
      USD₮. Compare `jetton`. They are as the service sent them: `tonframes.inert.inert` makes them
      safe to print.
    - decimals: its number of decimal places; null if the metadata has none.
    - amount_units: the amount divided by 10 to the power of `decimals`, the nearest float; null
      beyond the largest float.
    - amount_units_exact: the same with every digit, as text.

    What is unknown is null: all of these of bodies without an amount, or of wallets that the
    metadata lacks. A jetton without decimals in its metadata should have 9 (TEP-64), but its
    metadata may also just be incomplete: its amounts in units stay null.

    Raises
    ------
    TypeError
        `bodies` is not an eager frame.
    ValueError
        `bodies` lacks one of the columns kind, amount_exact, source and destination, or has a
        column that would be added.

    Notes
    -----
    Which end of a message is the wallet follows from the kind of body: the receiver of a transfer,
    an internal transfer and a burn, and the sender of a notification. The receiver of a mint and
    of a burn notification is the jetton itself. A body is only a claim: anyone can send a
    notification, but the link from wallet to jetton is what the service knows of the wallet.

    Examples
    --------
    >>> import tonframes as tf
    >>> bodies = tf.decode_bodies(tf.read_blocks(tf.sample()).messages)
    >>> found = jetton_amounts(bodies, tf.read_accounts(tf.sample()).metadata)
    >>> found = found[["symbol", "decimals", "amount_exact", "amount_units_exact"]].dropna()
    >>> found.head(2).values.tolist()
    [['MUD₮', 6, '95849', '0.095849'], ['MUD₮', 6, '95849', '0.095849']]
    """
    rows = _checked(bodies)
    wallets, jettons = _known(metadata)
    found = []
    for kind, amount, source, destination in rows.select(*_NEEDS).rows():
        end = ENDS.get(kind)
        address = (source if end == "source" else destination if end else None) or ""
        jetton = wallets.get(address, address if address in jettons else None)
        told = jettons.get(jetton or "", _Jetton())
        found.append((jetton, *told, *_in_units(amount, told.decimals)))
    shape = pa.schema([(each.name, each.kind.arrow) for each in results.JETTON_AMOUNTS.columns])
    columns = dict(zip(shape.names, zip(*found, strict=True) if found else [[]] * 6, strict=True))
    result: AnyFrame = engines.with_table(rows, pa.table(columns, shape)).to_native()
    return result


def _checked(bodies: Any) -> nw.DataFrame[Any]:
    rows = enter(bodies, _HELPER)
    if not isinstance(rows, nw.DataFrame):
        raise TypeError(
            f"{_HELPER} takes the eager frame that decode_bodies returns, not "
            f"{type(bodies).__name__}"
        )
    if absent := next((name for name in _NEEDS if name not in rows.columns), None):
        raise ValueError(
            f"{_HELPER} needs the column {absent!r}: decode messages that have source and "
            "destination with decode_bodies"
        )
    added = results.JETTON_AMOUNTS.names()
    if taken := next((name for name in added if name in rows.columns), None):
        raise ValueError(f"{_HELPER} would add the column {taken!r}, which the frame has")
    return rows


def _known(metadata: object) -> tuple[dict[str, str], dict[str, _Jetton]]:
    """Return the jetton of each wallet, and what is known of each jetton."""
    rows = newest(Given(metadata, _HELPER, METADATA), ["token_info"]).collect("pyarrow")
    wallets, jettons = {}, {}
    for address, info in zip(rows["address"].to_list(), rows["token_info"].to_list(), strict=True):
        for entry in token_entries(info):
            extra = entry.get("extra")
            extra = extra if isinstance(extra, dict) else {}
            match entry.get("type"):
                case "jetton_wallets" if isinstance(extra.get("jetton"), str):
                    wallets[address] = extra["jetton"]
                case "jetton_masters":
                    jettons[address] = _Jetton(
                        _text(entry.get("symbol")),
                        _text(entry.get("name")),
                        _decimals(extra.get("decimals", entry.get("decimals"))),
                    )
    return wallets, jettons


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _decimals(value: object) -> int | None:
    """Read the number of decimals, which owners write as text or as a number."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_DECIMALS))):
        return None
    return int(text) if int(text) <= _MOST_DECIMALS else None


def _in_units(amount: object, decimals: int | None) -> tuple[float | None, str | None]:
    """Return an amount in units, as the nearest float and with every digit."""
    if decimals is None or not isinstance(amount, str):
        return None, None
    if not (amount.isascii() and amount.isdecimal()):
        return None, None
    # As text: Python refuses integers of more than 4300 digits.
    digits = amount.lstrip("0").zfill(decimals + 1)
    exact = f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
    units = float(exact)
    return None if math.isinf(units) else units, exact
