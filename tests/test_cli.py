"""The command line, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import tonframes as tf
from tonframes.cli import main

FIRST = 90_000_000


def run(*arguments, environment=None, text=None):
    """Run the command; give exit status, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "tonframes", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        input=text,
        timeout=100,
        env=os.environ | (environment or {}),
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def url():
    with tf.serve(tf.sample(), dialect="service") as url:
        yield url


def test_fetch_blocks_into_a_store(url, tmp_path):
    status, out, err = run(
        "fetch", "blocks", f"{FIRST}:{FIRST + 3}", "--store", tmp_path, "--url", url
    )
    assert (status, err) == (0, "")
    assert f"masterchain blocks {FIRST}:{FIRST + 3}: 75 transactions" in out
    assert len(tf.read_blocks(tmp_path).transactions) == 75


def test_fetch_accounts_from_a_file_or_from_stdin(url, tmp_path):
    addresses = list(tf.read_accounts(tf.sample()).accounts.address[:5])
    listed = tmp_path / "addresses.txt"
    listed.write_text("\n".join(addresses))
    store = tmp_path / "store"
    status, out, _ = run(
        "fetch", "accounts", listed, "--store", store, environment={"TONFRAMES_URL": url}
    )
    assert (status, out[:28]) == (0, "<account states: 5 accounts,")
    status, out, _ = run(
        "fetch",
        "accounts",
        "-",
        "--no-boc",
        "--max-age",
        "1h",
        "--store",
        store,
        "--url",
        url,
        text=addresses[0],
    )
    assert (status, out[:28]) == (0, "<account states: 1 accounts,")


def test_describe():
    status, out, _ = run("describe", "messages")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 1 + len(tf.describe("messages"))
    assert lines[0].split() == ["column", "dtype", "unit", "meaning", "api_path", "derived"]


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
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert time.monotonic() - start < 3
        assert "Traceback" not in process.stdout.read()
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["fetch", "blocks", "150:100"], 2, "is empty"),
        (["fetch", "blocks", "soon"], 2, "is not like 100:150"),
        (["fetch", "blocks", "0:5", "--store", "{tmp}"], 1, "seqnos are from 1"),
        (["fetch", "accounts", "{tmp}/none.txt"], 1, "No such file"),
        (["fetch", "blocks", "1:2", "--url", "ftp://x", "--store", "{tmp}"], 1, "http"),
        (["fetch", "blocks", f"{FIRST + 500}", "--store", "{tmp}/s"], 1, "masterchainBlockShards"),
        (["describe", "fees"], 2, "invalid choice"),
        (["serve", "{tmp}/none"], 1, "there is no store"),
        ([], 2, "usage"),
        (["fetch"], 2, "usage"),
    ],
)
def test_errors_are_one_line_and_no_traceback(url, tmp_path, arguments, status, text):
    filled = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    code, out, err = run(*filled, environment={"TONFRAMES_URL": url})
    assert (code, out) == (status, "")
    assert text in err
    assert "Traceback" not in err
    if status == 1:
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [[], ["fetch"], ["fetch", "blocks"], ["fetch", "accounts"], ["describe"], ["serve"], ["demo"]],
)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    assert "usage: tonframes" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("tonframes 0.")
