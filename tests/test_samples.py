"""The samples are what their maker makes, byte for byte, and can be served and fetched again."""

import pytest
from chain.samples import synthetic_store, write_histories, write_sample
from pandas.testing import assert_frame_equal

import tonframes as tf
from tonframes.store import Store


def files(store):
    names = (file for file in sorted(store.rglob("*")) if file.is_file())
    return {
        str(file.relative_to(store)): file.read_bytes()
        for file in names
        if not file.name.startswith(".lock")
    }


def tables(store):
    """Return what a store holds, without what depends on versions of packages."""
    held, histories = tf.read_accounts(store), tf.read_transactions(store)
    return [frame.arrow(name) for frame in (held, histories) for name in frame.names]


def test_an_unknown_sample_is_refused():
    with pytest.raises(ValueError, match="there is no sample 'history': name one of blocks, hist"):
        tf.sample("history")


def unheld(path, histories):
    """List the functions that fetch, with the error of what a store does not hold."""
    reads = {
        "fetch_blocks": lambda: tf.read_blocks(path, [1]),
        "fetch_accounts": lambda: tf.read_accounts(path, ["0:" + "0" * 64]).accounts,
        "fetch_transactions": lambda: tf.read_transactions(histories, "0:" + "0" * 64),
    }
    for name, read in reads.items():
        with pytest.raises(tf.MissingError) as caught:
            read()
        yield name, str(caught.value)


def test_what_a_sample_does_not_hold_is_not_fetched_into_it(tmp_path):
    for name, text in unheld(tf.sample(), tf.sample("histories")):
        assert f"store of your own, as {name}(..., store='my-store')" in text
    with tf.serve(tf.sample()) as url:
        tf.fetch_blocks(90_000_000, client=url, store=tmp_path, progress=False)
    with pytest.raises(tf.MissingError) as caught:
        tf.read_blocks(tmp_path, [1])
    assert f"fetch them with fetch_blocks(..., store='{tmp_path}')" in str(caught.value)


def test_a_synthetic_store_is_served_and_fetched_as_it_is(tmp_path):
    made = synthetic_store(tmp_path / "made", 120, seed=3, transactions_per_block=5)
    with tf.serve(made) as url:
        fetched = tf.fetch_blocks("90000000:90000120", client=url, store=tmp_path / "fetched")
    held = tf.read_blocks(made, verify=True)
    for name in ("messages", "blocks"):
        assert_frame_equal(fetched.frame(name), held.frame(name))
    # Deployed services change gas and empty credit phases, and so does the local one.
    columns = ["hash", "mc_block_seqno", "account", "lt", "total_fees"]
    assert_frame_equal(fetched.transactions[columns], held.transactions[columns])
    assert len(held.transactions) == 600
    other = synthetic_store(tmp_path / "other", 1, transactions_per_block=5)
    assert set(tf.read_blocks(other).transactions.hash).isdisjoint(held.transactions.hash)


def test_a_synthetic_store_is_a_new_one(tmp_path):
    with pytest.raises(ValueError, match="name a folder that does not exist yet"):
        synthetic_store(tmp_path, 1)
    with pytest.raises(ValueError, match="at least 1 masterchain block"):
        synthetic_store(tmp_path / "made", 0)
    with pytest.raises(ValueError, match="transactions_per_block"):
        synthetic_store(tmp_path / "made", 1, transactions_per_block=1)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_histories_are_what_their_maker_makes(tmp_path):
    write_sample("histories", tmp_path / "made")
    shipped = tf.sample("histories")
    assert Store(tmp_path / "made").network == Store(shipped).network == "-217"
    made = tables(tmp_path / "made")
    assert all(a.equals(b) for a, b in zip(made, tables(shipped), strict=True))
    assert files(tmp_path / "made").keys() == files(shipped).keys()


def test_histories_are_written_the_same_to_the_byte(tmp_path):
    for name in ("first", "second"):
        write_histories(Store(tmp_path / name), weeks=1)
    assert files(tmp_path / "first") == files(tmp_path / "second")


def test_histories_are_small():
    size = sum(map(len, files(tf.sample("histories")).values()))
    assert 1_000_000 < size < 3_000_000
    assert 3_000 < len(tf.read_transactions(tf.sample("histories")).transactions) < 4_000


def test_any_period_of_the_three_months_can_be_read():
    held = tf.read_transactions(tf.sample("histories"), since="2026-03-23", until="2026-06-22")
    assert len(held.accounts) == 11
    assert len(held.transactions) == len(tf.read_transactions(tf.sample("histories")).transactions)
    dead = tf.read_transactions(tf.sample("histories"), since="2026-06-15", until="2026-06-22")
    assert 0 < dead.transactions.account.nunique() < 11


def read(name):
    return (tf.read_blocks if name == "blocks" else tf.read_transactions)(tf.sample(name))


@pytest.mark.parametrize("name", ["blocks", "histories"])
@pytest.mark.parametrize(
    ("operation", "least", "most"),
    [
        # Of the real chain: recorded calls, and the constants that jettons reserve for gas.
        ("jetton_transfer", 6_300, 10_300),
        ("jetton_internal_transfer", 7_600, 10_435),
        ("jetton_notify", 7_000, 16_721),
    ],
)
def test_gas_of_jettons_spreads_as_on_the_real_chain(name, operation, least, most):
    held = read(name)
    named = tf.with_operation(held.transactions, held.messages)
    done = named[(named.operation == operation) & named.compute_success.fillna(value=False)]
    if operation == "jetton_notify":  # of exchanges: wallets send nothing when they are told
        done = done[done.action_msgs_created > 0]
    gas = done.compute_gas_used
    assert least <= gas.min() < gas.max() <= most
    assert gas.nunique() > 40
    assert gas.median() < 0.9 * gas.max()


def test_most_notices_of_jettons_that_run_are_those_of_exchanges():
    summary = tf.gas_summary(read("blocks"), by="operation").set_index("operation")
    noticed = summary.loc["jetton_notify"]
    assert 7_500 < noticed.gas_median < 9_000  # 8,258 on the real chain
    assert noticed.gas_median < noticed.gas_max


def test_wallets_receive_excesses_for_the_gas_of_real_ones():
    named = tf.with_operation(read("blocks").transactions, read("blocks").messages)
    excesses = named[(named.operation == "excess") & ~named.compute_skipped.fillna(value=True)]
    assert set(excesses.compute_gas_used) == {778, 991}  # wallets v5 and v4, as recorded


def test_histories_are_served_and_fetched_again(tmp_path):
    shipped = tf.read_transactions(tf.sample("histories"))
    with tf.serve(tf.sample("histories")) as url, tf.Client(url) as client:
        fetched = tf.fetch_transactions(shipped.accounts, client=client, store=tmp_path)
        states = tf.fetch_accounts(shipped.accounts, client=client, store=None)
    assert_frame_equal(fetched.transactions, shipped.transactions)
    assert_frame_equal(fetched.messages, shipped.messages)
    held = tf.read_accounts(tf.sample("histories")).accounts
    key = ["address", "last_transaction_lt", "balance"]
    assert_frame_equal(
        states.accounts[key].sort_values("address", ignore_index=True),
        held[key].sort_values("address", ignore_index=True),
    )
