"""The command line: arguments in, the functions of the library, text out.

Exit status: 0 done, 1 an error of tonframes in one line on stderr, 2 wrong arguments, 130
interrupted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from tonframes.addresses import to_raw
from tonframes.client import Client
from tonframes.demo import demo
from tonframes.errors import TonframesError
from tonframes.fetch import (
    DEFAULT,
    fetch_accounts,
    fetch_blocks,
    follow_blocks,
    plan_blocks,
    seqno_at,
)
from tonframes.frames import describe
from tonframes.schema import TABLES
from tonframes.service import serve_forever

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    # What the client has to say while it tries again: nobody should wait and wonder.
    logging.basicConfig(stream=sys.stderr, format="%(message)s")
    logging.getLogger("tonframes").setLevel(logging.INFO)
    try:
        options.run(options)
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
        epilog="Exit status: 0 done, 1 an error, told in one line on stderr, 2 wrong arguments, "
        "130 interrupted. Environment: TONCENTER_API_KEY, a key of TON Center; TONFRAMES_URL, the "
        "service; TONFRAMES_STORE, the store.",
    )
    parser.add_argument("--version", action="version", version=f"tonframes {version('tonframes')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fetch = commands.add_parser("fetch", help="fetch into a Parquet store")
    what = fetch.add_subparsers(required=True, metavar="WHAT")

    blocks = what.add_parser("blocks", help="transactions of masterchain blocks")
    blocks.add_argument(
        "seqnos",
        metavar="FROM:TO",
        help="seqnos, TO not included; or moments in UTC: 2026-05-28T20:26/2026-05-29",
    )
    blocks.add_argument("--dry", action="store_true", help="only say what it would cost")
    _add_service(blocks)
    blocks.set_defaults(run=_fetch_blocks)

    accounts = what.add_parser("accounts", help="present states of accounts")
    accounts.add_argument("file", type=Path, help="addresses in any form, one a line; - is stdin")
    accounts.add_argument("--no-boc", action="store_true", help="leave out code and data")
    accounts.add_argument("--max-age", metavar="AGE", help="take younger states from the store: 1h")
    _add_service(accounts)
    accounts.set_defaults(run=_fetch_accounts)

    follow = commands.add_parser("follow", help="fetch masterchain blocks as they come, for ever")
    follow.add_argument(
        "start", nargs="?", metavar="FROM", help="seqno or moment (default: the last block)"
    )
    _add_service(follow)
    follow.set_defaults(run=_follow)

    columns = commands.add_parser("describe", help="tell what the columns of a table are")
    columns.add_argument("table", choices=TABLES, metavar="TABLE", help=", ".join(TABLES))
    columns.set_defaults(run=_describe)

    service = commands.add_parser("serve", help="answer the two operations from a store")
    service.add_argument("store", type=Path, metavar="DIR", help="a store")
    service.add_argument("--host", default="127.0.0.1", help="address to listen on")
    service.add_argument("--port", type=int, default=8081, help="port to listen on; 0 is any")
    service.add_argument(
        "--dialect",
        choices=("specification", "service"),
        default="specification",
        help="answer as specified, or as deployed services do",
    )
    service.set_defaults(run=_serve)

    show = commands.add_parser("demo", help="do the main job on made-up data")
    show.add_argument(
        "--store",
        type=Path,
        default=Path("tonframes-demo"),
        metavar="DIR",
        help="where to keep what it fetches (default: %(default)s)",
    )
    show.set_defaults(run=lambda options: demo(options.store))
    return parser


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=Path,
        default=DEFAULT,
        metavar="DIR",
        help="the store (default: one per service in your cache directory)",
    )
    parser.add_argument("--url", help="the service (default: TONFRAMES_URL, or TON Center)")
    parser.add_argument("--rps", type=float, metavar="R", help="requests per second at most")


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
        print(fetch_blocks(seqnos, client=client, store=options.store))


def _follow(options: argparse.Namespace) -> None:
    with _client(options) as client:
        start = None if options.start is None else _seqno(options.start, client)
        for blocks in follow_blocks(start, client=client, store=options.store):
            print(repr(blocks).partition("\n")[0].strip("<>"), flush=True)


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
    print(accounts)


def _addresses(file: Path) -> Iterator[str]:
    """Read addresses, and name the line of one that is none."""
    text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        for address in line.split():
            try:
                yield to_raw(address)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None


def _describe(options: argparse.Namespace) -> None:
    print(describe(options.table).to_string(index=False, justify="left"))


def _serve(options: argparse.Namespace) -> None:
    serve_forever(options.store, host=options.host, port=options.port, dialect=options.dialect)


def _seqnos(text: str, client: Client) -> range:
    """Read `100:150`, `100`, or moments with a slash between them, as ISO 8601 has it."""
    start, separator, stop = text.partition("/" if "/" in text else ":")
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
