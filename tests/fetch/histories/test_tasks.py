"""Histories fetched by workers of executors: rows, errors and spans are those of one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count

import pytest
from fake_service import FakeService, Row, Troubles, whole_histories
from fault_server import error
from slow import slow
from workers import pool

import tonframes as tf
from tonframes.client import Client
from tonframes.fetch import block, spread
from tonframes.fetch.histories import tasks, transactions
from tonframes.fetch.histories.tasks import HistoryTask
from tonframes.store import Period, Store, held_spans


@cache
def truth() -> list[Row]:
    return whole_histories(60)


@cache
def accounts() -> list[str]:
    return sorted({row["account"] for row in truth()})


def repr_of(executor) -> str:
    return str(executor) if isinstance(executor, int) else "threads"


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")


@pytest.fixture
def service():
    with FakeService(truth()) as service:
        yield service


def fetch(url: str, store, executor, deadline=20, **options) -> tf.Transactions:
    # An answer may take seconds on a computer that has much else to do.
    with Client(url, deadline=deadline) as client:
        return tf.fetch_transactions(
            accounts(), client=client, store=store, executor=executor, progress=False, **options
        )


def rows(history: tf.Transactions) -> dict[str, list]:
    return {name: history.arrow(name).to_pylist() for name in ("transactions", "messages")}


@pytest.fixture(scope="module")
def expected() -> dict[str, list]:
    with FakeService(truth()) as service:
        return rows(fetch(service.url, None, 1))


@pytest.mark.parametrize("kind", ["threads", *slow("processes")])
@pytest.mark.parametrize("kept", [True, False])
def test_the_rows_are_those_of_one_process(service, tmp_path, expected, kind, kept):
    store = tmp_path / "store" if kept else None
    with pool(kind) as executor:
        history = fetch(service.url, store, executor)
    assert rows(history) == expected
    assert history.unknown == ()
    if store is not None:
        fetch(service.url, tmp_path / "here", 1)
        assert held_spans(Store(store)) == held_spans(Store(tmp_path / "here"))
        assert not any(tf.verify_store(store).values())


def test_what_is_held_is_not_fetched_again(service, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        fetch(service.url, tmp_path, executor, until="2026-05-28T20:27")
        before = service.requests
        fetch(service.url, tmp_path, executor, until="2026-05-28T20:27")
    assert service.requests == before


@pytest.mark.parametrize("executor", [1, ThreadPoolExecutor(2), *slow(2)], ids=repr_of)
def test_a_transaction_that_does_not_come_is_named(tmp_path, monkeypatch, executor):
    monkeypatch.setattr(block, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(block, "LONGEST_WAIT", 0.002)
    lost = next(row for row in truth() if row["prev_trans_lt"] != "0")
    with (
        FakeService(truth(), Troubles(gone=frozenset({lost["hash"]}))) as service,
        pytest.raises(tf.IncompleteError, match=f"lt {lost['lt']}") as caught,
    ):
        fetch(service.url, tmp_path, executor)
    assert [account for account, _ in caught.value.missing] == [lost["account"]]
    assert len(caught.value.partial.transactions) == len(truth()) - 1


@pytest.mark.parametrize("executor", [1, ThreadPoolExecutor(2), *slow(2)], ids=repr_of)
def test_a_service_that_dies_is_told_and_what_came_is_kept(tmp_path, expected, executor):
    with FakeService(truth()) as service:
        usual, arrived = service.otherwise, count()

        def reply(handler) -> None:
            alive = next(arrived) < 8
            (usual if alive else error("gone", 503))(handler)

        service.otherwise = reply
        with pytest.raises(tf.RequestError, match="503") as caught:
            fetch(service.url, tmp_path, executor, deadline=4)
        done = len(accounts()) - len(caught.value.missing)
        assert f"{done} of {len(accounts())} histories are complete" in caught.value.__notes__[-1]
        kept = caught.value.partial.arrow("transactions")["hash"].to_pylist()
        assert {row["hash"] for row in expected["transactions"]} >= set(kept)
        service.otherwise = usual
        assert rows(fetch(service.url, tmp_path, 1)) == expected


def test_what_workers_write_elsewhere_is_missed(service, tmp_path, monkeypatch):
    elsewhere = Store(tmp_path / "elsewhere")
    elsewhere.claim("-217", service.url)
    monkeypatch.setattr(tasks, "open_store", lambda *_: elsewhere)
    with ThreadPoolExecutor(1) as executor, pytest.raises(tf.StoreError, match="share"):
        fetch(service.url, tmp_path / "here", executor)


def test_a_worker_that_does_not_see_the_store(service, tmp_path):
    with Client(service.url) as client:
        of_service = transactions._service(client, [])
        periods = tuple(dict.fromkeys(accounts(), Period()).items())
        fetched = HistoryTask(periods, of_service, tmp_path / "elsewhere", "-217")(client)
    assert "does not see the store" in str(fetched.error)
    assert not (tmp_path / "elsewhere").exists()


def test_processes_are_used_only_if_they_are_asked_for(service, monkeypatch, expected):
    monkeypatch.setattr(spread, "Processes", None)
    assert rows(fetch(service.url, None, None)) == expected


def test_what_cannot_be_an_executor(tmp_path):
    with pytest.raises(TypeError, match="executor is"):
        tf.fetch_transactions(accounts(), store=tmp_path, executor="four")
    assert not any(tmp_path.iterdir())
