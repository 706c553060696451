"""Addresses that are probably not those that were meant: each is told by a warning."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import partial

import pytest
from fake_service import FakeService, whole_histories

import tonframes as tf
from tonframes.cli import main

ROWS = whole_histories(blocks=15)
KNOWN = sorted({row["account"] for row in ROWS})[:3]
NOBODY, NOBODY_TOO = ("0:" + digit * 64 for digit in "1B")
#: The forms of an address for test networks only: kQ… and 0Q….
FLAGGED = [tf.to_friendly(KNOWN[0], test_only=True, bounceable=b) for b in (True, False)]
#: A moment before the first transaction, until which the service surely has all.
BEFORE = "2026-05-28T20:25"
MAINNET, TESTNET, OTHER = -239, -3, -217


class NetworkService(FakeService):
    """A service that says which network it shows."""

    global_id = MAINNET

    def _answer(self, operation, query, length):
        content = super()._answer(operation, query, length)
        if operation == "masterchainInfo":
            content["last"]["global_id"] = self.global_id
        return content


@pytest.fixture
def service():
    with NetworkService(ROWS) as service:
        yield service


@pytest.fixture
def client(service):
    with tf.Client(service.url) as client:
        yield client


def follow(accounts, **options):
    return next(tf.follow_transactions(accounts, since=1, **options))


@contextmanager
def told():
    """Collect the warnings as text."""
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    assert {warning.category for warning in caught} <= {tf.TonframesWarning}
    texts += [str(warning.message) for warning in caught]


@pytest.mark.parametrize("fetch", [tf.fetch_transactions, tf.fetch_accounts, follow])
@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
@pytest.mark.parametrize("address", FLAGGED, ids=lambda address: address[:2])
def test_an_address_of_test_networks_is_told_on_mainnet(client, tmp_path, fetch, kept, address):
    call = partial(fetch, [KNOWN[1], address], client=client, store=tmp_path if kept else None)
    for _ in range(2):
        with told() as texts:
            call()
        (text,) = texts
        assert f"1 of 2 addresses, such as {address}, " in text
        assert "for test networks only" in text
        assert f"{client.base_url} shows mainnet" in text


@pytest.mark.parametrize("fetch", [tf.fetch_transactions, tf.fetch_accounts, follow])
@pytest.mark.parametrize(
    ("network", "addresses"),
    [
        (TESTNET, FLAGGED),
        (OTHER, FLAGGED),
        (MAINNET, [tf.to_friendly(KNOWN[0]), tf.to_friendly(KNOWN[0], bounceable=False)]),
        (TESTNET, [tf.to_friendly(KNOWN[0])]),
    ],
)
def test_other_addresses_are_not_told(service, tmp_path, fetch, network, addresses):
    service.global_id = network
    with tf.Client(service.url) as client, told() as texts:
        for store in (tmp_path, None):
            fetch([*addresses, *KNOWN], client=client, store=store)
    assert texts == []


def test_without_a_mark_no_service_is_asked_for_its_network(service, client):
    tf.fetch_accounts(KNOWN, client=client, store=None)
    assert service.requests == 1


def test_a_store_of_mainnet_tells_it_as_well(client, tmp_path):
    tf.fetch_transactions(KNOWN, client=client, store=tmp_path)
    tf.fetch_accounts(KNOWN, client=client, store=tmp_path)
    offline = {"client": "offline", "store": tmp_path}
    for call in (
        partial(tf.read_transactions, tmp_path),
        partial(tf.read_accounts, tmp_path),
        partial(tf.fetch_transactions, **offline),
        partial(tf.fetch_accounts, **offline),
    ):
        with told() as texts:
            call(iter([FLAGGED[0], KNOWN[1]]))
        (text,) = texts
        assert f"1 of 2 addresses, such as {FLAGGED[0]}, " in text
        assert f"{tmp_path} holds mainnet" in text
        with told() as texts:
            call(KNOWN)
        assert texts == []


def test_the_command_line_tells_it_of_a_file(service, tmp_path):
    listed = tmp_path / "addresses.txt"
    listed.write_text(f"{KNOWN[0]} # a comment\n{FLAGGED[0]}\n")
    for command in (["accounts", listed], ["transactions", "--file", listed]):
        store = ["--url", service.url, "--store", tmp_path / "store"]
        with pytest.warns(tf.TonframesWarning, match=f"1 of 2 addresses, such as {FLAGGED[0]}, "):
            assert main(list(map(str, ["fetch", *command, *store]))) == 0


@pytest.mark.parametrize("address", [NOBODY, tf.to_friendly(NOBODY)])
@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_accounts_without_transactions_are_told(client, tmp_path, kept, address):
    fetch = partial(tf.fetch_transactions, client=client, store=tmp_path if kept else None)
    for _ in range(2):
        with told() as texts:
            history = fetch([*KNOWN, address, NOBODY_TOO])
        assert set(history.unknown) == {NOBODY, NOBODY_TOO}
        (text,) = texts
        assert (
            f"{client.base_url} knows no transactions of 2 of 5 accounts, such as {NOBODY}" in text
        )
    with told() as texts:
        fetch(KNOWN)
    assert texts == []


def test_a_store_tells_accounts_without_transactions_that_are_named(client, tmp_path):
    with pytest.warns(tf.TonframesWarning, match="knows no transactions of 1 of 4"):
        tf.fetch_transactions([*KNOWN, NOBODY], until=BEFORE, client=client, store=tmp_path)
    for call in (
        partial(tf.read_transactions, tmp_path, until=BEFORE),
        partial(tf.fetch_transactions, until=BEFORE, client="offline", store=tmp_path),
    ):
        with told() as texts:
            assert call(NOBODY).unknown == (NOBODY,)
        (text,) = texts
        assert f"{tmp_path} knows no transactions of 1 of 1 accounts, such as {NOBODY}" in text
    with told() as texts:
        tf.read_transactions(tmp_path, until=BEFORE)
        tf.read_transactions(tmp_path, KNOWN, until=BEFORE)
    assert texts == []


@pytest.mark.parametrize("kept", [True, False], ids=["through a store", "without a store"])
def test_states_of_unknown_accounts_are_told(client, tmp_path, kept):
    fetch = partial(tf.fetch_accounts, client=client, store=tmp_path if kept else None)
    for age in (None, "1h"):
        with told() as texts:
            states = fetch([*KNOWN, NOBODY], max_age=age)
        assert list(states.accounts.found) == [True] * 3 + [False]
        (text,) = texts
        assert f"{client.base_url} knows no state of 1 of 4 accounts, such as {NOBODY}" in text
    with told() as texts:
        fetch(KNOWN)
    assert texts == []
