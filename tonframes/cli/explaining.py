"""Commands that explain: describe and demo."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.cli import arguments

if TYPE_CHECKING:
    import pandas as pd


def add_describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `describe`."""
    text = "Print dtype, unit, meaning and API path of each column of a table."
    table = commands.add_parser("describe", help=text, description=text)
    table.add_argument(
        "columns",
        type=_columns,
        metavar="TABLE",
        help="transactions, messages, blocks, accounts, address_book or metadata",
    )
    table.set_defaults(run=_describe)


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


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `demo`."""
    text = "Show the main steps on made-up data. It needs no network."
    show = commands.add_parser("demo", help=text, description=text)
    show.add_argument(
        "--store",
        type=arguments.path,
        default=Path("tonframes-demo"),
        metavar="DIR",
        help="the store to fetch into (default: %(default)s)",
    )
    show.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    from tonframes.demo import demo

    demo(options.store)
