"""The command line: arguments in, the functions of the library, text out.

The modules::

    command       the parser, and how a command ends
    fetching      fetch and follow
    stores        ingest, serve, compact and verify
    explaining    describe and demo
    arguments     numbers, paths, times, and files of addresses
"""

from tonframes.cli.command import main

__all__ = ["main"]
