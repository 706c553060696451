"""Typed tables of the TON blockchain, from a TON index service to pandas and Parquet.

`__init__.pyi` lists the public names. Each is imported when it is first used, so that
`import tonframes` is quick, and needs neither matplotlib nor an engine that nobody asks for.
"""

from importlib.metadata import version as _version

import lazy_loader as _lazy_loader

__version__ = _version("tonframes")
__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
