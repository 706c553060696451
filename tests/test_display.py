"""What people look at: it says what is there, reads little, and does nothing by itself."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from strategies import dump, least

import tonframes as tf
from tonframes.display import (
    _DIGITS,
    _ENDS,
    WIDEST,
    Card,
    Preview,
    ago,
    cut,
    duration,
    moment,
    period_text,
    size,
)
from tonframes.frames import Blocks
from tonframes.inert import inert
from tonframes.store import views
from tonframes.store.reader import Reader
from tonframes.wire import schema

KEY = "k" * 64
IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
TAGS = {
    *("div", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "span"),
}
ADDRESS = r"-?[0-9]+:[0-9A-F]{64}|[EUk0][Qf][A-Za-z0-9_-]{46}"
#: What keeps MathJax 2, and 3 and later, from setting `$…$` as a formula.
NO_MATH = "tex2jax_ignore mathjax_ignore"
STYLES = {"text-align: left", "overflow-x: auto", _DIGITS, _ENDS}


class HtmlReader(HTMLParser):
    """Reads HTML: its tags, its attributes, its text."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.outermost = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if not self.open:
            self.outermost.append(dict(attrs).get("class"))
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs
        self.text += "" if tag == "span" else "\n"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += "" if tag == "span" else "\n"

    def handle_data(self, data):
        assert self.open
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def read(html):
    """Read HTML that must be whole and plain."""
    reader = HtmlReader(html)
    assert not reader.open
    assert set(reader.tags) <= TAGS
    titles = {("title", value) for value in re.findall(ADDRESS, reader.text)}
    assert reader.outermost == [NO_MATH]
    assert set(reader.attributes) <= titles | {("style", s) for s in STYLES} | {("class", NO_MATH)}
    assert html.isprintable()
    return reader.text


@pytest.fixture
def store(tmp_path):
    """Return a copy of the sample store."""
    return shutil.copytree(tf.sample(), tmp_path / "store")


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_address_is_shown_whole_and_a_body_is_not():
    address = "-128:" + "A" * 64
    assert cut(address) == address
    assert cut("x" * 10**6) == "x" * (WIDEST - 1) + "…"


def test_moments_to_come_are_told_as_such():
    now = datetime.now(UTC)
    assert ago(now - timedelta(days=3)) == "3 days ago"
    assert ago(now + timedelta(hours=3, seconds=5)) == "in 3 h"


def test_cards_escape_all_that_they_are_given():
    evil = "<script>alert(1)</script>\u202e"
    card = Card(evil, [(evil, evil)])
    text = read(card.html([Preview(evil, [evil], [[evil]], evil), Preview(evil)]))
    assert text.count("<script>alert(1)</script>\\u202e") == 8
    assert "\u202e" not in card.text()


RAW = "-1:" + "5" * 64
FRIENDLY = "Ef9VVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVbxn"


@pytest.mark.parametrize("address", [RAW, FRIENDLY])
def test_an_address_is_whole_in_the_page_and_its_middle_is_hidden_by_a_style(address):
    card = Card(f"transactions of {address}, today", [("of", address)])
    html = card.html([Preview("rows", ["account"], [[address]])])
    assert read(html).count(address) == 3
    assert html.count(f'title="{address}"') == 3
    assert html.count(_ENDS) == 3
    assert address in card.text()


def test_what_only_contains_an_address_is_not_shortened():
    for text in (f"x{RAW}", f"{FRIENDLY}x", RAW[:-1], "0:" + "5" * 65):
        assert "<span" not in Card(text, []).html()


# ── blocks and accounts ──────────────────────────────────────────────────────────────────────────

SPAN = "2026-05-28 20:26:43 UTC to 2026-05-28 20:30:44 UTC (4 min)"


def test_a_view_of_a_store_says_what_it_is_and_reads_no_table(monkeypatch):
    def no(*_, **__):
        raise AssertionError("read")

    blocks = tf.read_blocks(tf.sample())
    monkeypatch.setattr(Reader, "read", no)
    monkeypatch.setattr(Reader, "snapshot", no)
    counts = "3,000 transactions, 4,644 messages, 409 blocks, address_book"
    text = repr(blocks)
    assert text.startswith(f"<masterchain blocks 90000000:90000120: {counts}\n")
    html = read(blocks._repr_html_())
    for told in (
        SPAN,
        " days ago",
        str(tf.sample()),
        "made up by tonframes",
        "on disk",
    ):
        assert told in text
        assert told in html
    assert re.search(r"proven +synthetic", text)
    assert "memory" not in text
    for told in (".transactions: 3,000 rows, 100 columns", ".messages: 4,644 rows, 38 columns"):
        assert told in html
    assert ".address_book: read when it is used" in html
    assert blocks._frames == {}


def test_a_table_that_was_asked_for_is_counted_and_shown():
    blocks = tf.read_blocks(tf.sample())
    assert len(blocks.address_book) == 461
    assert ", 461 address_book\n" in repr(blocks)
    assert ".address_book: 461 rows, 6 columns" in read(blocks._repr_html_())
    assert re.search(r"memory +[0-9.]+ kB\n +on disk +[0-9.]+ MB>", repr(blocks))


def test_the_first_rows_are_those_of_the_frame():
    blocks = tf.read_blocks(tf.sample(), range(90_000_059, 90_000_061))
    html = read(blocks._repr_html_())
    for row in blocks.transactions.head(5).itertuples():
        assert f"\n{row.account}\n" in html
        assert f"\n{row.lt}\n" in html
    assert html.count(f"\n{blocks.transactions.account[5]}\n") == 0


def test_shards_are_shown_in_hex():
    blocks = tf.read_blocks(tf.sample())
    assert {-(2**63), 2**62} <= set(blocks.blocks["shard"])
    assert "\n8000000000000000\n" in read(blocks._repr_html_())
    assert str(-(2**63)) not in blocks._repr_html_()


def test_the_columns_that_are_asked_for_most_come_first():
    table = read(tf.read_blocks(tf.sample())._repr_html_()).split(".transactions")[1]
    shown = [text for text in table.split("\n") if text][1:8]
    assert shown[:4] == ["block_time", "account", "total_fees", "compute_gas_used"]
    assert set(shown) <= set(tf.describe("transactions")["column"])


def test_a_part_of_a_file_is_counted_and_dated_by_its_rows():
    blocks = tf.read_blocks(tf.sample(), range(90_000_070, 90_000_080), columns=["hash"])
    times = tf.read_blocks(tf.sample(), range(90_000_070, 90_000_080)).transactions.block_time
    assert f": {len(times):,} transactions, " in repr(blocks)
    assert f"{times.min():%H:%M:%S} UTC to 2026-05-28 {times.max():%H:%M:%S} UTC" in repr(blocks)


def test_of_many_files_only_the_first_and_the_last_are_looked_into(monkeypatch):
    monkeypatch.setattr(views, "FEW", 2)
    blocks = tf.read_blocks(tf.sample())
    text = repr(blocks)
    assert text.startswith("<masterchain blocks 90000000:90000120: transactions, messages, blocks")
    assert SPAN in text
    assert "proven" not in text
    assert ".transactions: 100 columns" in read(blocks._repr_html_())


def test_of_many_ranges_the_first_are_named():
    blocks = tf.read_blocks(tf.sample(), range(90_000_000, 90_000_120, 2))
    assert repr(blocks).startswith(
        "<masterchain blocks 90000000, 90000002, 90000004 and 57 more ranges: "
    )


def test_a_store_that_has_gone_is_told_and_does_not_fail(store):
    blocks = tf.read_blocks(store)
    shutil.rmtree(store / "transactions")
    assert "does not hold the masterchain seqnos" in repr(blocks)
    assert "does not hold the masterchain seqnos" in read(blocks._repr_html_())


def test_absent_parts_are_not_shown():
    nothing = tf.parse_blocks({"transactions": []})
    assert repr(nothing) == (
        "<masterchain blocks (none): 0 transactions, 0 messages, 0 address_book\n  from  JSON>"
    )
    read(nothing._repr_html_())
    assert repr(tf.read_blocks(tf.sample(), [])).startswith("<masterchain blocks (none)")


def test_blocks_without_transactions_have_times_too():
    body = {"blocks": [least(schema.BLOCK) | {"gen_utime": "1721063820"}]}
    assert "2024-07-15 17:17:00 UTC, the newest " in repr(tf.parse_blocks(body))


def test_a_time_beyond_the_calendar_is_left_out():
    row = least(schema.TRANSACTION) | {"now": 2**62}
    parsed = tf.parse_blocks({"transactions": [row]})
    assert "time" not in repr(parsed)
    read(parsed._repr_html_())


def test_accounts_say_when_they_were_fetched():
    accounts = tf.read_accounts(tf.sample())
    text = repr(accounts)
    assert text.startswith("<account states: 300 accounts, 495 address_book, 118 metadata\n")
    assert "fetched  2026-05-28 20:28:49 UTC to 2026-05-28 20:30:44 UTC" in text
    html = read(accounts._repr_html_())
    assert ".metadata: 118 rows, 5 columns" in html
    assert accounts.accounts.address[0] in html


def test_a_table_that_is_made_when_called_is_not_called_to_be_shown():
    def no():
        raise AssertionError("called")

    accounts = tf.Accounts({"accounts": no})
    assert repr(accounts).startswith("<account states: accounts\n")
    assert ".accounts: read when it is used" in read(accounts._repr_html_())


@pytest.mark.parametrize("proof", ["chain", "links", "other"])
def test_the_kind_of_proof_is_shown(proof):
    tables = {"transactions": schema.TRANSACTIONS.schema.empty_table()}
    text = repr(Blocks(tables, proof=proof))
    assert {"chain": "every shard's", "links": "every account's", "other": "other"}[proof] in text


EVIL = [
    "<img src=x onerror=alert(1)>",
    "</td></table></details><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "\x1b[2J\x1b]0;title\x07",
    "gro.\u202elpmaxe",
    "&lt;b&gt;",
    "<!-- ",
    r"$\href{javascript:alert(1)}{x}$",
]


@pytest.mark.parametrize("evil", EVIL)
def test_text_of_the_chain_is_inert(evil):
    message = least(schema.MESSAGE) | {
        "source": evil,
        "destination": evil,
        "message_content": {"decoded": {"type": "text_comment", "comment": evil}},
    }
    row = least(schema.TRANSACTION) | {"account": evil, "in_msg": message}
    entry = {"user_friendly": evil, "domain": evil}
    parsed = tf.parse_blocks(dump({"transactions": [row], "address_book": {evil: entry}}))
    assert read(parsed._repr_html_()).count(inert(evil)) == 7
    assert repr(parsed).replace("\n", "").isprintable()
    token = {"token_info": [{"symbol": evil}]}
    accounts = tf.parse_accounts(
        json.dumps({"accounts": [{"address": evil}], "metadata": {evil: token}})
    )
    assert inert(evil) in read(accounts._repr_html_())


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_of_the_chain_is_inert(comment, address):
    message = least(schema.MESSAGE) | {
        "source": address,
        "message_content": {"decoded": {"comment": comment}},
    }
    row = least(schema.TRANSACTION) | {"account": address, "in_msg": message}
    text = read(tf.parse_blocks({"transactions": [row]})._repr_html_())
    assert inert(comment) in text


def test_html_has_no_colours_of_its_own():
    for shown in (tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())):
        html = shown._repr_html_().lower().replace(f'class="{NO_MATH}"', "")
        assert not re.search(r"color|background|<style|<script|class=", html)


# ── the client ───────────────────────────────────────────────────────────────────────────────────


def test_a_client_says_how_it_asks_and_what_it_did():
    with (
        tf.serve(tf.sample()) as url,
        tf.Client(url, api_key=KEY, requests_per_second=50) as client,
    ):
        assert repr(client) == f"Client({url!r}, requests_per_second=50)"
        tf.fetch_blocks(range(90_000_000, 90_000_003), client=client, store=None)
        sent = client.statistics.requests
        assert sent >= 3
        assert f"requests_per_second=50): {sent} requests, 0 of them retries; " in repr(client)
        html = read(client._repr_html_())
    assert f"Client of {url}\n" in html
    assert "50 requests a second at most" in html
    assert f"{sent} requests, 0 of them retries; " in html
    assert KEY not in repr(client) + html


def test_a_client_without_a_limit_says_so():
    with tf.Client("https://example.org") as client:
        assert "no limit" in read(client._repr_html_())


def test_sizes_moments_and_durations_are_short_text():
    assert [size(999), size(1_500_000)] == ["999 bytes", "1.4 MB"]
    assert list(map(duration, (0, 90, 7300, 86400 * 400))) == ["0 s", "90 s", "2 h", "400 days"]
    first = datetime(2026, 5, 28, 23, 59, 0, 9, tzinfo=UTC)
    assert moment(first) == "2026-05-28 23:59:00 UTC"
    last = first + timedelta(minutes=10)
    assert period_text(first, last) == "2026-05-28 23:59:00 UTC to 2026-05-29 00:09:00 UTC (10 min)"
    assert period_text(first, first) == "2026-05-28 23:59:00 UTC"
