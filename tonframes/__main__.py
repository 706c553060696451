"""The command `tonframes`, also as `python -m tonframes`."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING

import tonframes

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_SOON = 0.05  # seconds


def main() -> int:
    """Run the command line. Ctrl-C ends it without a traceback, whenever it comes."""
    if sys.argv[1:] == ["--version"]:  # without importing the commands
        sys.stdout.write(f"tonframes {tonframes.__version__}\n")
        return 0
    sys.unraisablehook = _again_if_interrupted
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from tonframes.cli import main as run  # noqa: PLC0415 - importing takes a moment too

        return run()
    except KeyboardInterrupt:
        # It came before the arguments were read.
        sys.stderr.write("tonframes: interrupted\n")
        return 130
    finally:
        # From here on Ctrl-C ends the process at once: nothing is left to be done.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(*_: object) -> None:
    """Raise KeyboardInterrupt; the next Ctrl-C ends the process at once.

    What is committed to the store stays there in either case. Python's own handler would print a
    traceback where the second one comes.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def _again_if_interrupted(unraisable: UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that came in a destructor, where Python prints it and goes on."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        signal.signal(signal.SIGINT, _interrupt)
        # Within this hook it would be lost as well.
        again = threading.Timer(_SOON, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    raise SystemExit(main())
