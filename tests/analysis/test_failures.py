"""Failures: every one is listed, explained and accounted for, on every engine."""

from __future__ import annotations

import itertools
import json

import pandas as pd
import pyarrow as pa
import pytest
from chains import sample_tables
from pandas.testing import assert_frame_equal, assert_series_equal
from parity import TWO_ENGINES, assert_same, collected, frame_of

import tonframes as tf
from tonframes.analysis.failures import FAILURES, failure_summary, failures
from tonframes.analysis.operations import with_operation
from tonframes.network import exit_codes, result_codes

# Some recorded answers contain extra fields.
pytestmark = pytest.mark.filterwarnings("ignore::tonframes.errors.TonframesWarning")

SUCCESSES = {"committed", "ignored"}
NO_CALLS = ["deposit", "dust"]


@pytest.fixture(scope="module")
def made():
    blocks = tf.read_blocks(tf.sample())
    return blocks.transactions, blocks.messages


@pytest.fixture(params=["made", "recorded"])
def chain(request):
    found = request.getfixturevalue(request.param)
    return found if request.param == "made" else found.frames


def table(rows):
    """Make an Arrow table of what `failures` reads; what a row does not say is null."""
    kinds = sample_tables()[0].schema
    schema = pa.schema([kinds.field(name).with_nullable(True) for name in FAILURES])
    standard = {"total_fees": 0, "storage_fees_collected": 0, "account": "0:A", "lt": 1, "now": 1}
    made = [standard | {"hash": str(at)} | row for at, row in enumerate(rows)]
    return pa.Table.from_pylist(made, schema=schema)


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def frame(rows):
    return table(rows).to_pandas(types_mapper=NULLABLE.get)


def given(engine, rows, folder):
    """Make a frame of an engine, on pandas with nullable dtypes."""
    if engine == "pandas":
        return rows.to_pandas(types_mapper=NULLABLE.get)
    return frame_of(engine, rows, folder)


# What is listed


def test_aborted_transactions_and_hidden_failures_are_listed(chain):
    transactions, _ = chain
    found = failures(transactions)
    aborted = transactions.aborted.astype(bool)
    seeming = found.phase.isin(SUCCESSES)
    assert found.hash.is_unique
    assert set(found.hash[~seeming]) == set(transactions.hash[aborted])
    assert found.phase.notna().all()
    rest = transactions[~transactions.hash.isin(found.hash)]
    assert len(rest) + len(found) == len(transactions)
    assert not rest.aborted.any()
    assert rest.compute_exit_code.dropna().isin([0, 1]).all()


def test_every_failure_has_a_name_and_a_meaning(chain):
    found = failures(chain[0])
    assert found.name.notna().all()
    assert found.meaning.notna().all()
    assert found.code.isna().equals(found.phase.isin(["skipped", *NO_CALLS, "ignored"]))


KINDS = [
    ("skipped", None, "no_state", "ok"),
    ("skipped", None, "bad_state", "ok"),
    ("dust", None, "no_gas", "none"),
    ("dust", None, "no_gas", "nofunds"),
    ("skipped", None, "suspended", "ok"),
    ("deposit", None, "no_state", "none"),
    ("compute", 2, None, "ok"),
    ("compute", 4, None, "ok"),
    ("compute", 4, None, "nofunds"),
    ("compute", 5, None, "ok"),
    ("compute", 9, None, "ok"),
    ("compute", 9, None, "none"),
    ("compute", 33, None, "ok"),
    ("compute", 134, None, "ok"),
    ("compute", 406, None, "ok"),
    ("compute", 705, None, "ok"),
    ("compute", 65_535, None, "ok"),
    ("compute", -14, None, "ok"),
    ("committed", 7, None, "none"),
    ("committed", 137, None, "none"),
    ("action", 33, None, "none"),
    ("action", 34, None, "none"),
    ("action", 36, None, "none"),
    ("action", 37, None, "none"),
    ("action", 37, None, "ok"),
    ("action", 50, None, "ok"),
    ("ignored", None, "skipped actions", "none"),
]


@pytest.mark.parametrize(("phase", "code", "name", "bounce"), KINDS)
def test_each_kind_of_failure_is_recognised(made, phase, code, name, bounce):
    found = failures(made[0])
    found = found[(found.phase == phase) & (found.bounce == bounce)]
    found = found[found.code.isna() if code is None else (found.code == code).fillna(value=False)]
    if name is not None:
        found = found[found.name == name]
    assert len(found)


def test_the_sample_has_only_the_known_failures(made):
    found = failures(made[0])
    codes_seen = {code for phase, code, *_ in KINDS if phase == "compute"} | {707, 709}
    assert set(found.code[found.phase == "compute"]) == codes_seen
    assert set(found.bounce) < {*result_codes.BOUNCES, "none"}
    ways = found[["phase", "bounce"]].drop_duplicates().itertuples(index=False)
    assert {tuple(way) for way in ways} == {(phase, bounce) for phase, _, _, bounce in KINDS}


def test_exit_codes_and_result_codes_have_their_own_names():
    ran = {"aborted": True, "compute_skipped": False}
    rows = [
        ran | {"compute_success": False, "compute_exit_code": code} for code in (33, 37, 50)
    ] + [
        ran
        | {"compute_success": True, "compute_exit_code": 0}
        | {"action_success": False, "action_result_code": code}
        for code in (33, 37, 50)
    ]
    found = failures(frame(rows))
    assert found.name.to_list()[:3] == ["contract-defined"] * 3
    assert found.name.to_list()[3:] == [
        result_codes.RESULT_CODES[code].name for code in (33, 37, 50)
    ]


def test_exit_codes_have_names():
    rows = [{"compute_success": False, "compute_exit_code": code} for code in exit_codes.EXIT_CODES]
    rows += [
        {"action_success": False, "action_result_code": code} for code in result_codes.RESULT_CODES
    ]
    found = failures(frame(rows))
    known = [*exit_codes.EXIT_CODES.values(), *result_codes.RESULT_CODES.values()]
    assert found.name.to_list() == [code.name for code in known]
    assert found.meaning.to_list() == [code.meaning for code in known]


DUST = {
    "aborted": True,
    "compute_skipped": True,
    "skipped_reason": "no_gas",
    "descr": "ord",
    "credit": 1,
}


@pytest.mark.parametrize("bounce", [None, "nofunds"])
def test_a_message_that_buys_no_gas_and_returns_nothing_is_dust_whatever_its_value(bounce):
    ran = {"aborted": False, "compute_skipped": False, "compute_success": True}
    rows = [DUST | {"credit": credit, "bounce": bounce} for credit in (1, 5_000, 10**8, None)]
    given = frame([*rows, *[ran | {"compute_exit_code": 0}] * 4])
    found = failures(given)
    assert found.phase.to_list() == ["dust"] * 4
    assert found.name.to_list() == ["no_gas"] * 4
    assert found.stuck.to_list() == [0] * 4
    assert failure_summary(given).empty


def test_a_message_without_gas_whose_value_came_back_is_a_failure():
    ran = {"aborted": False, "compute_skipped": False, "compute_success": True}
    given = frame([DUST | {"bounce": "ok"}, DUST, DUST, ran | {"compute_exit_code": 0}])
    assert failures(given).phase.to_list() == ["skipped", "dust", "dust"]
    found = failure_summary(given).iloc[0]
    assert [found.failures, found.rate, found.call_rate] == [1, 1 / 4, 1 / 2]


def test_recorded_messages_that_buy_no_gas_are_dust(recorded):
    transactions = recorded.frames[0].drop_duplicates("hash")
    found = failures(transactions)
    poor = found[found.name == "no_gas"]
    assert poor.groupby(["phase", "bounce"]).size().to_dict() == {
        ("dust", "nofunds"): 10,
        ("dust", "none"): 11,
    }
    credit = transactions.set_index("hash").credit[poor.hash]
    assert (credit <= 1000).all()


def test_spam_that_asks_to_bounce_does_not_change_the_rate_of_calls():
    # A block of December 2023: 905 of its 1,011 messages were worthless and had the bounce set.
    ran = {"aborted": False, "compute_skipped": False, "compute_success": True}
    calls = [ran | {"compute_exit_code": 0}] * 105
    calls += [{"aborted": True, "compute_success": False, "compute_exit_code": 9}]
    spam = [DUST | {"credit": 0, "bounce": "nofunds"}] * 905
    (quiet,) = failure_summary(table(calls)).to_pylist()
    (loud,) = failure_summary(table(calls + spam)).to_pylist()
    assert quiet["call_rate"] == loud["call_rate"] == 1 / 106
    assert loud == quiet | {"rate": 1 / 1011}


def test_actions_left_out_before_august_2024_are_ignored_actions():
    acted = {"aborted": False, "compute_skipped": False, "compute_success": True}
    acted |= {"compute_exit_code": 0, "action_success": True, "action_skipped_actions": 0}
    counts = [(4, 1, 0), (4, 1, 3), (4, 4, 0), (0, 0, 0), (255, 0, 254)]
    names = ("action_tot_actions", "action_spec_actions", "action_msgs_created")
    rows = [acted | dict(zip(names, count, strict=True)) for count in counts]
    failed = rows[0] | {"aborted": True, "action_success": False, "action_result_code": 37}
    found = failures(frame([*rows, failed]))
    assert found.hash.to_list() == ["0", "4", "5"]
    assert found.phase.to_list() == ["ignored", "ignored", "action"]
    assert found.stuck.to_list()[:2] == [0, 0]


def test_without_a_credit_phase_what_is_stuck_is_unknown():
    failed = {"aborted": True, "compute_skipped": False, "compute_success": False}
    failed |= {"compute_exit_code": 9, "descr": "ord", "total_fees": 5}
    rows = [
        failed,
        failed | {"compute_gas_credit": 10_000},  # external
        failed | {"descr": "tick_tock"},
        failed | {"credit": 12},
        failed | {"bounce": "ok"},
        failed | {"compute_gas_credit": 10_000, "credit": 7_298_225_961_743_024_383},
    ]
    given = frame(rows)
    assert failures(given).stuck.to_list() == [pd.NA, 0, 0, 7, 0, 0]
    # A credit of 0 is omitted in a credit phase that is there.
    shown = failures(given.assign(has_credit=[True, *[False] * 5]))
    assert shown.stuck.to_list() == [0, 0, 0, 7, 0, 0]
    summary = failure_summary(given, by=())
    assert summary[["failures", "stuck", "stuck_unknown"]].to_numpy().tolist() == [[6, 7, 1]]


@pytest.mark.filterwarnings("error")
def test_answers_in_the_form_of_2024_have_the_same_failures():
    [seqnos] = tf.read_blocks(tf.sample()).seqnos
    today = tf.read_blocks(tf.sample(), seqnos[:20])
    answer = json.loads(today.to_json())
    for row in answer["transactions"]:
        phase = row["description"]["compute_ph"]
        skipped = phase.pop("skipped")
        phase["type"] = "skipped" if skipped else "vm"
        if skipped:
            phase["skip_reason"] = phase.pop("reason")
    found = failures(tf.parse_blocks(answer))
    assert_frame_equal(found, failures(today))
    assert {"deposit", "dust", "skipped", "compute", "action", "ignored"} <= set(found.phase)


def test_reasons_are_looked_up_and_new_ones_kept():
    rows = [{"compute_skipped": True, "skipped_reason": name} for name in exit_codes.SKIP_REASONS]
    found = failures(frame([*rows, {"compute_skipped": True, "skipped_reason": "news"}]))
    assert found.name.to_list() == [*exit_codes.SKIP_REASONS, "news"]
    assert found.meaning.fillna("").to_list() == [*exit_codes.SKIP_REASONS.values(), ""]


def test_contract_defined_codes_are_marked_and_others_are_unknown():
    numbers = (705, 127, 200, -99, None)
    rows = [{"compute_success": False, "compute_exit_code": code} for code in numbers]
    found = failures(frame(rows))
    assert found.name.fillna("").to_list() == ["contract-defined"] * 2 + [""] * 3
    assert found.meaning.notna().to_list() == [True] * 2 + [False] * 3


CASES = {
    "aborted": [True, False, None],
    "compute_skipped": [True, False, None],
    "skipped_reason": ["no_state", "no_gas", None],
    "orig_status": ["uninit", "frozen"],
    "compute_success": [True, False, None],
    "compute_exit_code": [1, 7, None],
    "action_success": [True, False, None],
    "action_skipped_actions": [0, 2, None],
    "bounce": ["ok", "nofunds", None],
}


def phase_of(row):
    if row["compute_skipped"]:
        fresh = row["skipped_reason"] == "no_state" and row["orig_status"] == "uninit"
        if fresh and row["bounce"] is None:
            return "deposit"
        if row["skipped_reason"] == "no_gas" and row["bounce"] != "ok":
            return "dust"
        return "skipped"
    if row["compute_success"] is False:
        return "compute"
    if row["action_success"] is False:
        return "action"
    if row["compute_success"] and row["compute_exit_code"] == 7:
        return "committed"
    return "ignored" if row["action_skipped_actions"] else None


def code_of(row):
    match phase_of(row):
        case "skipped" | "deposit" | "dust":
            return None, row["skipped_reason"]
        case "compute" | "committed":
            code = row["compute_exit_code"]
            return code, exit_codes.EXIT_CODE_NAMES.get(code)
        case "ignored":
            return None, "skipped actions"
    return None, None


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_engines_agree_on_rows_with_missing_values(engine, tmp_path):
    rows = [dict(zip(CASES, case, strict=True)) for case in itertools.product(*CASES.values())]
    columns = ["hash", "phase", "code", "name", "bounce"]
    listed = (
        collected(engine, failures(given(engine, table(rows), tmp_path)))
        .select(columns)
        .to_pylist()
    )
    expected = [
        dict(
            zip(
                columns,
                (str(at), phase_of(row), *code_of(row), row["bounce"] or "none"),
                strict=True,
            )
        )
        for at, row in enumerate(rows)
        if phase_of(row) or row["aborted"]
    ]
    assert sorted(listed, key=lambda row: int(row["hash"])) == expected


WALLET_V5 = "IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8="
WALLET_V4 = "/rX/aCDi/w2Ug+fg1iyBfYRniftK5YDIeIZtlZ2r1cA="


@pytest.mark.parametrize("engine", TWO_ENGINES)
def test_the_code_of_the_contract_decides_between_names(engine, tmp_path):
    hashes = [WALLET_V5, WALLET_V4, None]
    row = {"aborted": True, "compute_success": False, "compute_exit_code": 137}
    rows = table([row] * 3).append_column("account_state_code_hash_before", pa.array(hashes))
    found = collected(engine, failures(given(engine, rows, tmp_path)))
    named = {row["hash"]: (row["name"], row["meaning"]) for row in found.to_pylist()}
    assert [name for name, _ in map(named.get, "012")] == [
        "errors not ignored (wallet v5)",
        None,
        "wallet v5: errors not ignored, or Tact: masterchain support off",
    ]
    in_wallet, known, unknown = (meaning for _, meaning in map(named.get, "012"))
    assert known is None
    assert unknown.startswith(f"In a wallet v5: {in_wallet} In a contract written in Tact: ")
    without = failures(given(engine, table([row]), tmp_path))
    assert collected(engine, without)["name"].to_pylist() == [named["2"][0]]


# What it cost


def flows(transactions, messages):
    """Add to transactions what came and went with messages, by the messages."""
    flow = transactions.set_index("hash")
    incoming = messages[messages.direction == "in"].set_index("tx_hash")
    outgoing = messages[messages.direction == "out"].groupby("tx_hash")
    flow["in_value"] = incoming.value
    flow["out_value"] = outgoing.value.sum()
    flow["out_fees"] = outgoing.fwd_fee.sum()
    sums = ["in_value", "out_value", "out_fees"]
    return flow.fillna(dict.fromkeys(sums, 0))


def test_stuck_value_is_what_came_less_what_left(chain):
    found = failures(chain[0]).set_index("hash")
    found = found[found.phase.isin(["skipped", "compute", "action"])]
    flow = flows(*chain).loc[found.index]
    kept = flow.in_value - flow.out_value - flow.out_fees - flow.total_fees
    kept += flow.storage_fees_collected
    # What is below zero an external message has brought about: the account paid.
    assert (flow.compute_gas_credit.notna() == (kept < 0)).all()
    assert_series_equal(found.stuck, kept.clip(0), check_names=False, check_dtype=False)
    assert (kept[found.bounce == "ok"] == 0).all()
    before, after = flow.account_state_balance_before, flow.account_state_balance_after
    grown = (after - before + flow.storage_fees_collected).dropna()
    assert len(grown) >= 4
    assert (grown == kept[grown.index]).all()


def test_the_cost_is_the_fees_and_the_forwarding_of_the_bounce(chain):
    found = failures(chain[0]).set_index("hash")
    found = found[~found.phase.isin(SUCCESSES)]
    flow = flows(*chain).loc[found.index]
    expected = flow.total_fees + flow.out_fees
    assert_series_equal(found.cost, expected, check_names=False, check_dtype=False)


def test_nothing_is_stuck_in_deposits_and_successes(made):
    found = failures(made[0])
    settled = found[found.phase.isin([*SUCCESSES, *NO_CALLS])]
    assert len(settled) > 3
    assert (settled.stuck == 0).all()


def test_unknown_parts_of_a_failure_are_null():
    row = {"aborted": True, "compute_success": False, "compute_exit_code": 9, "credit": 0}
    found = failures(frame([row | {"storage_fees_collected": None}, row]))
    assert found.stuck.to_list() == [pd.NA, 0]
    assert found.cost.to_list() == [0, 0]
    assert found.no_funds.isna().all()


def test_the_action_that_failed_is_named_by_its_index(made):
    transactions, _ = made
    found = failures(transactions)
    acted = found.phase == "action"
    assert found.result_arg.notna().equals(acted)
    assert found.no_funds.notna().equals(acted)
    assert set(found.code[found.no_funds.fillna(value=False)]) == {37}
    args = transactions.action_result_arg[found.index[acted]].fillna(0)
    assert_series_equal(found.result_arg[acted], args, check_names=False)
    assert set(args) > {0}


# Groups


FIGURES = ["failures", "rate", "call_rate", "accounts", "cost", "stuck", "stuck_unknown"]


def grouped(transactions, messages, keys):
    """Do what `failure_summary` does, in pandas."""
    incoming = messages[messages.direction == "in"].set_index("tx_hash")
    incoming["opcode"] = incoming.opcode.mask(incoming.source.isna())  # of a signature
    rows = with_operation(transactions, messages).set_index("hash")
    others = [key for key in keys if key not in ("phase", "code", "name", "meaning", "bounce")]
    for key in others:
        if key not in rows:
            rows[key] = incoming[key]
    found = failures(transactions).set_index("hash")
    found = found[~found.phase.isin(NO_CALLS)]
    found[others] = rows[others]
    rows["call"] = ~rows.index.isin(failures(transactions).query("phase in @NO_CALLS").hash)
    groups = found.groupby(keys, dropna=False)
    result = groups.agg(
        failures=("lt", "size"),
        accounts=("account", "nunique"),
        cost=("cost", "sum"),
        stuck=("stuck", "sum"),
        stuck_unknown=("stuck", lambda column: column.isna().sum()),
    ).reset_index()
    if others:
        totals = rows.groupby(others, dropna=False).call.agg(["size", "sum"]).reset_index()
        result = result.merge(totals, how="left", on=others)
    else:
        result["size"], result["sum"] = len(rows), rows.call.sum()
    result["rate"] = result.failures / result["size"]
    result["call_rate"] = result.failures / result["sum"]
    return result[[*keys, *FIGURES]]


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        (("phase", "code"), ["phase", "code", "name", "meaning"]),
        (["code", "opcode", "phase"], ["code", "opcode", "phase", "name", "meaning"]),
        ("bounce", ["bounce"]),
        ("name", ["name"]),
        ("opcode", ["opcode"]),
        (["operation", "phase"], ["operation", "phase"]),
        (["account", "phase"], ["account", "phase"]),
        (["skipped_reason", "bounced"], ["skipped_reason", "bounced"]),
        ("compute_success", ["compute_success"]),
    ],
)
def test_groups_add_up(chain, by, keys):
    found = failure_summary(*chain, by=by)
    assert list(found) == [*keys, *FIGURES]
    expected = grouped(*chain, keys)
    assert found.failures.is_monotonic_decreasing

    def plain(groups):
        rows = groups.astype(object).where(groups.notna(), None).to_dict("records")
        return sorted(map(str, rows))

    assert plain(found) == plain(expected)


def test_all_failures_are_one_group(made):
    found = failure_summary(made[0], by=())
    listed = failures(made[0])
    calls = len(made[0]) - listed.phase.isin(NO_CALLS).sum()
    listed = listed[~listed.phase.isin(NO_CALLS)]
    rates = [len(listed) / len(made[0]), len(listed) / calls]
    assert found.iloc[0].to_list()[:4] == [len(listed), *rates, listed.account.nunique()]
    assert rates[0] < rates[1]


def test_sums_that_int64_does_not_hold_are_refused_or_wide():
    big = {"aborted": True, "compute_success": False, "compute_exit_code": 9, "credit": 2**63 - 1}
    with pytest.raises(OverflowError, match=r"^failure_summary cannot add up stuck of code=9: "):
        failure_summary(frame([big] * 3), by="code")
    found = failure_summary(frame([big] * 3), by="code", wide=True)
    assert int(found.stuck[0]) == 3 * (2**63 - 1)


def test_no_failures_have_the_same_columns(made):
    transactions, messages = made
    fine = transactions[~transactions.hash.isin(failures(transactions).hash)]
    for none in (fine, transactions[:0]):
        assert_frame_equal(failures(none), failures(transactions)[:0], check_index_type=False)
        for by in (("phase", "code"), "opcode", ()):
            found = failure_summary(none, messages, by=by)
            some = failure_summary(transactions, messages, by=by)
            assert_frame_equal(found, some[:0], check_index_type=False)


# Frames


def test_the_argument_is_not_changed_and_the_index_is_kept(made):
    transactions = made[0].set_index(made[0].index + 1000)
    before = transactions.copy()
    found = failures(transactions)
    assert_frame_equal(transactions, before)
    assert (transactions.hash[found.index] == found.hash).all()


def test_frames_of_the_lake_are_read(made, tmp_path):
    arrow = tf.read_blocks(tf.sample()).arrow("transactions")
    expected = collected("pandas", failures(made[0]))
    narrow = {"now", "compute_exit_code", "action_result_code", "action_result_arg"}
    fields = [
        pa.field(field.name, pa.int32() if field.name in narrow else field.type)
        for field in arrow.schema
        if field.name in FAILURES
    ]
    lake = arrow.select([field.name for field in fields]).cast(pa.schema(fields))
    for engine in ("pandas-pyarrow", "polars", "duckdb"):
        given = frame_of(engine, lake, tmp_path)
        assert_same(expected, collected(engine, failures(given)))
        by = collected(engine, failure_summary(given))
        assert_same(collected("pandas", failure_summary(made[0])), by)


@pytest.mark.parametrize("column", FAILURES)
def test_a_column_that_is_missing_is_named(made, column):
    with pytest.raises(ValueError, match=rf"failures needs the column '{column}'"):
        failures(made[0].drop(columns=column))


def test_wrong_frames_are_refused(made):
    transactions, messages = made
    with pytest.raises(TypeError, match="failures takes transactions as a frame"):
        failures("transactions")
    with pytest.raises(ValueError, match="looks like messages"):
        failures(messages)
    with pytest.raises(TypeError, match="floats lose nanotons"):
        failures(transactions.astype({"credit": float}))
    with pytest.raises(ValueError, match="cannot group by 'opcode'"):
        failure_summary(transactions, by="opcode")
    with pytest.raises(ValueError, match="cannot group by 'nonsense'"):
        failure_summary(transactions, messages, by="nonsense")
    arrow = tf.read_blocks(tf.sample()).arrow("messages")
    with pytest.raises(TypeError, match="frames of one engine"):
        failure_summary(transactions, arrow, by="opcode")
