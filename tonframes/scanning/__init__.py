"""A store, or the public lake, as the lazy frames of an engine.

The modules, from what users call down to filters::

    scan        scan, and the object that every helper takes like a Blocks
    held        which files of a store have the rows that are asked for
    lake        which files of the lake have them
    engines     files as the lazy frame of each engine
    form        the columns of the lake, and how ours are made of them
    asked       what is asked for, as a filter
"""

from tonframes.scanning.scan import Scan, scan

__all__ = ["Scan", "scan"]
