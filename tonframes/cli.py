"""The command line. The signature and the docstring of a command are its options and its help."""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

import tonframes as tf
from tonframes.errors import shorten
from tonframes.inert import inert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cyclopts import Token

    from tonframes.tableset import TableSet

#: Bytes that a list of addresses may have: about a million of them.
LONGEST = 2**26

HELP = """\
Fetch TON blockchain data from an index service into typed Parquet tables.

Exit status:
  0    success
  1    an error; stderr has one line about it
  2    wrong arguments, seqnos or addresses
  130  interrupted by Ctrl-C (serve: 0); what is committed to the store stays
       there; a second Ctrl-C ends at once
  141  the reader of the output has closed the pipe

Spreadsheets:
  in Python, tonframes.write_csv and tonframes.read_csv write and read safe
  CSV files

Environment:
  TONFRAMES_URL      the service (default: TON Center)
  TONCENTER_API_KEY  an API key; it is sent to TON Center only
  TONFRAMES_STORE    the store (default: one per service in your cache)
"""

app = App(
    name="tonframes",
    help=HELP,
    help_format="plaintext",
    version=lambda: f"tonframes {tf.__version__}",
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)
fetch = App(
    name="fetch",
    help="Fetch blocks, transactions of accounts, or account states into a Parquet store.",
)
app.command(fetch)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        run = _parsed(sys.argv[1:] if arguments is None else arguments)
        # The client logs why it waits and tries again.
        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        logging.getLogger("tonframes").setLevel(logging.INFO)
        run()
        if sys.stdout is not None:  # it is closed in `tonframes … >&-`
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # of rich, when help is printed
        # Python flushes stdout again at exit. Without this line that would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (tf.TonframesError, CycloptsError, ValueError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.strerror:  # without the number of the error
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        lines = [message, *getattr(error, "__notes__", ())]
        sys.stderr.write(f"tonframes: {inert(' '.join(' '.join(lines).split()))}\n")
        return 2 if isinstance(error, ValueError | CycloptsError) else 1
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ["What is committed to the store stays there."])
        sys.stderr.write(f"tonframes: interrupted. {inert(' '.join(notes))}\n")
        return 130
    return 0


def _parsed(arguments: Sequence[str]) -> Callable[[], object]:
    command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    if command.__name__ == "help_print" and not {"-h", "--help"}.intersection(arguments):
        raise ValueError("name a command: tonframes --help lists them")
    return partial(command, *bound.args, **bound.kwargs)


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def _place(_kind: object, tokens: Sequence[Token]) -> Path | str:
    from tonframes.bucket import is_url

    text = tokens[0].value
    if not text:  # `--store "$UNSET"` would otherwise write into the current directory
        raise ValueError("the path is empty: name a file or folder, or leave it out")
    return text if is_url(text) else Path(text)


def _number(kind: Any, tokens: Sequence[Token]) -> Any:
    text = tokens[0].value
    # float() and int() read the digits of every script, and underscores.
    digits = "[0-9]+" if kind is int else r"[0-9]+(\.[0-9]*)?|\.[0-9]+"
    if not re.fullmatch(digits, text):
        raise ValueError(f"expected a number such as 4, not {shorten(text)}")
    return kind(text)


Place = Annotated[
    Path | str,
    Parameter(
        converter=_place, n_tokens=1, metavar="PATH", allow_leading_hyphen=True
    ),  # - is stdin
]
Number = Annotated[int, Parameter(converter=_number)]
Dry = Annotated[bool, Parameter(help="print how many requests are needed, and fetch nothing")]
#: The raw form of an address of the masterchain begins with a hyphen.
Text = Annotated[str, Parameter(allow_leading_hyphen=True)]


@Parameter(name="*")
@dataclass(frozen=True)
class Service:
    """A service, and the store of what it answers.

    Parameters
    ----------
    store
        the store, a folder or s3://BUCKET/PATH or gs://BUCKET/PATH (default: TONFRAMES_STORE, or
        one per service in your cache directory)
    url
        the service (default: TONFRAMES_URL, or TON Center)
    rps
        maximum of requests per second (default: 1 for TON Center, 10 with an API key; unlimited
        for other services)
    """

    store: Place | None = None
    url: str | None = None
    rps: Annotated[float, Parameter(converter=_number)] | None = None

    @contextmanager
    def options(self) -> Iterator[dict[str, Any]]:
        """Return arguments of the functions that fetch."""
        with tf.Client(self.url, requests_per_second=self.rps) as client:
            yield {"client": client, **({} if self.store is None else {"store": self.store})}


DEFAULT_SERVICE = Service()


def _bound(text: str | None) -> str | int | None:
    """Return digits as an int, which is a logical time, and other text as it is."""
    return int(text) if text and text.isascii() and text.isdecimal() else text


def addresses(file: Path | str) -> Iterator[str]:
    """Read addresses from a file, as they are written. An error names the line of a wrong one."""
    try:
        if str(file) == "-":
            text = sys.stdin.read(LONGEST + 1)
        else:
            with Path(file).open("rb") as source:  # a device such as /dev/zero has no end
                text = source.read(LONGEST + 1).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}") from None
    if len(text) > LONGEST:
        raise ValueError(f"{file} has more than {LONGEST:,} bytes: pass fewer addresses at once")
    lines = [line.partition("#")[0] for line in text.removeprefix("\ufeff").splitlines()]
    if not "".join(lines).strip():
        raise ValueError(f"{file} contains no address")
    for number, line in enumerate(lines, start=1):
        for address in line.split():
            try:
                tf.to_raw(address)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: {error}") from None
            yield address


def _card(tables: TableSet) -> str:
    """Return the summary of tables without the angle brackets of its repr."""
    return repr(tables)[1:-1]


# ── commands that ask a service ──────────────────────────────────────────────────────────────────


@fetch.command(name="blocks")
def fetch_blocks(
    seqnos: Text,
    /,
    *,
    dry: Dry = False,
    processes: Number | None = None,
    service: Service = DEFAULT_SERVICE,
) -> None:
    """Fetch the transactions and messages of masterchain blocks and of their shard blocks.

    Blocks that the store holds are not fetched again.

    Parameters
    ----------
    seqnos
        masterchain seqnos without the last, as 100:150; one seqno; or two UTC times with a slash
        between them, as 2026-05-28T20:26/2026-05-29
    processes
        how many processes fetch; 1 is this one alone (default: as many as cores for 1000
        masterchain blocks and more from a service without a rate limit, and 1 elsewhere)
    """
    from tonframes.fetch.resolve import resolve_seqnos

    with service.options() as options:
        (wanted,) = resolve_seqnos(seqnos, options["client"])
        plan = tf.plan_blocks(wanted, **options)
        print(plan, file=sys.stdout if dry else sys.stderr)
        if not dry:
            print(_card(tf.fetch_blocks(wanted, **options, executor=processes)))


@fetch.command(name="transactions")
def fetch_transactions(
    *accounts: Text,
    file: Place | None = None,
    since: str | None = None,
    until: str | None = None,
    dry: Dry = False,
    processes: Number | None = None,
    service: Service = DEFAULT_SERVICE,
) -> None:
    """Fetch all transactions and messages of accounts between two times.

    Those that the store holds are not fetched again.

    Parameters
    ----------
    accounts
        addresses of accounts in any form
    file
        a UTF-8 text file of more addresses, separated by white space; - is stdin (default: none)
    since
        a UTC time, as 2026-04-01 or 2026-04-01T20:26, or a logical time, as 65000000000000 or
        lt:65000000000000, to start from; unix times and dates without hyphens are refused
        (default: the first transaction)
    until
        a UTC time or a logical time, as in --since, to stop before (default: the last transaction)
    processes
        how many processes fetch; 1 is this one alone (default: 1)
    """
    wanted = [*accounts, *(addresses(file) if file else ())]
    if not wanted:
        raise ValueError("no address: name some, or a --file of them")
    with service.options() as options:
        options |= {"since": _bound(since), "until": _bound(until)}
        plan = tf.plan_transactions(wanted, **options)
        print(plan, file=sys.stdout if dry else sys.stderr)
        if not dry:
            print(_card(tf.fetch_transactions(wanted, **options, executor=processes)))


@fetch.command(name="accounts")
def fetch_accounts(
    file: Place,
    /,
    *,
    no_boc: bool = False,
    max_age: str | None = None,
    service: Service = DEFAULT_SERVICE,
) -> None:
    """Fetch the current states of accounts. The store keeps them as a snapshot.

    Parameters
    ----------
    file
        a UTF-8 text file of addresses in any form, separated by white space, with comments from #
        to the end of a line; - is stdin
    no_boc
        fetch without code and data
    max_age
        use states from the store that are newer than this: 30min, 1h or 2d (default: fetch all of
        them)
    """
    wanted = list(addresses(file))
    with service.options() as options:
        print(_card(tf.fetch_accounts(wanted, include_boc=not no_boc, max_age=max_age, **options)))


@app.command
def follow(
    start: Text | None = None,
    /,
    *,
    account: list[Text] | None = None,
    service: Service = DEFAULT_SERVICE,
) -> None:
    """Fetch new masterchain blocks, or new transactions of accounts, until Ctrl-C.

    Parameters
    ----------
    start
        a masterchain seqno or a UTC time to start from (default: the last block)
    account
        fetch the transactions of this account instead (repeatable; default: none); START is then
        a UTC time or a logical time, as in --since of fetch, by default now
    """
    with service.options() as options:
        following: Iterator[TableSet] = (
            tf.follow_transactions(account, since=_bound(start), **options)
            if account
            else tf.follow_blocks(start, **options)
        )
        for tables in following:
            print(_card(tables).partition("\n")[0], flush=True)


# ── commands on a store ──────────────────────────────────────────────────────────────────────────


@app.command
def ingest(*files: Place, store: Annotated[Place, Parameter(env_var="TONFRAMES_STORE")]) -> None:
    """Put JSON that you have saved into a store.

    The files have answers with transactions, blocks or accounts, or records of these, whole or one
    on each line. The rows are kept apart from those that were fetched, because nobody has proven
    that nothing is missing among them.

    Parameters
    ----------
    files
        files or pipes of JSON; - is stdin
    store
        the store (default: TONFRAMES_STORE)
    """
    if not files:
        raise ValueError("no file: name some, or - for stdin")
    added = tf.ingest([sys.stdin.buffer if str(f) == "-" else f for f in files], store=store)
    rows = ", ".join(f"{count:,} {name}" for name, count in added.items())
    print(f"ingested into {inert(str(store))}, unproven: {rows or 'nothing new'}")


@app.command
def serve(
    store: Place,
    /,
    *,
    host: str = "127.0.0.1",
    port: Number = 8081,
    dialect: Literal["service", "specification"] = "service",
) -> None:
    """Run an index service on this computer that answers from a store, until Ctrl-C.

    Parameters
    ----------
    store
        the store; it is only read
    host
        address to listen on
    port
        port to listen on; 0 picks a free one
    dialect
        answer as deployed services do or as the specification says
    """
    from tonframes.service import serve_forever

    serve_forever(store, host=host, port=port, dialect=dialect)


@app.command
def compact(store: Place, /, *, grace: str = "1h", by_account: bool = False) -> None:
    """Join the small files of a store, which makes reading faster.

    The files of whole spans of 1,000 and 10,000 masterchain seqnos become one. Other processes may
    read and write meanwhile.

    Parameters
    ----------
    store
        a store
    grace
        for how long the files that were replaced stay for readers that began before: 10min, 1h;
        0s if there are none
    by_account
        write a copy of the transactions as well, sorted by account
    """
    from tonframes.seqnos import spell

    runs = tf.compact_store(store, grace=grace, by_account=by_account)
    for run in runs:
        print(f"joined the files of {spell([run])}")
    copies = "; files of 1,000 seqnos and more have a copy by account" if by_account else ""
    count = "1 span" if len(runs) == 1 else f"{len(runs)} spans"
    print(f"{count} joined now; {inert(str(store))} has the same rows as before{copies}")


@app.command
def verify(store: Place, /) -> None:
    """Verify all bytes of a store, and list the files that are damaged. Nothing is changed.

    Parameters
    ----------
    store
        a store
    """
    damaged = tf.verify_store(store)
    for file, reason in damaged.items():
        print(inert(f"{file} {reason}"))
    if damaged:
        raise tf.StoreError(
            f"{len(damaged)} damaged files in {store}: fetch into the store again, which sets them "
            "aside",
            path=Path(store),
        )
    print(f"{inert(str(store))}: all files are as they were written")


# ── commands that explain ────────────────────────────────────────────────────────────────────────


@app.command
def describe(table: str, /) -> None:
    """Print dtype, unit, meaning and API path of each column of a table.

    Parameters
    ----------
    table
        transactions, messages, blocks, accounts, address_book or metadata
    """
    columns = tf.describe(table)
    rows = [list(columns), *columns.astype(str).to_numpy().tolist()]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


@app.command
def demo(*, store: Place = Path("tonframes-demo")) -> None:
    """Show the main steps on made-up data. It needs no network.

    Parameters
    ----------
    store
        the store to fetch into
    """
    from tonframes.demo import demo as show

    show(store)
