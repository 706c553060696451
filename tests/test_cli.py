"""The command line: what it prints, where, and its exit status."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from io import StringIO

import pyarrow.parquet as pq
import pytest
from fault_server import FaultServer, raw
from slow import slow_after

import tonframes as tf
from tonframes.cli import app, main
from tonframes.inert import UNSEEN

FIRST = 90_000_000
#: A path that is not UTF-8, as Linux allows it.
ODD = os.fsdecode(b"odd\xff")


def start(*arguments):
    """Start the command in its own process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tonframes", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns exit status, stdout and stderr."""

    def run(*arguments):
        status = main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def url():
    with tf.serve(tf.sample(), dialect="service") as url:
        yield url


def test_fetch_blocks_into_a_store(run, url, tmp_path):
    wanted = f"{FIRST}:{FIRST + 3}"
    status, out, err = run("fetch", "blocks", wanted, "--store", tmp_path, "--url", url)
    assert status == 0
    assert out.startswith(f"masterchain blocks {wanted}: 75 transactions")
    assert err.startswith(
        f"3 masterchain blocks, 0 of them held; to fetch: {wanted} with about 75 "
    )
    assert len(tf.read_blocks(tmp_path).transactions) == 75


def test_fetch_transactions_of_accounts(run, url, tmp_path):
    first, second = sorted(tf.read_accounts(tf.sample()).accounts.address)[:2]
    (tmp_path / "accounts").write_text(second)
    fetch = ("fetch", "transactions", first, "--file", tmp_path / "accounts", "--url", url)
    period = ("--since", "2026-05-28T20:28:30", "--until", "2026-05-28T20:30")
    status, out, err = run(*fetch, *period, "--store", tmp_path / "s")
    assert status == 0, err
    assert out.startswith("transactions of 2 accounts, 2026-05-28 20:28:30 to 2026-05-28 20:30:00")
    assert err.startswith("2 accounts, 2026-05-28 20:28:30 to 2026-05-28 20:30:00, 0 of them held")
    held = tf.read_transactions(tmp_path / "s")
    assert set(held.transactions.account) <= {first, second}
    status, out, _ = run(*fetch, *period, "--store", tmp_path / "s", "--dry")
    assert (status, out[:10]) == (0, "2 accounts")
    status, _, err = run(*fetch, "--since", "9", "--until", "8")
    assert (status, err) == (
        2,
        "tonframes: since is not before until, which is not included: 9 and 8\n",
    )


@pytest.mark.parametrize(
    ("bounds", "period"),
    [
        (("2026-05", "2026-06"), "2026-05-01 00:00:00 to 2026-06-01 00:00:00"),
        (("65000000000000", "lt:65000000000001"), "lt 65000000000000 to lt 65000000000001"),
        (("lt:20260501", "lt:1777593600"), "lt 20260501 to lt 1777593600"),
    ],
)
def test_bounds_are_written_as_in_python(run, url, bounds, period):
    since, until = bounds
    account = tf.read_accounts(tf.sample()).accounts.address[0]
    fetch = ("fetch", "transactions", account, "--url", url, "--dry")
    status, out, err = run(*fetch, "--since", since, "--until", until)
    assert (status, err) == (0, "")
    assert out.startswith(f"1 account, {period}, 0 of them held")


def test_fetch_transactions_of_nobody_is_an_error(run, url):
    status, _, err = run("fetch", "transactions", "--url", url)
    assert (status, err) == (2, "tonframes: no address: name some, or a --file of them\n")


def test_a_dry_run_fetches_nothing(run, url, tmp_path):
    seqnos = f"{FIRST}:{FIRST + 100}"
    dry = ("fetch", "blocks", seqnos, "--dry", "--store", tmp_path / "store", "--url", url)
    status, out, err = run(*dry)
    assert (status, err) == (0, "")
    assert out.startswith(f"100 masterchain blocks, 0 of them held; to fetch: {seqnos} with about")
    assert "without a key" in out
    assert not (tmp_path / "store").exists()


def test_moments_stand_where_seqnos_do(run, url, tmp_path):
    moments = "2026-05-28T20:27:00Z/2026-05-28T20:27:10"
    status, out, _ = run("fetch", "blocks", moments, "--store", tmp_path, "--url", url)
    assert status == 0
    times = tf.read_blocks(tmp_path).transactions.block_time
    held = tf.read_blocks(tf.sample()).transactions.block_time
    expected = held[(held >= "2026-05-28 20:27:00Z") & (held < "2026-05-28 20:27:10Z")]
    assert len(times) == len(expected) > 0
    assert str(len(times)) in out


def test_a_single_moment_is_the_block_of_it(run, url, tmp_path):
    moment = "2026-05-28T20:28"
    status, _, err = run("fetch", "blocks", moment, "--dry", "--store", tmp_path, "--url", url)
    assert (status, err) == (0, "")
    assert run("fetch", "blocks", moment, "--store", tmp_path, "--url", url)[0] == 0
    assert tf.read_blocks(tmp_path).seqnos == (range(FIRST + 39, FIRST + 40),)


def test_follow_until_interrupted(url, tmp_path):
    process = start("follow", FIRST + 117, "--store", tmp_path, "--url", url)
    try:
        assert f"{FIRST + 117}:{FIRST + 120}: 75 transactions" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert (
            process.stderr.read()
            == "tonframes: interrupted. What is committed to the store stays there.\n"
        )
    finally:
        process.kill()
        process.communicate()
    assert tf.read_blocks(tmp_path).seqnos == (range(FIRST + 117, FIRST + 120),)


def test_fetch_accounts_from_a_file_or_from_stdin(run, url, tmp_path, monkeypatch):
    monkeypatch.setenv("TONFRAMES_URL", url)
    addresses = list(tf.read_accounts(tf.sample()).accounts.address[:5])
    listed = tmp_path / "addresses.txt"
    listed.write_text("\n".join(addresses), "utf-8-sig")  # as Windows' editors do
    store = tmp_path / "store"
    status, out, _ = run("fetch", "accounts", listed, "--store", store)
    assert (status, out[:27]) == (0, "account states: 5 accounts,")
    monkeypatch.setattr("sys.stdin", StringIO(addresses[0]))
    options = ("--no-boc", "--max-age", "1h", "--store", store, "--url", url)
    status, out, _ = run("fetch", "accounts", "-", *options)
    assert (status, out[:27]) == (0, "account states: 1 accounts,")


def test_describe(run):
    status, out, _ = run("describe", "messages")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 1 + len(tf.describe("messages"))
    assert lines[0].split() == ["column", "dtype", "unit", "meaning", "api_path", "derived"]
    assert lines[1].startswith("tx_hash ")
    assert len({lines[0].index("dtype"), lines[1].index("str"), lines[2].index("int64")}) == 1


def test_a_reader_who_goes_away_is_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "tonframes", "describe", "transactions"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert (process.stderr.read(), process.wait(60)) == (b"", 141)
    process.stderr.close()


def test_serve_until_interrupted():
    process = subprocess.Popen(
        [sys.executable, "-m", "tonframes", "serve", str(tf.sample()), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        line = process.stdout.readline()
        url = next(word for word in line.split() if word.startswith("http"))
        with tf.Client(url.rstrip(".,")) as client:
            assert len(tf.fetch_blocks([FIRST], client=client, store=None).transactions) == 25
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert "Traceback" not in process.stdout.read()
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["fetch", "blocks", "150:100"], 2, "is empty"),
        (["fetch", "blocks", "100:"], 2, "expected 100:150"),
        (["fetch", "blocks", "soon"], 2, "not 'soon'"),
        (["fetch", "blocks", "-5"], 2, "a masterchain seqno such as 100, or a UTC time"),
        (["fetch", "blocks", "-5:10"], 2, "a masterchain seqno such as 100, or a UTC time"),
        (["fetch", "blocks", "2026-13-01/2027"], 2, "such as 2026-05-28T20:28, not '2026-13-01'"),
        (["fetch", "blocks", "\u0661\u0662"], 2, r"not '\u0661\u0662'"),
        (["fetch", "blocks", "\u0661:\u0662"], 2, r"not '\u0661'"),
        (["follow", "-5"], 2, "a masterchain seqno such as 100"),
        (
            ["fetch", "transactions", "-1:" + "3" * 64, "--since", "\u0661"],
            2,
            "since is a datetime",
        ),
        (
            ["fetch", "transactions", "-1:" + "3" * 64, "--since", "1777593600"],
            2,
            "write the moment as '2026-05-01T00:00:00', or the logical time as 'lt:1777593600'",
        ),
        (
            ["fetch", "transactions", "-1:" + "3" * 64, "--until", "20260501"],
            2,
            "write the moment as '2026-05-01', or the logical time as 'lt:20260501'",
        ),
        (["follow", "1777593600", "--account", "-1:" + "3" * 64], 2, "as 'lt:1777593600'"),
        (["fetch", "blocks", "1", "--rps", "\u0661"], 2, "--rps: expected a number"),
        (["serve", "{tmp}", "--port", "\u0661"], 2, "--port: expected a number"),
        (["fetch", "accounts", "{tmp}"], 1, "tonframes: {tmp}: Is a directory"),
        (["fetch", "accounts", "/dev/zero"], 2, "/dev/zero has more than 67,108,864 bytes"),
        (["fetch", "blocks", "0:5", "--store", "{tmp}"], 2, "seqnos are from 1"),
        (["fetch", "blocks", "2026-05-29/2026-05-28"], 2, "it ends before it starts"),
        (["fetch", "blocks", "1", "--store", ODD], 2, "not UTF-8, which Parquet needs: "),
        (["compact", ODD], 2, "not UTF-8"),
        (["compact", "{tmp}", "--grace", "soon"], 2, "grace is a duration such as"),
        (["compact", "{tmp}"], 1, "there is no store at {tmp}"),
        (["serve", ODD], 2, "not UTF-8"),
        (["ingest", "{tmp}/a", "--store", ODD], 2, "not UTF-8"),
        (["fetch", "accounts", ODD], 1, "No such file"),
        (["fetch", "accounts", "{tmp}/none.txt"], 1, "No such file"),
        (["fetch", "blocks", "1:2", "--url", "ftp://x", "--store", "{tmp}"], 2, "http"),
        (["fetch", "blocks", f"{FIRST + 500}", "--store", "{tmp}/s"], 1, "is not indexed yet"),
        (["describe", "fees"], 2, "no table or result 'fees'"),
        (["serve", "{tmp}/none"], 1, "there is no store"),
        ([], 2, "name a command"),
        (["fetch"], 2, "name a command"),
    ],
)
def test_errors_are_one_line(run, monkeypatch, url, tmp_path, arguments, status, text):  # noqa: PLR0917
    monkeypatch.setenv("TONFRAMES_URL", url)
    found, out, err = run(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert (found, out) == (status, "")
    assert text.replace("{tmp}", str(tmp_path)) in err
    assert "[Errno" not in err
    plan = [line for line in err.splitlines() if not line.startswith("tonframes: ")]
    assert all("masterchain blocks, 0 of them held" in line for line in plan)
    assert err.count("\n") == 1 + len(plan)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fetch", "blocks", "1", "--store", ""],
        ["fetch", "transactions", "--file", ""],
        ["fetch", "accounts", ""],
        ["follow", "--store", ""],
        ["ingest", "", "--store", "a"],
        ["ingest", "a", "--store", ""],
        ["serve", ""],
        ["compact", ""],
        ["demo", "--store", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_a_wrong_argument(run, arguments):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "the path is empty" in err


EVIL = "\x1b]0;title\x07\u202e\u3164"


def crafted(folder, place):
    """Copy the sample store, with a text that acts on terminals in one place."""
    store = shutil.copytree(tf.sample(), folder / "store")
    network = store / "network.json"
    said = json.loads(network.read_text("utf-8"))
    if place in said:
        network.write_text(json.dumps(said | {place: EVIL}), "utf-8")
    elif place == "name of a file":
        (store / "transactions" / f"{EVIL}.parquet").touch()
    else:
        [file, *_] = (store / "transactions").iterdir()
        table = pq.read_table(file)
        said = json.loads(pq.read_metadata(file).metadata[b"tonframes"])
        footer = said | {"network": EVIL, "proof": EVIL}
        pq.write_table(table.replace_schema_metadata({b"tonframes": json.dumps(footer)}), file)
    return store


@pytest.mark.parametrize("place", slow_after(2, ["footer", "network", "service", "name of a file"]))
def test_escapes_in_a_crafted_store_do_not_reach_the_terminal(run, url, tmp_path, place):
    store = crafted(tmp_path, place)
    shown = []
    with warnings.catch_warnings(record=True, action="always") as warned:
        tf.errors.warn(EVIL)
        for command in (["verify", store], ["fetch", "blocks", FIRST, "--store", store]):
            shown += run(*command, *(["--url", url] if command[0] == "fetch" else []))[1:]
        try:
            blocks = tf.read_blocks(store)
            shown += [repr(blocks), blocks._repr_html_(), repr(blocks.transactions.shape)]
        except tf.StoreError as error:
            shown.append(str(error))
    shown += [str(warning.message) for warning in warned]
    assert "\\x1b]0;title" in "".join(shown)
    assert not re.search(UNSEEN, "".join(shown).replace("\n", ""))


def interrupted(lines):
    """Run lines as the command line, with a Ctrl-C for each line that they print."""
    body = "\n".join(f"    {line}" for line in lines)
    program = (
        "import atexit, sys, time, tonframes.__main__, tonframes.cli\n"
        "def wait(line): print(line, flush=True); time.sleep(60)\n"
        f"def main():\n{body}\n"
        "tonframes.cli.main = main\n"
        "sys.exit(tonframes.__main__.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in process.stdout:
        process.send_signal(signal.SIGINT)
    return process.wait(60), process.communicate()[1]


def test_a_second_ctrl_c_ends_the_process_at_once():
    lines = ["try: wait('first')", "except KeyboardInterrupt: wait('second')"]
    assert interrupted(lines) == (-signal.SIGINT, "")


def test_ctrl_c_at_the_exit_ends_the_process_at_once():
    assert interrupted(["atexit.register(wait, 'exit')"]) == (-signal.SIGINT, "")


def test_ctrl_c_in_a_destructor_is_not_lost():
    lines = [
        "class Held:",
        "    def __del__(self): raise KeyboardInterrupt",
        "held = Held()",
        "del held",
        "while True: time.sleep(0.01)",
    ]
    assert interrupted(lines) == (130, "tonframes: interrupted\n")


def test_ctrl_c_while_modules_are_imported_shows_no_traceback():
    program = (
        "import sys, tonframes.__main__\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tonframes.cli':\n"
        "            import time; print('here', flush=True); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow()); sys.exit(tonframes.__main__.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "tonframes: interrupted\n"
    assert process.returncode == 130


def test_a_process_that_fails_shows_no_traceback(tmp_path):
    with start("serve", tmp_path / "none") as process:
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)


def commands(parent, *words):
    """Return the words of every command, subcommands included."""
    yield words
    for word in parent:
        if not word.startswith("-"):
            yield from commands(parent[word], *words, word)


@pytest.mark.parametrize("command", list(commands(app)), ids=" ".join)
def test_every_command_and_option_has_help(command, capsys):
    told = app.parse_commands(command)[1][-1]
    assert told.help
    arguments = () if list(told) else told.assemble_argument_collection(parse_docstring=True)
    for argument in arguments:
        text = argument.parameter.help
        assert text, argument.name
        named = "default" in text or argument.field_info.default not in {None, inspect._empty}
        assert named or argument.required or not argument.name.startswith("-"), argument.name
    assert main([*command, "--help"]) == 0
    assert "Usage: tonframes" in capsys.readouterr().out


def test_help_tells_exit_status_and_environment(capsys):
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    for word in (
        "0 ",
        "1 ",
        "2 ",
        "130 ",
        "141 ",
        "in Python, tonframes.write_csv ",
        "TONFRAMES_URL ",
        "TONCENTER_API_KEY ",
    ):
        assert f"\n  {word}" in told


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tonframes 0.")


def test_a_bad_address_is_named_by_its_line(tmp_path, capsys):
    listed = tmp_path / "addresses.txt"
    listed.write_text("0:" + "0" * 64 + "\n\nnonsense\n")
    assert main(["fetch", "accounts", str(listed), "--store", str(tmp_path / "store")]) == 2
    assert f"{listed}, line 3: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xff\xfe0\0:\0", "is not UTF-8"), (b"\xef\xbb\xbf\n", "contains no address")],
)
def test_a_file_without_addresses_is_named(tmp_path, capsys, content, text):
    listed = tmp_path / "addresses.txt"
    listed.write_bytes(content)
    assert main(["fetch", "accounts", str(listed), "--store", str(tmp_path / "store")]) == 2
    assert f"{listed} {text}" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(capsys):
    with tf.serve(tf.sample()) as url:
        port = url.rpartition(":")[2]
        assert main(["serve", str(tf.sample()), "--port", port]) == 1
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in capsys.readouterr().err


@pytest.mark.parametrize("pause", slow_after(1, [0.01, 0.0, 0.05, 0.2]))
def test_a_second_ctrl_c_leaves_no_traceback(tmp_path, pause):  # F39
    with FaultServer() as server:
        server.otherwise = raw(end="stall")
        store = tmp_path / "store"
        process = start("fetch", "blocks", "100:200", "--store", store, "--url", server.url)
        ends = time.monotonic() + 30
        while not server.seen and time.monotonic() < ends:
            time.sleep(0.02)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(pause)
        _, said = process.communicate(timeout=20)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert process.returncode in {130, -signal.SIGINT}


def test_a_second_ctrl_c_while_python_ends_leaves_no_traceback(tmp_path):  # F39
    code = (
        "import atexit, sys, time; from tonframes.__main__ import main; "
        "atexit.register(time.sleep, 5); sys.exit(main())"
    )
    with FaultServer() as server:
        server.otherwise = raw(end="stall")
        store = ["--store", str(tmp_path / "store"), "--url", server.url]
        process = subprocess.Popen(
            [sys.executable, "-c", code, "fetch", "blocks", "100:200", *store],
            stderr=subprocess.PIPE,
            text=True,
        )
        ends = time.monotonic() + 30
        while not server.seen and time.monotonic() < ends:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith("tonframes: interrupted.")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert said == ""
    assert process.returncode == -signal.SIGINT


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the stream")
def test_a_closed_standard_output_is_no_error():
    command = [sys.executable, "-m", "tonframes", "describe", "transactions"]
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, check=False
    )
    assert closed.stderr == b""
    assert closed.returncode == 0
