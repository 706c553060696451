"""Typed tables of the TON blockchain, from a TON index service to pandas and Parquet.

`__init__.pyi` lists the public names. Each is imported when it is first used, so that
`import tonframes` is quick, and needs neither matplotlib nor an engine that nobody asks for. The
module `tonframes.network` has more names, for those who calculate fees themselves.
"""

from importlib import import_module as _import_module

import lazy_loader as _lazy_loader

_public, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        # Importing this takes longer than all else here.
        from importlib.metadata import version  # noqa: PLC0415

        return version("tonframes")
    if name == "network":
        return _import_module("tonframes.network")
    return _public(name)
