"""Commands on a store: ingest, serve, compact and verify."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.cli import arguments
from tonframes.inert import inert

if TYPE_CHECKING:
    import argparse


def add_ingest(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `ingest`."""
    text = (
        "Put JSON that you have saved into a store: answers with transactions, blocks or accounts, "
        "or records of these, whole or one on each line. The rows are kept apart from those that "
        "were fetched, because nobody has proven that nothing is missing among them."
    )
    ingest = commands.add_parser("ingest", help="Put saved JSON into a store.", description=text)
    ingest.add_argument(
        "files",
        nargs="+",
        type=arguments.path,
        metavar="FILE",
        help="a file or a pipe of JSON; - is stdin",
    )
    ingest.add_argument(
        "--store",
        type=arguments.place,
        default=os.environ.get("TONFRAMES_STORE"),
        required="TONFRAMES_STORE" not in os.environ,
        metavar="DIR",
        help="the store (default: TONFRAMES_STORE)",
    )
    ingest.set_defaults(run=_ingest)


def _ingest(options: argparse.Namespace) -> None:
    files = [sys.stdin.buffer if str(file) == "-" else file for file in options.files]
    added = tf.ingest(files, store=options.store)
    rows = ", ".join(f"{count:,} {name}" for name, count in added.items())
    print(f"ingested into {inert(str(options.store))}, unproven: {rows or 'nothing new'}")


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `serve`."""
    text = "Run an index service on this computer that answers from a store, until Ctrl-C."
    service = commands.add_parser("serve", help=text, description=text)
    service.add_argument(
        "store", type=arguments.place, metavar="STORE", help="the store; it is only read"
    )
    service.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    service.add_argument(
        "--port",
        type=arguments.port,
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


def _serve(options: argparse.Namespace) -> None:
    from tonframes.service import serve_forever

    serve_forever(options.store, host=options.host, port=options.port, dialect=options.dialect)


def add_compact(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `compact`."""
    text = (
        "Join the files of whole spans of 1,000 and 10,000 masterchain seqnos, which makes reading "
        "faster. Other processes may read and write meanwhile."
    )
    compact = commands.add_parser(
        "compact", help="Join the small files of a store.", description=text
    )
    compact.add_argument("store", type=arguments.path, metavar="DIR", help="a store")
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


def _compact(options: argparse.Namespace) -> None:
    from tonframes.seqnos import spell

    spans = tf.compact_store(options.store, grace=options.grace, by_account=options.by_account)
    for span in spans:
        print(f"joined the files of {spell([span])}")
    copies = "; files of 1,000 seqnos and more have a copy by account" if options.by_account else ""
    store = inert(str(options.store))
    count = "1 span" if len(spans) == 1 else f"{len(spans)} spans"
    print(f"{count} joined now; {store} has the same rows as before{copies}")


def add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `verify`."""
    text = "Verify all bytes of a store, and list the files that are damaged. Nothing is changed."
    verify = commands.add_parser("verify", help=text, description=text)
    verify.add_argument("store", type=arguments.place, metavar="STORE", help="a store")
    verify.set_defaults(run=_verify)


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
