"""Count the requests of a fetch before it starts."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from tonframes.fetch.resolve import (
    DEFAULT,
    ClientOption,
    Seqnos,
    StoreOption,
    resolve_client,
    resolve_seqnos,
    resolve_store,
)
from tonframes.seqnos import spell, subtract
from tonframes.store import SPAN

if TYPE_CHECKING:
    from pathlib import Path

#: Requests per second of TON Center's plans; all keys of a plan share them.
PLANS = {"without a key": 1.0, "free": 10.0, "plus": 25.0, "advanced": 100.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fetch_blocks` would do with the same arguments, if nothing fails.

    Attributes
    ----------
    wanted, held, missing
        Ranges of masterchain seqnos: all, those that the store holds, those to fetch.
    requests
        Least number of requests: two for each masterchain block, which is enough for 1000
        transactions, and one for the tips before each range and at the end of each file.
    store
        Folder of the store; None for none.
    """

    wanted: tuple[range, ...]
    held: tuple[range, ...]
    missing: tuple[range, ...]
    requests: int
    store: Path | None

    @property
    def seconds(self) -> pd.Series:
        """Seconds that the requests take at the rate of each plan of TON Center."""
        return pd.Series({plan: self.requests / rate for plan, rate in PLANS.items()}, name="s")

    def __str__(self) -> str:
        if not self.missing:
            return f"{_count(self.wanted)} masterchain blocks: {self.store} holds all of them"
        times = ", ".join(f"{_time(s)} {plan}" for plan, s in self.seconds.items())
        return (
            f"{_count(self.wanted)} masterchain blocks, {_count(self.held)} of them held; to "
            f"fetch: {spell(self.missing)}, at least {self.requests} requests: {times}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def plan_blocks(
    seqnos: Seqnos, *, client: ClientOption = None, store: StoreOption = DEFAULT
) -> Plan:
    """Return how many requests and seconds a fetch would take; send nothing.

    Parameters
    ----------
    seqnos, client, store
        As in `fetch_blocks`.

    Examples
    --------
    >>> plan = plan_blocks(range(49_000_000, 49_001_000), store=None)
    >>> plan.requests
    2011
    >>> print(plan)
    1000 masterchain blocks, 0 of them held; to fetch: 49000000:49001000, at least 2011 requests: \
33 min 31 s without a key, 3 min 21 s free, 1 min 20 s plus, 20 s advanced
    """
    wanted = resolve_seqnos(seqnos)
    with resolve_client(client) as (_, service):
        target = resolve_store(store, service)
    missing = wanted if target is None else target.gaps(wanted)
    ends = sum((run.stop - 1) // SPAN - run.start // SPAN + 2 for run in missing)
    network = int(target is not None and target.network is None) if missing else 0
    return Plan(
        wanted=wanted,
        held=subtract(wanted, missing),
        missing=missing,
        requests=2 * _count(missing) + ends + network,
        store=None if target is None else target.path,
    )


def _count(runs: tuple[range, ...]) -> int:
    return sum(map(len, runs))


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(told[:2]) or "0 s"
