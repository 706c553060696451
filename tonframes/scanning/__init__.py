"""A store, or the public lake, as the lazy frames of an engine.

The modules, from what users call down to filters::

    export      rows of ours are written as files of the lake
    scan        scan, and the object that every helper takes like a Blocks
    held        which files of a store have the rows that are asked for
    lake        which files of the lake have them
    engines     files as the lazy frame of each engine
    rows        the rows of the lake through pyarrow
    form        the columns of the lake, and how ours are made of them
    asked       what is asked for, as a filter of each engine
"""

from tonframes.scanning.export import to_lake
from tonframes.scanning.scan import Scan, scan

__all__ = ["Scan", "scan", "to_lake"]
