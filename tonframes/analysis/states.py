"""What accounts pay for storage, from their states: the size of their code and data."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa

from tonframes.analysis import engines, intake, results
from tonframes.bodies.weights import state_weight
from tonframes.network.prices import PRICES, SPECIAL, STORAGE
from tonframes.tableset import TableSet
from tonframes.wire.schema import ACCOUNTS

if TYPE_CHECKING:
    from tonframes.analysis.engines import Frame

#: What is read of account states, in addition to address and fetched_at.
STATES = ("status", "balance", "code_boc", "data_boc")

DAY = 86_400
#: The account is frozen once its debt is above this.
FREEZE = PRICES[0].freeze_due_limit  # the same in every row

#: How an address of the masterchain begins.
MASTERCHAIN = "-1:"
# The root cell of an account's storage (block.tlb, AccountStorage): last_trans_lt, the length of
# the balance, and one bit for extra currencies.
_ROOT = 64 + 4 + 1
# account_active and the five fields of StateInit; account_uninit; account_frozen and its hash.
_STATUS = {"active": 1 + 5, "uninit": 2, "frozen": 2 + 256}


def are_states(given: object) -> bool:
    """Return whether these are account states, as `Accounts` or as its frame."""
    if isinstance(given, TableSet):
        return hasattr(type(given), "accounts")
    frame = nw.from_native(given, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return False
    return {"address", "fetched_at"} <= set(frame.collect_schema().names())


def rates_of_states(given: Any) -> Frame:
    """Return the columns of `storage_rates`, from the newest state of each account."""
    if not intake.in_memory(given):
        raise TypeError(
            "storage_rates reads the code and data of account states in Python: collect the lazy "
            "frame first"
        )
    frame = getattr(given, ACCOUNTS.name) if isinstance(given, TableSet) else given
    rows = intake.newest("storage_rates", frame, ACCOUNTS, list(STATES))
    read = rows.collect("pyarrow").to_native().select(["address", *STATES, "fetched_at"])
    moments = read.schema.field("fetched_at").type
    if not (pa.types.is_timestamp(moments) or pa.types.is_null(moments)):
        raise TypeError(
            f"storage_rates needs moments in the column 'fetched_at', not {moments} (objects of "
            "several types are read as text): pd.to_datetime(frame['fetched_at'], utc=True) "
            "converts them"
        )
    shape = pa.schema([(each.name, each.kind.arrow) for each in results.STORAGE_RATES.columns])
    table = pa.Table.from_pylist([_rate(**state) for state in read.to_pylist()], shape)
    return engines.made_of(table, rows)


def _rate(
    *,
    address: str,
    status: str | None,
    balance: int | None,
    code_boc: str | None,
    data_boc: str | None,
    fetched_at: Any,
) -> dict[str, Any]:
    if fetched_at is not None and fetched_at.tzinfo is None:
        fetched_at = fetched_at.replace(tzinfo=UTC)  # Python takes it as local time
    now = None if fetched_at is None else int(fetched_at.timestamp())
    cells, bits = _size(status, balance, code_boc, data_boc)
    special = address in SPECIAL
    row: dict[str, Any] = {
        "account": address,
        "status": status,
        "now": now,
        "balance": balance,
        "intervals": 0,
        "cells": cells,
        "bits": bits,
        "special": special,
    }
    if special:
        return row | {"rent_per_day": 0.0, "rent_error": 0.0}
    if cells is None or bits is None or balance is None or now is None:
        return row
    prices = next((entry for entry in reversed(STORAGE) if entry.valid_from <= now), None)
    if prices is None:
        return row
    if address.startswith(MASTERCHAIN):
        price = bits * prices.mc_bit_price + cells * prices.mc_cell_price
    else:
        price = bits * prices.bit_price + cells * prices.cell_price
    # Prices are in 2^-16 nanoton for a second. `price` is an integer, and each figure one division.
    row |= {"rent_per_day": price * DAY / 2**16, "rent_error": 0.0}
    if price:
        row["days_left"] = (balance << 16) / (price * DAY)
    if price and status == "active":
        row["days_to_freeze"] = ((balance + FREEZE) << 16) / (price * DAY)
    return row


def _size(
    status: str | None, balance: int | None, code: str | None, data: str | None
) -> tuple[int, int] | tuple[None, None]:
    """Return the cells and bits that storage is charged for; None if they are unknown."""
    if status == "nonexist":
        return 0, 0
    if status not in _STATUS or balance is None or (status == "active" and None in (code, data)):
        return None, None
    try:
        cells, bits = state_weight(code, data)
    except ValueError:
        return None, None
    return cells + 1, bits + _ROOT + 8 * ((balance.bit_length() + 7) // 8) + _STATUS[status]
