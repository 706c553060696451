"""New transactions of accounts, as they appear."""

from __future__ import annotations

from itertools import islice

import pytest
from fake_service import FakeService, whole_histories

import tonframes as tf
from tonframes.fetch import follow as blocks_follow
from tonframes.fetch.histories import transactions as follow

ROWS = whole_histories()
BUSY = [
    a
    for a in {row["account"]: None for row in ROWS}
    if sum(row["account"] == a for row in ROWS) > 20
]


@pytest.fixture(params=[True, False], ids=["with a store", "without a store"])
def store(request, tmp_path):
    return tmp_path / "store" if request.param else None


class Growing(FakeService):
    """A service that has more transactions after every look at the states."""

    def __init__(self, rows, start, step):
        super().__init__(rows[:start])
        self.all, self.count, self.step = rows, start, step

    def _states(self, addresses, last):
        found = super()._states(addresses, last)
        self.count += self.step
        # A masterchain block is shown as a whole.
        seqno = self.all[min(self.count, len(self.all) - 1)]["mc_block_seqno"]
        self.set_rows([row for row in self.all if row["mc_block_seqno"] < seqno])
        return found


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(follow, "POLL", 0.001)
    monkeypatch.setattr(blocks_follow, "POLL", 0.001)


@pytest.mark.parametrize("since", [None, 0])
def test_each_new_transaction_comes_once(store, since):
    start = next(i for i, row in enumerate(ROWS) if row["mc_block_seqno"] == 90_000_005)
    with Growing(ROWS, start, 20) as service, tf.Client(service.url) as client:
        following = tf.follow_transactions(BUSY, since=since, client=client, store=store)
        parts = list(islice(following, 6))
    came = [lt for part in parts for lt in part.transactions["lt"]]
    keys = [
        k for p in parts for k in zip(p.transactions["account"], p.transactions["lt"], strict=True)
    ]
    assert len(keys) == len(set(keys))
    first = 0 if since == 0 else int(ROWS[start]["lt"])
    known = {(a, lt) for a, lt in keys}
    last = {a: max(lt for b, lt in keys if b == a) for a, _ in keys}
    expected = {
        (row["account"], int(row["lt"]))
        for row in ROWS
        if row["account"] in last and first <= int(row["lt"]) <= last[row["account"]]
    }
    assert known == expected
    assert came


def test_offline_is_refused():
    with pytest.raises(tf.MissingError, match="needs a service"):
        next(tf.follow_transactions(BUSY, client="offline", store=None))
