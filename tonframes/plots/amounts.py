"""The unit of amounts in a plot: TON, nanoton, or a currency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tonframes.analysis.units import to_ton
from tonframes.errors import shorten
from tonframes.plots import labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_TON, _NANOTON = "TON", "nanoton"
_MOST = 1e30  # more than all TON in the currency with the least value


@dataclass(frozen=True, slots=True)
class Unit:
    """What amounts are drawn in. A currency has prices."""

    name: str
    prices: pd.Series[Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments with which a summary adds the columns in this unit."""
        return {} if self.prices is None else {"prices": self.prices, "currency": self.name}

    def column(self, name: str) -> str:
        """Return the column of a summary that has an amount in this unit, or in nanoton."""
        return name if self.prices is None else f"{name}_{self.name.lower()}"

    def values(self, amounts: Iterable[Any]) -> NDArray[np.float64]:
        """Return amounts of `column` as floats, NaN where a price is unknown."""
        if self.prices is not None:
            values = np.array([np.nan if pd.isna(amount) else amount for amount in amounts], float)
            if (np.abs(values) > _MOST).any():
                raise ValueError(
                    f"amounts in {self.name} are too large to be drawn, up to "
                    f"{np.nanmax(np.abs(values)):.3g}: prices= is the price of 1 TON in {self.name}"
                )
            return values
        convert = float if self.name == _NANOTON else to_ton
        return np.array([convert(int(amount)) for amount in amounts], np.float64)

    def axis(self, column: str) -> str:
        """Return the label of an axis."""
        return f"{labels.name(column)} in {self.name}"


def unit_of(plot: str, unit: str, prices: pd.Series[Any] | None) -> Unit:
    """Return the unit that the user chose, and check that there are prices for a currency."""
    if not isinstance(unit, str) or not unit.isidentifier():
        raise TypeError(f"{plot} draws amounts in TON, nanoton or a currency, not {shorten(unit)}")
    if unit.lower() in {_TON.lower(), _NANOTON}:
        if prices is not None:
            raise ValueError(
                f"{plot} draws amounts in {unit}, for which it needs no prices: name the currency "
                'of the prices, such as unit="USD"'
            )
        return Unit(_NANOTON if unit.lower() == _NANOTON else _TON)
    if prices is None:
        raise ValueError(
            f"{plot} needs prices= to draw amounts in {unit}: a pandas Series, the price of 1 TON "
            "by day or moment. Without prices there are unit='TON' and unit='nanoton'"
        )
    return Unit(unit, prices)


def why_none(amounts: pd.Series[Any], no_rows: str, all_zero: str) -> str:
    """Return why no amount is drawn."""
    if amounts.empty:
        return no_rows
    return "prices unknown" if amounts.isna().any() else all_zero
