"""Rent: the true rate lies within the bounds, and what cannot be known is not made up."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from math import ceil

import pandas as pd
import pyarrow as pa
import pytest
from chain import Chain
from chains import frames, sample_tables
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from tonframes.analysis.storage import DAY, RENT, storage_rates
from tonframes.network.prices import STORAGE

# Some recorded answers contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")

CHANGE = STORAGE[1].valid_from
START = CHANGE + DAY
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
UNKNOWN = ["collected", "seconds", "rent_per_day", "rent_error", "steady"]
DAYS = ["days_left", "days_to_freeze"]
ELECTOR_AND_CONFIG = ["-1:" + "3" * 64, "-1:" + "5" * 64]


def table(*accounts):
    """Make an Arrow table of accounts, each a list of rows; each follows the one before."""
    rows = []
    for number, account in enumerate(accounts):
        for at, row in enumerate(account):
            standard = {
                "account": f"0:{number}",
                "hash": f"{number}-{at}",
                "prev_trans_hash": f"{number}-{at - 1}",
                "lt": at,
                "orig_status": "active",
                "end_status": "active",
                "storage_fees_collected": 0,
                "account_state_balance_after": 10**9,
                "account_state_code_hash_before": "code",
                "account_state_code_hash_after": "code",
            }
            rows.append(standard | row)
    kinds = sample_tables()[0].schema
    schema = pa.schema([kinds.field(name).with_nullable(True) for name in RENT])
    return pa.Table.from_pylist(rows, schema=schema)


def rates(*accounts):
    found = storage_rates(table(*accounts).to_pandas(types_mapper=NULLABLE.get))
    return found.sort_values("account").reset_index(drop=True)


def rate(*rows):
    return rates(rows).iloc[0]


def at(now, collected=0, **more):
    return {"now": now, "storage_fees_collected": collected} | more


def nothing_known(found):
    return found.intervals == 0 and found[[*UNKNOWN, *DAYS]].isna().all()


# The rate


@given(
    st.integers(1, 50),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=12),
)
@settings(max_examples=30)
def test_the_true_rate_lies_within_the_bounds(cells, gaps):
    true = Fraction(cells * STORAGE[1].cell_price, 65_536)  # of a second
    rows = [at(START)]
    for gap in gaps:
        rows.append(at(rows[-1]["now"] + gap, ceil(true * gap)))
    found = rate(*rows)
    assert found.intervals == len(gaps)
    assert found.seconds == sum(gaps)
    assert found.collected == sum(row["storage_fees_collected"] for row in rows)
    most = Fraction(int(found.collected), int(found.seconds)) * DAY
    assert found.rent_per_day == pytest.approx(float(most), rel=1e-12)
    assert found.rent_error == pytest.approx(len(gaps) * DAY / sum(gaps), rel=1e-12)
    assert most - Fraction(len(gaps) * DAY, sum(gaps)) < true * DAY <= most
    assert found.steady
    assert found.days_left == pytest.approx(float(10**9 / most), rel=1e-12)
    assert found.days_to_freeze == pytest.approx(float((10**9 + 10**8) / most), rel=1e-12)
    assert found.days_left <= 10**9 / (true * DAY)


def histories(answers):
    found = defaultdict(list)
    for body in answers:
        for row in body["transactions"]:
            found[row["account"]].append(row)
    return {account: sorted(rows, key=lambda r: int(r["lt"])) for account, rows in found.items()}


def recomputed(rows):  # noqa: C901 - one account, from top to bottom
    """Do what `storage_rates` does, for one account as the service shows it."""
    last = rows[-1]

    def paid(row):
        return row["description"].get("storage_ph") or {}

    def debt(row):
        return int(paid(row).get("storage_fees_due") or 0)

    def code(row, when):
        return (row[f"account_state_{when}"] or {}).get("code_hash")

    def price(seconds):
        return seconds >= CHANGE

    intervals = []
    for before, row in pairwise(rows):
        seconds = row["now"] - before["now"]
        if (
            row["prev_trans_hash"] == before["hash"]
            and seconds > 0
            and not debt(before)
            and not debt(row)
            and row["orig_status"] == last["end_status"] != "nonexist"
            and code(row, "before") == code(last, "after")
            and price(before["now"]) == price(last["now"])
            and not before["now"] < CHANGE < row["now"]
        ):
            intervals.append((int(paid(row)["storage_fees_collected"]), seconds))
    balance = (last["account_state_after"] or {}).get("balance")
    if balance is None and last["end_status"] == "nonexist":
        balance = 0
    result = {
        "account": last["account"],
        "status": last["end_status"],
        "now": last["now"],
        "balance": None if balance is None else int(balance),
        "debt": debt(last),
        "intervals": len(intervals),
        "special": last["account"] in ELECTOR_AND_CONFIG,
        **dict.fromkeys([*UNKNOWN, *DAYS]),
    }
    if not intervals:
        return result
    collected, seconds = (sum(column) for column in zip(*intervals, strict=True))
    per_day = Fraction(collected, seconds) * DAY
    least = max(Fraction(paid - 1, length) for paid, length in intervals)
    steady = least < min(Fraction(paid, length) for paid, length in intervals)
    result |= {
        "collected": collected,
        "seconds": seconds,
        "rent_per_day": float(per_day),
        "rent_error": len(intervals) * DAY / seconds,
        "steady": steady,
    }
    if steady and collected and balance is not None:
        result["days_left"] = float(int(balance) / per_day)
        if last["end_status"] == "active":
            result["days_to_freeze"] = float((int(balance) + 10**8 - debt(last)) / per_day)
    return result


def frame(answers):
    return frames(answers)[0]


def near(known):
    """Let floats be rounded: a fraction is once, a quotient of floats more often."""
    return {
        name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        for name, value in known.items()
    }


def test_rates_agree_with_the_answers(answers):
    found = pa.Table.from_pandas(storage_rates(frame(answers)), preserve_index=False).to_pylist()
    expected = {account: recomputed(rows) for account, rows in histories(answers).items()}
    assert len(found) == len(expected)
    for row in found:
        assert (row.pop("cells"), row.pop("bits")) == (None, None)
        assert row == near(expected[row["account"]])
    assert len({row["intervals"] for row in found}) > 4
    known = [row["rent_per_day"] for row in found if row["rent_per_day"] is not None]
    assert known == sorted(known, reverse=True)


def test_the_recorded_rates_agree_with_each_other(recorded):
    # Of wallets that were recorded often enough: what one cell more or less costs is 6 nanoton.
    found = storage_rates(frame(recorded))
    often = found[found.intervals > 10]
    assert len(often) >= 2
    assert often.steady.all()
    assert (often.rent_error < often.rent_per_day / 10).all()


def test_the_chain_charges_by_this_rate_later():
    # Later than what the rate was found from: prices, sizes and debts are those of the chain.
    chain = Chain(7, transactions_per_block=40)
    found = storage_rates(frame([chain.next_block() for _ in range(40)]))
    found = found[found.steady.fillna(value=False) & (found.collected > 0)]
    bounds = found.set_index("account")
    last = dict(zip(found.account, found.now, strict=True))
    checked = set()
    for _ in range(20):
        for row in chain.next_block()["transactions"]:
            account = row["account"]
            if account not in last or account in checked:
                continue
            checked.add(account)
            rent = bounds.loc[account]
            seconds = row["now"] - last[account]
            paid = int(row["description"]["storage_ph"]["storage_fees_collected"])
            least = (rent.rent_per_day - rent.rent_error) * seconds / DAY
            most = rent.rent_per_day * seconds / DAY
            assert least - 1e-6 <= paid <= most + 1
    assert len(checked) > 50


# What cannot be known


def test_one_transaction_tells_nothing():
    assert nothing_known(rate(at(START, 5)))
    assert rate(at(START, 5)).balance == 10**9


def test_a_gap_in_the_frame_is_no_interval():
    gap = at(START + 100, 50, prev_trans_hash="elsewhere")
    assert nothing_known(rate(at(START), gap))
    found = rate(at(START), gap, at(START + 300, 70))
    assert (found.intervals, found.collected, found.seconds) == (1, 70, 200)


@pytest.mark.parametrize(
    ("now", "intervals"), [((-20, 0), 0), ((-20, 10), 0), ((0, 20), 1), ((-20, -10), 1)]
)
def test_no_interval_reaches_across_a_change_of_prices(now, intervals):
    rows = [at(CHANGE + seconds, 9) for seconds in now]
    assert rate(*rows).intervals == intervals


def test_no_rate_of_old_prices_is_taken_for_today():
    old = [at(CHANGE - 20), at(CHANGE - 10, 9)]
    assert rate(*old).collected == 9
    assert nothing_known(rate(*old, at(CHANGE + 10, 12)))
    found = rate(*old, at(CHANGE + 10, 12), at(CHANGE + 110, 20))
    assert (found.intervals, found.collected, found.seconds) == (1, 20, 100)


def test_debt_at_either_end_makes_the_rate_unknown():
    owing = at(START + 100, 5, storage_fees_due=40, account_state_balance_after=0)
    found = rate(at(START), owing)
    assert nothing_known(found)
    assert (found.debt, found.balance) == (40, 0)
    found = rate(at(START), owing, at(START + 200, 85))
    assert nothing_known(found)
    assert found.debt == 0
    found = rate(at(START), at(START + 100, 50), owing | {"now": START + 200})
    assert (found.intervals, found.collected) == (1, 50)
    assert found.days_left == 0
    assert found.days_to_freeze == pytest.approx((10**8 - 40) / (50 * DAY / 100))


def test_another_code_or_status_is_another_account():
    for change in (
        {"account_state_code_hash_after": "new"},
        {"end_status": "frozen", "account_state_code_hash_after": None},
    ):
        assert nothing_known(rate(at(START), at(START + 100, 50, **change)))
    new = {"account_state_code_hash_before": "new", "account_state_code_hash_after": "new"}
    rows = [at(START), at(START + 100, 50, account_state_code_hash_after="new")]
    found = rate(*rows, at(START + 200, 70, **new))
    assert (found.intervals, found.collected) == (1, 70)


def test_an_account_that_grew_has_a_mean_rate_and_no_days_left():
    found = rate(at(START), at(START + 100, 50), at(START + 200, 90))
    assert (found.intervals, found.collected, found.steady) == (2, 140, False)
    assert found[DAYS].isna().all()
    assert found.rent_per_day == 140 * DAY / 200


def test_special_accounts_never_freeze():
    found = rate(at(START), at(START + 100, 0), at(START + 200, 0))
    assert (found.intervals, found.rent_per_day, found.steady) == (2, 0, True)
    assert found[DAYS].isna().all()


def test_an_account_of_the_masterchain_that_pays_no_rent_is_special():
    free = [at(START), at(START + 100, 0)]
    master = [{**row, "account": "-1:A"} for row in free]
    paying = [{**row, "account": "-1:B"} for row in (at(START), at(START + 100, 50))]
    unseen = [{**at(START), "account": "-1:C"}]
    elector = [{**at(START), "account": "-1:" + "3" * 64}]
    given = table(free, master, paying, unseen, elector)
    found = storage_rates(given.to_pandas(types_mapper=NULLABLE.get))
    special = dict(zip(found.account, found.special, strict=True))
    expected = {"-1:B": False, "0:0": False, "-1:C": False, "-1:A": True, "-1:" + "3" * 64: True}
    assert special == expected
    assert list(special) == list(expected)


def test_accounts_that_are_not_active_have_no_days_to_freeze():
    uninit = {
        "orig_status": "uninit",
        "end_status": "uninit",
        "account_state_code_hash_before": None,
        "account_state_code_hash_after": None,
    }
    found = rate(at(START, **uninit), at(START + 100, 1, **uninit))
    assert found.days_left == pytest.approx(10**9 / (DAY / 100))
    assert pd.isna(found.days_to_freeze)


def test_missing_values_give_nulls():
    found = rate(at(START), at(START + 100, None, account_state_balance_after=None))
    assert nothing_known(found)
    assert found[["balance", "debt"]].isna().all()
    gone = {"end_status": "nonexist", "account_state_balance_after": None}
    assert rate(at(START), at(START + 100, 5, **gone)).balance == 0


def test_very_large_balances_are_handled():
    found = rate(at(START), at(START + 3, 1, account_state_balance_after=5 * 10**18))
    assert found.balance == 5 * 10**18
    assert found.days_left == pytest.approx(5 * 10**18 / (DAY / 3))


# Frames


def test_rows_may_come_in_any_order(made):
    transactions = frame(made)
    shuffled = transactions.sample(frac=1, random_state=1)
    before = shuffled.copy()
    expected = storage_rates(transactions).reset_index(drop=True)
    assert_frame_equal(storage_rates(shuffled).reset_index(drop=True), expected)
    assert_frame_equal(shuffled, before)


def test_wrong_frames_are_refused(made):
    transactions = frame(made[:2])
    for column in RENT:
        with pytest.raises(ValueError, match=f"storage_rates needs the column '{column}'"):
            storage_rates(transactions.drop(columns=column))
    with pytest.raises(TypeError, match="floats lose nanotons"):
        storage_rates(transactions.astype({"storage_fees_due": float}))
    with pytest.raises(TypeError, match="takes transactions as a frame"):
        storage_rates([1])
