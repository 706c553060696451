"""The text of plots. Text from the chain is written as it is, and has no effect."""

import re

import matplotlib as mpl
import pandas as pd
import pytest
from drawn import texts
from parity import frame_of

from tonframes.plots import labels, plot_activity, plot_fees, plot_flows, plot_gas, plot_trace

NAMES = ["a$x_1$.ton", "$\\frac", "two\nlines", "\u202egnp.ton", "x" * 126]


@pytest.fixture
def address_book(frames):
    accounts = frames[0].account.value_counts().index[: len(NAMES)]
    return pd.DataFrame(
        {
            "address": accounts,
            "domain": pd.Series(NAMES, dtype="str"),
            "user_friendly": pd.Series([None] * len(NAMES), dtype="str"),
            "fetched_at": pd.Timestamp("2026-05-28", tz="UTC"),
        }
    )


def test_special_characters_in_names_are_escaped(frames, address_book):
    ax = plot_activity(*frames, by="account", top=len(NAMES), address_book=address_book)
    written = ax.get_yticklabels()
    names = [text.partition("\n")[0] for text in texts(written)]
    assert names[:4] == [*NAMES[:2], "two\ufffdlines", "\ufffdgnp.ton"]
    assert re.fullmatch("x{20,30}…x{10,20}", names[4])
    assert not any(label.get_parse_math() or label.get_usetex() for label in written)
    ax.figure.draw_without_rendering()


def test_text_of_the_chain_is_not_a_formula(few):
    wild = "$\\a\u202e$"
    transactions, messages = (frame.assign(trace_id=wild, hostile=wild) for frame in few)
    plots = (
        plot_fees(transactions, messages, by="hostile"),
        plot_gas(transactions, by=["hostile", "trace_id"]),
        plot_trace(messages, trace_id=wild),
        plot_fees(transactions.rename(columns={"hostile": wild}), messages, by=wild),
    )
    for ax in plots:
        ax.figure.draw_without_rendering()
        shown = [*ax.get_yticklabels(), ax.yaxis.label, ax.title]
        assert any("$\\a\\u202e$" in text for text in texts(shown))


def test_usetex_does_not_apply_to_text_of_the_chain(frames, address_book):
    with mpl.rc_context({"text.usetex": True}):
        ax = plot_activity(frames[0], by="account", top=3, address_book=address_book)
    assert not any(label.get_usetex() for label in [*ax.get_yticklabels(), ax.title])


def test_addresses_are_short_or_named_by_a_book_of_any_engine(blocks, frames, tmp_path):
    plain = plot_flows(frames[1], top=3)
    assert all(len(text) == 11 for text in texts(plain.get_yticklabels())[:3])
    assert all(text.startswith("0:") for text in texts(plain.get_yticklabels())[:3])
    book = frame_of("polars", blocks.arrow("address_book"), tmp_path)
    known = texts(plot_flows(frames[1], top=3, address_book=book).get_yticklabels())
    assert all(text[:2] in ("EQ", "UQ") or text.endswith(".ton") for text in known[:3])


def test_contracts_are_named_by_their_code_hash():
    known, other = "IINLe3KxEhR+Gy+0V7hOdNGjDwT3N9T2KmaOlVLSty8=", "ABC" * 14 + "D="
    key = "account_state_code_hash_before"
    groups = pd.DataFrame({key: pd.Series([known, other, None], dtype="str")})
    written, _ = labels.label_groups(groups, [key], 3, "plot_gas")
    assert written == ["wallet v5 r1\nIINLe3…ty8=", "ABCABC…BCD=", "none"]


def test_moments_are_written_as_precisely_as_their_period():
    start = pd.Timestamp("2026-06-01", tz="UTC")
    groups = pd.DataFrame([[start] * 4], columns=["hour", "day", "week", "month"])
    (written,), _ = labels.label_groups(groups, list(groups), 1, "plot_fees")
    assert written == "2026-06-01 00:00 · 2026-06-01 · 2026-06-01 · 2026-06"


def test_second_lines_are_left_out_unless_first_lines_are_the_same():
    names = ["pool\nAAA", "wallet\nBBB", "pool\nCCC", "4 others"]
    assert labels.first_lines(names) == ["pool · AAA", "wallet", "pool · CCC", "4 others"]
