"""The parser of the command line, and how a command ends."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

import tonframes as tf
from tonframes.cli import explaining, fetching, stores
from tonframes.inert import inert

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = make_parser().parse_args(
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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="tonframes",
        description="Fetch TON blockchain data from an index service into typed Parquet tables.",
        epilog=MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tonframes {tf.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fetching.add_fetch(commands)
    fetching.add_follow(commands)
    stores.add_ingest(commands)
    explaining.add_describe(commands)
    stores.add_serve(commands)
    stores.add_compact(commands)
    stores.add_verify(commands)
    explaining.add_demo(commands)
    return parser
