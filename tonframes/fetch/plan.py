"""What a fetch would cost, before it is begun."""

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

#: Requests per second of TON Center's plans, all keys of a plan together.
PLANS = {"without a key": 1.0, "free": 10.0, "plus": 25.0, "advanced": 100.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fetch_blocks` would do with the same arguments, if nothing fails.

    Attributes
    ----------
    wanted, held, missing
        Masterchain seqnos as ranges: asked for, in the store, to be fetched.
    requests
        At least so many: two a masterchain block that has at most 1000 transactions, and the last
        blocks of all shards before each run of blocks and at the end of each file.
    store
        Where they would be kept; None for nowhere.
    """

    wanted: tuple[range, ...]
    held: tuple[range, ...]
    missing: tuple[range, ...]
    requests: int
    store: Path | None

    @property
    def seconds(self) -> pd.Series:
        """Seconds that it takes at the pace of each plan of TON Center."""
        return pd.Series({plan: self.requests / rate for plan, rate in PLANS.items()}, name="s")

    def __str__(self) -> str:
        if not self.missing:
            return f"{_count(self.wanted)} masterchain blocks: {self.store} has them all"
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
    """Say what fetching masterchain blocks would cost; sends nothing.

    Parameters
    ----------
    seqnos, client, store
        As for `fetch_blocks`.

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
        place = resolve_store(store, service)
    missing = wanted if place is None else place.gaps(wanted)
    ends = sum((run.stop - 1) // SPAN - run.start // SPAN + 2 for run in missing)
    network = int(place is not None and place.network is None) if missing else 0
    return Plan(
        wanted=wanted,
        held=subtract(wanted, missing),
        missing=missing,
        requests=2 * _count(missing) + ends + network,
        store=None if place is None else place.path,
    )


def _count(runs: tuple[range, ...]) -> int:
    return sum(map(len, runs))


def _time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(told[:2]) or "0 s"
