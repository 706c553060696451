"""The command line: arguments in, the functions of the library, text out."""

from tonframes.cli.command import main

__all__ = ["main"]
