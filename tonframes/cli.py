"""The command line: arguments in, the functions of the library, text out."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.errors import shorten
from tonframes.inert import inert

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from tonframes.fetch.resolve import StoreOption
    from tonframes.tableset import TableSet

MORE = """\
exit status:
  0    success
  1    an error; stderr has one line about it
  2    wrong arguments, seqnos or addresses
  130  interrupted by Ctrl-C (serve: 0); what is committed to the store stays there; a second
       Ctrl-C ends at once
  141  the reader of the output has closed the pipe

spreadsheets:
  in Python, tonframes.write_csv and tonframes.read_csv write and read safe CSV files

environment:
  TONFRAMES_URL      the service (default: TON Center)
  TONCENTER_API_KEY  an API key; it is sent to TON Center only
  TONFRAMES_STORE    the store (default: one per service in your cache directory)
"""


#: Bytes that a list of addresses may have: about a million of them.
LONGEST = 2**26


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser().parse_args(
            [_without_hyphen(text) if text.startswith("-") else text for text in given]
        )
        # The client logs why it waits and tries again.
        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        logging.getLogger("tonframes").setLevel(logging.INFO)
        options.run(options)
        if sys.stdout is not None:  # it is closed in `tonframes … >&-`
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again at exit. Without this line that would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (tf.TonframesError, ValueError, OSError) as error:
        lines = [_sentence(error), *getattr(error, "__notes__", ())]
        sys.stderr.write(f"tonframes: {inert(' '.join(' '.join(lines).split()))}\n")
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ["What is committed to the store stays there."])
        sys.stderr.write(f"tonframes: interrupted. {inert(' '.join(notes))}\n")
        return 130
    return 0


def _without_hyphen(text: str) -> str:
    """Return a masterchain address in the friendly form, and other text as it is.

    The raw form begins with a hyphen. argparse would take it for an option.
    """
    if re.fullmatch("-[0-9]+:-?[0-9]{0,10}", text):
        raise ValueError(f"seqnos are from 1 to {2**31 - 1}, not {text}")
    return tf.to_friendly(text) if text.startswith("-1:") else text


def _sentence(error: Exception) -> str:
    """Return the message of an error; one of the system without its number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tonframes",
        description="Fetch TON blockchain data from an index service into typed Parquet tables.",
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tonframes {tf.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    text = "Fetch blocks, transactions of accounts, or account states into a Parquet store."
    fetch = commands.add_parser("fetch", help=text, description=text)
    what = fetch.add_subparsers(required=True, metavar="WHAT")

    text = (
        "Fetch the transactions and messages of masterchain blocks and of the shard blocks that "
        "they commit. Blocks that the store holds are not fetched again."
    )
    blocks = what.add_parser("blocks", help=text, description=text)
    blocks.add_argument(
        "seqnos",
        metavar="FROM:TO",
        help="masterchain seqnos without TO, as 100:150; one seqno; or two UTC times with a slash "
        "between them, as 2026-05-28T20:26/2026-05-29",
    )
    blocks.add_argument(
        "--dry", action="store_true", help="print how many requests are needed, and fetch nothing"
    )
    _add_processes(
        blocks,
        "as many as cores for 1000 masterchain blocks and more from a service without a rate "
        "limit, and 1 elsewhere",
    )
    _add_service(blocks)
    blocks.set_defaults(run=_fetch_blocks)

    _add_transactions(what)

    text = "Fetch the current states of accounts. The store keeps them as a snapshot."
    accounts = what.add_parser("accounts", help=text, description=text)
    accounts.add_argument(
        "file",
        type=_path,
        metavar="FILE",
        help="a UTF-8 text file of addresses in any form, separated by white space, with comments "
        "from # to the end of a line; - is stdin",
    )
    accounts.add_argument("--no-boc", action="store_true", help="fetch without code and data")
    accounts.add_argument(
        "--max-age",
        metavar="AGE",
        help="use states from the store that are newer than this: 30min, 1h or 2d (default: "
        "fetch all of them)",
    )
    _add_service(accounts)
    accounts.set_defaults(run=_fetch_accounts)

    text = (
        "Fetch new masterchain blocks, or new transactions of accounts, as they appear, until "
        "Ctrl-C."
    )
    follow = commands.add_parser("follow", help=text, description=text)
    follow.add_argument(
        "start",
        nargs="?",
        metavar="FROM",
        help="a masterchain seqno or a UTC time to start from (default: the last block)",
    )
    follow.add_argument(
        "--account",
        action="append",
        metavar="ADDRESS",
        help="fetch the transactions of this account instead (repeatable; default: none); FROM is "
        "then a logical time or a UTC time, by default now",
    )
    _add_service(follow)
    follow.set_defaults(run=_follow)

    text = (
        "Put JSON that you have saved into a store: answers with transactions, blocks or accounts, "
        "or records of these, whole or one on each line. The rows are kept apart from those that "
        "were fetched, because nobody has proven that nothing is missing among them."
    )
    ingest = commands.add_parser("ingest", help="Put saved JSON into a store.", description=text)
    ingest.add_argument(
        "files", nargs="+", type=_path, metavar="FILE", help="a file of JSON; - is stdin"
    )
    ingest.add_argument(
        "--store",
        type=_place,
        default=os.environ.get("TONFRAMES_STORE"),
        required="TONFRAMES_STORE" not in os.environ,
        metavar="DIR",
        help="the store (default: TONFRAMES_STORE)",
    )
    ingest.set_defaults(run=_ingest)

    text = "Print dtype, unit, meaning and API path of each column of a table."
    table = commands.add_parser("describe", help=text, description=text)
    table.add_argument(
        "columns",
        type=_columns,
        metavar="TABLE",
        help="transactions, messages, blocks, accounts, address_book or metadata",
    )
    table.set_defaults(run=_describe)

    text = "Run an index service on this computer that answers from a store, until Ctrl-C."
    service = commands.add_parser("serve", help=text, description=text)
    service.add_argument("store", type=_place, metavar="STORE", help="the store; it is only read")
    service.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    service.add_argument(
        "--port",
        type=_port,
        default=8081,
        help="port to listen on; 0 picks a free one (default: %(default)s)",
    )
    service.add_argument(
        "--dialect",
        choices=("service", "specification"),
        default="service",
        help="answer as deployed services do or as the specification says (default: %(default)s)",
    )
    service.set_defaults(run=_serve)

    _add_upkeep(commands)

    text = "Show the main steps on made-up data. It needs no network."
    show = commands.add_parser("demo", help=text, description=text)
    show.add_argument(
        "--store",
        type=_path,
        default=Path("tonframes-demo"),
        metavar="DIR",
        help="the store to fetch into (default: %(default)s)",
    )
    show.set_defaults(run=_demo)
    return parser


def _add_processes(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument(
        "--processes",
        type=_count,
        metavar="N",
        help=f"how many processes fetch; 1 is this one alone (default: {default})",
    )


def _add_transactions(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = (
        "Fetch all transactions and messages of accounts between two times. Those that the store "
        "holds are not fetched again."
    )
    transactions = what.add_parser("transactions", help=text, description=text)
    transactions.add_argument(
        "accounts", nargs="*", metavar="ADDRESS", help="addresses of accounts in any form"
    )
    transactions.add_argument(
        "--file",
        type=_path,
        help="a UTF-8 text file of more addresses, separated by white space; - is stdin (default: "
        "none)",
    )
    transactions.add_argument(
        "--since",
        metavar="FROM",
        help="a UTC time, as 2026-04-01 or 2026-04-01T20:26, or a logical time to start from "
        "(default: the first transaction)",
    )
    transactions.add_argument(
        "--until",
        metavar="TO",
        help="a UTC time or a logical time to stop before (default: the last transaction)",
    )
    transactions.add_argument(
        "--dry", action="store_true", help="print how many requests are needed, and fetch nothing"
    )
    _add_processes(transactions, "1")
    _add_service(transactions)
    transactions.set_defaults(run=_fetch_transactions)


def _add_upkeep(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "Rewrite the files of a store that an older version of tonframes has written."
    upgrade = commands.add_parser("upgrade", help=text, description=text)
    upgrade.add_argument("store", type=_place, metavar="DIR", help="a store")
    upgrade.set_defaults(run=_upgrade)

    text = (
        "Join the files of whole spans of 1,000 and 10,000 masterchain seqnos, which makes reading "
        "faster. Other processes may read and write meanwhile."
    )
    compact = commands.add_parser(
        "compact", help="Join the small files of a store.", description=text
    )
    compact.add_argument("store", type=_path, metavar="DIR", help="a store")
    compact.add_argument(
        "--grace",
        default="1h",
        metavar="AGE",
        help="for how long the files that were replaced stay for readers that began before: 10min, "
        "1h; 0s if there are none (default: %(default)s)",
    )
    compact.add_argument(
        "--by-account",
        action="store_true",
        help="write a copy of the transactions as well, sorted by account",
    )
    compact.set_defaults(run=_compact)

    text = "Verify all bytes of a store, and list the files that are damaged. Nothing is changed."
    verify = commands.add_parser("verify", help=text, description=text)
    verify.add_argument("store", type=_place, metavar="STORE", help="a store")
    verify.set_defaults(run=_verify)


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=_place,
        default=argparse.SUPPRESS,
        metavar="STORE",
        help="the store, a folder or s3://BUCKET/PATH or gs://BUCKET/PATH (default: "
        "TONFRAMES_STORE, or one per service in your cache directory)",
    )
    parser.add_argument("--url", help="the service (default: TONFRAMES_URL, or TON Center)")
    parser.add_argument(
        "--rps",
        type=_rate,
        metavar="R",
        help="maximum of requests per second (default: 1 for TON Center, 10 with an API key; "
        "unlimited for other services)",
    )


def _client(options: argparse.Namespace) -> tf.Client:
    return tf.Client(options.url, requests_per_second=options.rps)


def _path(text: str) -> Path:
    # `--store "$UNSET"` would otherwise write into the current directory.
    if not text:
        raise argparse.ArgumentTypeError(
            "the path is empty: name a file or folder, or leave it out"
        )
    return Path(text)


def _place(text: str) -> Path | str:
    """Return the path or the URL of a store."""
    from tonframes.bucket import is_url

    return text if is_url(text) else _path(text)


def _port(text: str) -> int:
    if not _is_number(text):
        raise argparse.ArgumentTypeError(f"expected a number such as 8081, not {shorten(text)}")
    return int(text)


def _count(text: str) -> int:
    if not _is_number(text) or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number such as 4, not {shorten(text)}")
    return int(text)


def _rate(text: str) -> float:
    # float() reads the digits of every script, and underscores.
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", text):
        raise argparse.ArgumentTypeError(f"expected a number such as 2 or 0.5, not {shorten(text)}")
    return float(text)


def _is_number(text: str) -> bool:
    """Return whether a text has digits from 0 to 9 only."""
    return text.isascii() and text.isdecimal()


def _store(options: argparse.Namespace) -> StoreOption:
    from tonframes.fetch import DEFAULT

    return getattr(options, "store", DEFAULT)


def _fetch_blocks(options: argparse.Namespace) -> None:
    from tonframes.fetch.time import resolve_seqnos

    store = _store(options)
    with _client(options) as client:
        (seqnos,) = resolve_seqnos(options.seqnos, client)
        plan = tf.plan_blocks(seqnos, client=client, store=store)
        if options.dry:
            print(plan)
            return
        sys.stderr.write(f"{plan}\n")
        blocks = tf.fetch_blocks(seqnos, client=client, store=store, executor=options.processes)
        print(_card(blocks))


def _fetch_transactions(options: argparse.Namespace) -> None:
    accounts = [*options.accounts, *(_addresses(options.file) if options.file else ())]
    if not accounts:
        raise ValueError("no address: name some, or a --file of them")
    since, until, store = _bound(options.since), _bound(options.until), _store(options)
    with _client(options) as client:
        plan = tf.plan_transactions(accounts, since=since, until=until, client=client, store=store)
        if options.dry:
            print(plan)
            return
        sys.stderr.write(f"{plan}\n")
        history = tf.fetch_transactions(
            accounts,
            since=since,
            until=until,
            client=client,
            store=store,
            executor=options.processes,
        )
        print(_card(history))


def _bound(text: str | None) -> str | int | None:
    """Return a logical time as an int, and a UTC time as it is."""
    return int(text) if text is not None and _is_number(text) else text


def _follow(options: argparse.Namespace) -> None:
    with _client(options) as client:
        following: Iterator[tf.Blocks]
        if options.account:
            since = _bound(options.start)
            following = tf.follow_transactions(
                options.account, since=since, client=client, store=_store(options)
            )
        else:
            following = tf.follow_blocks(options.start, client=client, store=_store(options))
        for blocks in following:
            print(_card(blocks).partition("\n")[0], flush=True)


def _fetch_accounts(options: argparse.Namespace) -> None:
    addresses = list(_addresses(options.file))
    with _client(options) as client:
        accounts = tf.fetch_accounts(
            addresses,
            include_boc=not options.no_boc,
            max_age=options.max_age,
            client=client,
            store=_store(options),
        )
    print(_card(accounts))


def _ingest(options: argparse.Namespace) -> None:
    files = [sys.stdin.buffer if str(file) == "-" else file for file in options.files]
    added = tf.ingest(files, store=options.store)
    rows = ", ".join(f"{count:,} {name}" for name, count in added.items())
    print(f"ingested into {inert(str(options.store))}, unproven: {rows or 'nothing new'}")


def _addresses(file: Path) -> Iterator[str]:
    """Read addresses. An error names the line of a wrong one."""
    try:
        text = _content(file)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}") from None
    lines = [line.partition("#")[0] for line in text.removeprefix("\ufeff").splitlines()]
    if not "".join(lines).strip():
        raise ValueError(f"{file} contains no address")
    for number, line in enumerate(lines, start=1):
        for address in line.split():
            try:
                yield tf.to_raw(address)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None


def _content(file: Path) -> str:
    """Read a list of addresses; a device such as /dev/zero has no end."""
    if str(file) == "-":
        content = sys.stdin.read(LONGEST + 1)
    else:
        with file.open("rb") as source:
            content = source.read(LONGEST + 1).decode()
    if len(content) > LONGEST:
        raise ValueError(f"{file} has more than {LONGEST:,} bytes: pass fewer addresses at once")
    return content


def _columns(table: str) -> pd.DataFrame:
    """Look up the columns of a table. A wrong name is a wrong argument."""
    try:
        return tf.describe(table)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _describe(options: argparse.Namespace) -> None:
    columns: pd.DataFrame = options.columns
    rows = [list(columns), *columns.astype(str).to_numpy().tolist()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _card(tables: TableSet) -> str:
    """Return the summary of tables without the angle brackets of its repr."""
    return repr(tables)[1:-1]


def _serve(options: argparse.Namespace) -> None:
    from tonframes.service import serve_forever

    serve_forever(options.store, host=options.host, port=options.port, dialect=options.dialect)


def _demo(options: argparse.Namespace) -> None:
    from tonframes.demo import demo

    demo(options.store)


def _upgrade(options: argparse.Namespace) -> None:
    from tonframes.wire.schema import VERSION

    rewritten = tf.upgrade_store(options.store)
    for file in rewritten:
        print(f"rewrote {inert(str(file))}")
    store = inert(str(options.store))
    print(f"{len(rewritten)} files rewritten; {store} has version {VERSION} of the columns")


def _compact(options: argparse.Namespace) -> None:
    from tonframes.seqnos import spell

    spans = tf.compact_store(options.store, grace=options.grace, by_account=options.by_account)
    for span in spans:
        print(f"joined the files of {spell([span])}")
    copies = "; joined spans have a copy sorted by account" if options.by_account else ""
    store = inert(str(options.store))
    print(f"{len(spans)} spans joined; {store} has the same rows as before{copies}")


def _verify(options: argparse.Namespace) -> None:
    damaged = tf.verify_store(options.store)
    for file, reason in damaged.items():
        print(inert(f"{file} {reason}"))
    if damaged:
        raise tf.StoreError(
            f"{len(damaged)} damaged files in {options.store}: fetch into the store again, which "
            "sets them aside",
            path=options.store,
        )
    print(f"{inert(str(options.store))}: all files are as they were written")
