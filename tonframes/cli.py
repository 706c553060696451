"""The command line: arguments in, the functions of the library, text out."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from tonframes.addresses import to_friendly, to_raw
from tonframes.client import Client
from tonframes.columns import describe
from tonframes.demo import demo
from tonframes.errors import TonframesError
from tonframes.fetch import (
    DEFAULT,
    fetch_accounts,
    fetch_blocks,
    fetch_transactions,
    follow_blocks,
    follow_transactions,
    plan_blocks,
    plan_transactions,
    seqno_at,
)
from tonframes.service import serve_forever
from tonframes.store import upgrade_store
from tonframes.wire import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonframes.frames import Blocks
    from tonframes.tableset import TableSet

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name

MORE = """\
exit status:
  0    done
  1    an error, told in one line on stderr
  2    wrong arguments
  130  interrupted by Ctrl-C (serve: 0); what was committed is kept
  141  whoever was to read the output has gone

environment:
  TONFRAMES_URL      the service (default: TON Center)
  TONCENTER_API_KEY  a key, sent to TON Center alone
  TONFRAMES_STORE    the store (default: one per service in your cache directory)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    # argparse takes what begins with a hyphen for an option; so does a raw masterchain address.
    options = _parser().parse_args([to_friendly(a) if a.startswith("-1:") else a for a in given])
    # What the client has to say while it tries again: nobody should wait and wonder.
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("tonframes").setLevel(logging.INFO)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends: that is to go nowhere, not to fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (TonframesError, ValueError, OSError) as error:
        told = [str(error), *getattr(error, "__notes__", ())]
        sys.stderr.write(f"tonframes: {' '.join(' '.join(told).split())}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("tonframes: interrupted; what was committed is kept\n")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tonframes",
        description="Typed tables of the TON blockchain, from an index service to Parquet.",
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tonframes {version('tonframes')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _add_fetch(commands)

    text = "Fetch masterchain blocks, or transactions of accounts, as they come, until Ctrl-C."
    follow = commands.add_parser("follow", help=text, description=text)
    follow.add_argument(
        "start",
        nargs="?",
        metavar="FROM",
        help="masterchain seqno, or moment in UTC (default: the last block)",
    )
    follow.add_argument(
        "--account",
        action="append",
        metavar="ADDRESS",
        help="fetch the transactions of this account instead; may be repeated; FROM is then a "
        "logical time or a moment in UTC (default: now)",
    )
    _add_service(follow)
    follow.set_defaults(run=_follow)

    text = "Tell dtype, unit, meaning and API path of the columns of a table."
    columns = commands.add_parser("describe", help=text, description=text)
    columns.add_argument(
        "table", choices=schema.TABLES, metavar="TABLE", help=", ".join(schema.TABLES)
    )
    columns.set_defaults(run=_describe)

    text = "Answer the API's operations from a store, on this computer, until Ctrl-C."
    service = commands.add_parser("serve", help=text, description=text)
    service.add_argument("store", type=Path, metavar="DIR", help="a store; it is never written to")
    service.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    service.add_argument(
        "--port", type=int, default=8081, help="port to listen on; 0 is any (default: %(default)s)"
    )
    service.add_argument(
        "--dialect",
        choices=("specification", "service"),
        default="specification",
        help="answer as specified, or as deployed services do (default: %(default)s)",
    )
    service.set_defaults(run=_serve)

    text = "Rewrite the files of a store that an older version of tonframes has written."
    upgrade = commands.add_parser("upgrade", help=text, description=text)
    upgrade.add_argument("store", type=Path, metavar="DIR", help="a store")
    upgrade.set_defaults(run=_upgrade)

    text = "Do the main job on made-up data, step by step; nothing leaves this computer."
    show = commands.add_parser("demo", help=text, description=text)
    show.add_argument(
        "--store",
        type=Path,
        default=Path("tonframes-demo"),
        metavar="DIR",
        help="where to keep what it fetches (default: %(default)s)",
    )
    show.set_defaults(run=lambda options: demo(options.store))
    return parser


def _add_fetch(commands: Subparsers) -> None:
    text = "Fetch into a Parquet store what it lacks."
    fetch = commands.add_parser("fetch", help=text, description=text)
    what = fetch.add_subparsers(required=True, metavar="WHAT")

    text = "Transactions and messages of masterchain blocks, and of the shards' blocks they commit."
    blocks = what.add_parser("blocks", help=text, description=text)
    blocks.add_argument(
        "seqnos",
        metavar="FROM:TO",
        help="masterchain seqnos, TO not included; a single one; or moments in UTC with a slash "
        "between them, 2026-05-28T20:26/2026-05-29",
    )
    _add_dry(blocks)
    _add_service(blocks)
    blocks.set_defaults(run=_fetch_blocks)

    text = "All transactions of accounts between two moments."
    transactions = what.add_parser("transactions", help=text, description=text)
    transactions.add_argument("accounts", nargs="*", metavar="ADDRESS", help="in any form")
    transactions.add_argument(
        "--file",
        type=Path,
        help="read addresses from here too, with white space between them; - is stdin "
        "(default: none)",
    )
    transactions.add_argument(
        "--since",
        metavar="A",
        help="moment in UTC, 2026-04-01 or 2026-04-01T20:26, or logical time "
        "(default: the first transaction)",
    )
    transactions.add_argument(
        "--until", metavar="B", help="the same, not included (default: the last transaction)"
    )
    _add_dry(transactions)
    _add_service(transactions)
    transactions.set_defaults(run=_fetch_transactions)

    text = "Present states of accounts; each is kept as a snapshot."
    accounts = what.add_parser("accounts", help=text, description=text)
    accounts.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="addresses in any form, with white space between them, in UTF-8; - is stdin",
    )
    accounts.add_argument("--no-boc", action="store_true", help="leave out code and data")
    accounts.add_argument(
        "--max-age",
        metavar="AGE",
        help="take states younger than this from the store, as 30min, 1h or 2d (default: ask "
        "for all of them)",
    )
    _add_service(accounts)
    accounts.set_defaults(run=_fetch_accounts)


def _add_dry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry", action="store_true", help="only say what it would cost")


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=Path,
        default=DEFAULT,
        metavar="DIR",
        help="the store (default: TONFRAMES_STORE, or one per service in your cache directory)",
    )
    parser.add_argument("--url", help="the service (default: TONFRAMES_URL, or TON Center)")
    parser.add_argument(
        "--rps",
        type=float,
        metavar="R",
        help="requests per second at most (default: 1 of TON Center, 10 with a key; no limit of "
        "other services)",
    )


def _client(options: argparse.Namespace) -> Client:
    return Client(options.url, requests_per_second=options.rps)


def _fetch_blocks(options: argparse.Namespace) -> None:
    with _client(options) as client:
        seqnos = _seqnos(options.seqnos, client)
        plan = plan_blocks(seqnos, client=client, store=options.store)
        if options.dry:
            print(plan)
            return
        sys.stderr.write(f"{plan}\n")
        print(_card(fetch_blocks(seqnos, client=client, store=options.store)))


def _fetch_transactions(options: argparse.Namespace) -> None:
    accounts = [*options.accounts, *(_addresses(options.file) if options.file else ())]
    if not accounts:
        raise ValueError("no address: name some, or a --file of them")
    since, until, store = _bound(options.since), _bound(options.until), options.store
    with _client(options) as client:
        plan = plan_transactions(accounts, since=since, until=until, client=client, store=store)
        if options.dry:
            print(plan)
            return
        sys.stderr.write(f"{plan}\n")
        history = fetch_transactions(accounts, since=since, until=until, client=client, store=store)
        print(_card(history))


def _bound(text: str | None) -> str | int | None:
    """Return a logical time as an int, and a moment as it is."""
    return int(text) if text is not None and text.isdecimal() else text


def _follow(options: argparse.Namespace) -> None:
    with _client(options) as client:
        following: Iterator[Blocks]
        if options.account:
            since = _bound(options.start)
            following = follow_transactions(
                options.account, since=since, client=client, store=options.store
            )
        else:
            start = None if options.start is None else _seqno(options.start, client)
            following = follow_blocks(start, client=client, store=options.store)
        for blocks in following:
            print(_card(blocks).partition("\n")[0], flush=True)


def _fetch_accounts(options: argparse.Namespace) -> None:
    addresses = list(_addresses(options.file))
    with _client(options) as client:
        accounts = fetch_accounts(
            addresses,
            include_boc=not options.no_boc,
            max_age=options.max_age,
            client=client,
            store=options.store,
        )
    print(_card(accounts))


def _addresses(file: Path) -> Iterator[str]:
    """Read addresses, and name the line of one that is none."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}") from None
    if not text.strip("\ufeff \t\r\n"):
        raise ValueError(f"{file} holds no address")
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        for address in line.split():
            try:
                yield to_raw(address)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None


def _describe(options: argparse.Namespace) -> None:
    columns = describe(options.table)
    rows = [list(columns), *columns.astype(str).to_numpy().tolist()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _card(tables: TableSet) -> str:
    """Say what there is, without the brackets that Python puts around it."""
    return repr(tables)[1:-1]


def _serve(options: argparse.Namespace) -> None:
    serve_forever(options.store, host=options.host, port=options.port, dialect=options.dialect)


def _upgrade(options: argparse.Namespace) -> None:
    rewritten = upgrade_store(options.store)
    for file in rewritten:
        print(f"rewrote {file}")
    print(
        f"{len(rewritten)} files rewritten; {options.store} has version {schema.VERSION} of the "
        "columns"
    )


def _seqnos(text: str, client: Client) -> range:
    """Read `100:150`, `100`, or moments with a slash between them, as ISO 8601 has it."""
    # A moment has colons of its own, and a hyphen, which seqnos have not.
    start, separator, stop = text.partition("/" if "/" in text or "-" in text else ":")
    if not separator:
        seqno = _seqno(text, client)
        return range(seqno, seqno + 1)
    if not start or not stop:
        raise ValueError(f"{text!r} is not like 100:150, 100, or 2026-05-28/2026-05-29")
    seqnos = range(_seqno(start, client), _seqno(stop, client))
    if not seqnos:
        raise ValueError(
            f"{text!r} is empty: nothing is from {seqnos.start} on and before {seqnos.stop}"
        )
    return seqnos


def _seqno(text: str, client: Client) -> int:
    return int(text) if text.isdecimal() else seqno_at(text, client=client)
