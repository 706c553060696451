"""The life of an exchange, a game and some wallets follows the rules, and happens as described."""

import pytest

import tonframes as tf
from chain import exchange
from chain.life import CLOSING, RUSH, UPGRADE, Life
from tonframes.analysis import price_of
from tonframes.bodies import import_fees
from tonframes.network.prices import BASECHAIN

pytest.importorskip("pytoniq_core")

DAY = 86_400


@pytest.fixture(scope="module")
def histories():
    return tf.read_transactions(tf.sample("histories"))


@pytest.fixture(scope="module")
def transactions(histories):
    return histories.transactions


@pytest.fixture(scope="module")
def names():
    held = tf.read_accounts(tf.sample("histories"))
    named = tf.with_names(held.accounts, held.address_book, held.metadata)
    return named.dropna(subset="address_name").set_index("address_name").address


def of(transactions, account):
    return transactions[transactions.account == account]


def test_running_in_steps_makes_the_same():
    whole, stepwise = Life(weeks=1), Life(weeks=1)
    rows = whole.run(whole.stop)["transactions"]
    steps = [stepwise.start + 2 * DAY, stepwise.start + 3 * DAY + 7, stepwise.stop]
    assert [row for stop in steps for row in stepwise.run(stop)["transactions"]] == rows


def test_fees_and_balances_add_up_through_the_price_change(histories):
    transactions, messages = histories.transactions, histories.messages
    assert tf.check_fees(transactions, messages).verdict.unique().tolist() == ["ok"]
    assert tf.check_balances(transactions, messages).verdict.unique().tolist() == ["ok"]


def test_histories_are_complete_from_the_first_transaction_on(transactions):
    for _, rows in transactions.groupby("account"):
        assert rows.prev_trans_lt.iloc[0] == 0
        assert (rows.prev_trans_hash.iloc[1:].to_numpy() == rows.hash.iloc[:-1].to_numpy()).all()


def test_the_network_lowers_its_prices(transactions):
    before, after = BASECHAIN[-2:]
    ran = transactions.dropna(subset="compute_gas_fees")
    paid = price_of(ran).price
    late = ran.now >= after.valid_from
    assert set(paid[late]) == {after.name}
    assert set(paid[~late]) == {before.name}
    assert late.sum() > 500
    assert (~late).sum() > 500


def test_forwarding_fees_follow_from_the_cells_and_the_prices_of_the_time(histories):
    """Compute them with the calculator of tonframes, which shares no code with the chain."""
    now = histories.transactions.set_index("hash").now
    sent = histories.messages.query("direction == 'out'").dropna(subset="fwd_fee")
    assert len(sent) > 3_000
    for message in sent.itertuples():
        row = BASECHAIN[-1 if now[message.tx_hash] >= BASECHAIN[-1].valid_from else -2]
        init = message.init_state_body if isinstance(message.init_state_body, str) else None
        fees = import_fees(
            message.body,
            init,
            lump_price=row.lump_price,
            bit_price=row.bit_price,
            cell_price=row.cell_price,
        )
        assert message.fwd_fee in {fee - (fee * row.first_frac >> 16) for fee in fees}


def test_the_exchange_is_upgraded_and_needs_less_gas(transactions, names):
    pool = of(transactions, names["exchange.ton"])
    known = pool.dropna(subset=["account_state_code_hash_before", "account_state_code_hash_after"])
    [moment] = known[
        known.account_state_code_hash_before != known.account_state_code_hash_after
    ].now
    assert 0 <= moment - UPGRADE <= 2
    assert pool.account_state_code_hash_after.nunique() == 2
    done = pool[~pool.aborted]
    gas = done.compute_gas_used.groupby(done.now > moment).median()
    assert gas[True] < 0.75 * gas[False]


def test_many_swaps_fail_on_the_bad_day(transactions, names):
    pool = of(transactions, names["exchange.ton"])
    failed = pool[pool.compute_exit_code == exchange.PRICE_MOVED].block_time.dt.date.value_counts()
    assert str(failed.index[0]) == "2026-05-28"
    assert failed.iloc[0] > 30
    assert failed.iloc[1] < 6
    rush = pool[pool.now.between(RUSH.start, RUSH.stop)]
    assert rush.aborted.mean() > 0.4
    assert pool[~pool.index.isin(rush.index)].aborted.mean() < 0.12


def test_people_sleep_at_night_and_rest_on_weekends(transactions, names):
    pool = of(transactions, names["exchange.ton"])
    pool = pool[~pool.now.between(RUSH.start, RUSH.stop)]
    hours = pool.block_time.dt.hour.value_counts()
    assert hours[range(1, 6)].sum() * 4 < hours[range(13, 18)].sum()
    days = pool.block_time.dt.day_of_week.value_counts()
    assert days[[5, 6]].mean() < 0.7 * days[range(5)].mean()


def test_the_game_dies(transactions, names):
    game = of(transactions, names["game.ton"])
    weeks = ((game.now - game.now.min()) // (7 * DAY)).value_counts()
    assert weeks[0] > 3 * weeks[3] > 0
    assert game[game.now > CLOSING + 60].aborted.all()
    assert game.now.max() < transactions.now.max() - 14 * DAY


def test_operations_have_names(histories, names):
    named = tf.with_operation(histories.transactions, histories.messages)
    assert not named.operation.str.startswith("0x").any()
    assert set(of(named, names["exchange.ton"]).operation) == {
        "dedust_collect_fees",
        "dedust_deposit_liquidity",
        "dedust_swap",
        "dedust_upgrade_pool",
        "deposit",
        "jetton_notify",
    }


def test_bodies_can_be_read(histories):
    bodies = tf.decode_bodies(histories.messages)
    assert bodies.error.isna().all()
    jettons = bodies[bodies.kind == "jetton_transfer"]
    assert len(jettons) > 500
    assert jettons.amount_exact.notna().all()


def test_swaps_keep_the_product_of_the_reserves():
    assert exchange.amount_out(0, 10**12, 10**12) == 0
    for given in (1, 10**6, 10**9, 10**12):
        ton, jettons = 7 * 10**12, 21 * 10**9
        out = exchange.amount_out(given, ton, jettons)
        assert (ton + given) * (jettons - out) >= ton * jettons
        fair = given * jettons // ton
        assert out <= fair


def test_states_show_the_code_before_and_after_the_upgrade(names):
    store = tf.sample("histories")
    moments = sorted((store / "accounts").glob("*.parquet"))
    assert len(moments) == 2
    hashes = [
        tf.read_accounts(store, as_of=as_of).accounts.set_index("address").code_hash
        for as_of in ("2026-05-05", "2026-07-01")
    ]
    changed = hashes[0][hashes[0] != hashes[1][hashes[0].index]]
    assert changed.index.tolist() == [names["exchange.ton"]]
