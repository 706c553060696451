"""Failures: bars and steps by group, divided into phases."""

import numpy as np
import pandas as pd
import pytest
from drawn import lengths, named, texts

from tonframes import failure_summary, failures, opcode_name
from tonframes.plots import plot_failures


def phases(ax):
    return {bars.get_label(): sum(bar.get_width() for bar in bars) for bars in ax.containers}


def test_by_default_codes_are_named_and_divided_into_phases(frames):
    ax = plot_failures(frames[0], top=5)
    summary = failure_summary(frames[0])
    counts = summary.failures.to_list()
    assert lengths(ax).tolist() == [*counts[:5], sum(counts[5:])]
    assert phases(ax) == summary.groupby("phase").failures.sum().to_dict()
    assert texts(ax.get_yticklabels())[:2] == ["no state", "37 · not enough TON"]
    assert texts(ax.get_legend().texts) == ["compute", "action", "skipped", "committed", "ignored"]


def test_long_names_of_codes_end_after_a_word(frames):
    names = texts(plot_failures(frames[0]).get_yticklabels())
    assert "137 · wallet v5: errors not …" in names
    assert [name for name in names if "…" in name and not name.endswith(" …")] == []


@pytest.mark.parametrize("by", [["account", "bounce"], "phase", ["phase", "operation"], ()])
def test_groups_of_other_columns_are_divided_into_phases(by, frames):
    ax = plot_failures(*frames, by=by, top=3)
    counts = failure_summary(*frames, by=by).failures.to_list()
    others = [sum(counts[3:])] if len(counts) > 4 else counts[3:]
    assert lengths(ax).tolist() == [*counts[:3], *others]
    assert phases(ax) == failure_summary(*frames, by="phase").set_index("phase").failures.to_dict()


def label_of(opcode):
    name, code = opcode_name(opcode), f"0x{opcode:08x}"
    return code if name is None else f"{name.replace('_', ' ')}\n{code}"


def test_groups_have_the_counts_of_their_phases(frames):
    ax = plot_failures(*frames, by="opcode", top=1000)
    summary = failure_summary(*frames, by=["opcode", "phase"])
    rows = texts(ax.get_yticklabels())
    for opcode, phase, count in zip(summary.opcode, summary.phase, summary.failures, strict=True):
        row = rows.index("none" if pd.isna(opcode) else label_of(opcode))
        (bar,) = (bar for bar in named(ax, phase) if round(bar.get_y() + 0.34) == row)
        assert bar.get_width() == count


def test_a_code_in_two_phases_has_two_bars(frames):
    failed = frames[0][frames[0].action_result_code == 37].head(1)
    thrown = failed.assign(compute_success=False, compute_exit_code=37, action_success=None)
    thrown["hash"] = "another"
    both = pd.concat([failed, thrown.astype(failed.dtypes)])
    for by in ("code", ["phase", "code"], ["code", "phase"]):
        ax = plot_failures(both, by=by)
        assert sorted(texts(ax.get_yticklabels())) == [
            "37 · contract-defined",
            "37 · not enough TON",
        ]
        assert phases(ax) == {"compute": 1, "action": 1}


def test_hours_are_steps_and_gaps_are_zero(frames):
    places = np.array([0, 1, 2, 4])[np.arange(len(frames[0])) % 4]  # the gap is one interval
    transactions = frames[0].assign(now=1_780_000_200 + 3600 * places)
    ax = plot_failures(transactions, by="hour")
    assert ax.get_xlabel() == "UTC"
    failed = failures(transactions)
    failed = failed[~failed.phase.isin(["deposit", "dust"])]
    place = (failed.now - 1_780_000_200) // 3600
    for phase, rows in failed.groupby("phase"):
        heights, edges, base = named(ax, phase).get_data()
        assert len(edges) == 6
        expected = rows.groupby(place).size().reindex(range(5), fill_value=0)
        assert (heights - base).tolist() == expected.tolist()


def test_addresses_are_named(frames, blocks):
    ax = plot_failures(frames[0], by="account", top=2, address_book=blocks.address_book)
    assert all(text[:2] in ("EQ", "UQ") for text in texts(ax.get_yticklabels())[:2])
