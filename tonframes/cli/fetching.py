"""Commands that ask a service: fetch and follow."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.cli import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonframes.fetch.resolve import StoreOption
    from tonframes.tableset import TableSet


def add_fetch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `fetch`."""
    text = "Fetch blocks, transactions of accounts, or account states into a Parquet store."
    fetch = commands.add_parser("fetch", help=text, description=text)
    what = fetch.add_subparsers(required=True, metavar="WHAT")
    _add_blocks(what)
    _add_transactions(what)
    _add_accounts(what)


def _add_blocks(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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


def _fetch_blocks(options: argparse.Namespace) -> None:
    from tonframes.fetch.resolve import resolve_seqnos

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
        type=arguments.path,
        help="a UTF-8 text file of more addresses, separated by white space; - is stdin (default: "
        "none)",
    )
    transactions.add_argument(
        "--since",
        metavar="FROM",
        help="a UTC time, as 2026-04-01 or 2026-04-01T20:26, or a logical time, as 65000000000000 "
        "or lt:65000000000000, to start from; unix times and dates without hyphens are refused "
        "(default: the first transaction)",
    )
    transactions.add_argument(
        "--until",
        metavar="TO",
        help="a UTC time or a logical time, as in --since, to stop before (default: the last "
        "transaction)",
    )
    transactions.add_argument(
        "--dry", action="store_true", help="print how many requests are needed, and fetch nothing"
    )
    _add_processes(transactions, "1")
    _add_service(transactions)
    transactions.set_defaults(run=_fetch_transactions)


def _fetch_transactions(options: argparse.Namespace) -> None:
    accounts = [*options.accounts, *(arguments.addresses(options.file) if options.file else ())]
    if not accounts:
        raise ValueError("no address: name some, or a --file of them")
    since, until, store = (
        arguments.bound(options.since),
        arguments.bound(options.until),
        _store(options),
    )
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


def _add_accounts(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "Fetch the current states of accounts. The store keeps them as a snapshot."
    accounts = what.add_parser("accounts", help=text, description=text)
    accounts.add_argument(
        "file",
        type=arguments.path,
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


def _fetch_accounts(options: argparse.Namespace) -> None:
    addresses = list(arguments.addresses(options.file))
    with _client(options) as client:
        accounts = tf.fetch_accounts(
            addresses,
            include_boc=not options.no_boc,
            max_age=options.max_age,
            client=client,
            store=_store(options),
        )
    print(_card(accounts))


def add_follow(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `follow`."""
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
        "then a UTC time or a logical time, as in --since of fetch, by default now",
    )
    _add_service(follow)
    follow.set_defaults(run=_follow)


def _follow(options: argparse.Namespace) -> None:
    with _client(options) as client:
        following: Iterator[tf.Blocks]
        if options.account:
            since = arguments.bound(options.start)
            following = tf.follow_transactions(
                options.account, since=since, client=client, store=_store(options)
            )
        else:
            following = tf.follow_blocks(options.start, client=client, store=_store(options))
        for blocks in following:
            print(_card(blocks).partition("\n")[0], flush=True)


def _add_processes(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--processes",
        type=arguments.count,
        metavar="N",
        help=f"how many processes fetch; 1 is this one alone (default: {default})",
    )


def _add_service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=arguments.place,
        default=argparse.SUPPRESS,
        metavar="STORE",
        help="the store, a folder or s3://BUCKET/PATH or gs://BUCKET/PATH (default: "
        "TONFRAMES_STORE, or one per service in your cache directory)",
    )
    parser.add_argument("--url", help="the service (default: TONFRAMES_URL, or TON Center)")
    parser.add_argument(
        "--rps",
        type=arguments.rate,
        metavar="R",
        help="maximum of requests per second (default: 1 for TON Center, 10 with an API key; "
        "unlimited for other services)",
    )


def _client(options: argparse.Namespace) -> tf.Client:
    return tf.Client(options.url, requests_per_second=options.rps)


def _store(options: argparse.Namespace) -> StoreOption:
    from tonframes.fetch import DEFAULT

    return getattr(options, "store", DEFAULT)


def _card(tables: TableSet) -> str:
    """Return the summary of tables without the angle brackets of its repr."""
    return repr(tables)[1:-1]
