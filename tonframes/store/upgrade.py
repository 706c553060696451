"""Files of older versions of the schema, written again with the present one."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from tonframes.errors import warn
from tonframes.store.digest import digest
from tonframes.store.files import Damaged, HeldFile, write
from tonframes.store.store import Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


def upgrade_store(path: str | PathLike[str]) -> list[Path]:
    """Rewrite the files of a store that an older version of tonframes has written.

    There is no need to: tonframes reads and extends a store of any older version. But an engine
    that opens a folder of it as one data set, such as `polars.scan_parquet`, finds files with
    different columns until they are all of one version.

    Each file is replaced as a whole, under the lock of the store. If the upgrade is interrupted,
    calling it again goes on where it stopped. Other processes may read and write meanwhile.
    Afterwards an older tonframes refuses the store.

    Parameters
    ----------
    path
        A store.

    Returns
    -------
    The files that were rewritten.

    Raises
    ------
    StoreError
        There is no store at `path`, a newer tonframes has written to it, or it cannot be written
        to.

    Warns
    -----
    TonframesWarning
        A damaged file was left as it is.

    Examples
    --------
    >>> import tonframes as tf
    >>> upgrade_store(tf.sample())  # has the present version
    []
    """
    store = Store(path)
    store.check()
    rewritten = []
    for file in store.all_files():
        try:
            if file.footer().schema == schema.VERSION:
                continue
            with store.exclusive():
                store.raise_version()
                _rewrite(file)
        except Damaged as damaged:
            if os.path.lexists(file.path):  # no other process has set it aside
                warn(f"{file.path} {damaged.reason}: left as it is")
            continue
        rewritten.append(file.path)
    return rewritten


def _rewrite(file: HeldFile) -> None:
    footer = file.check()
    rows = file.read(file.table.schema.names)
    present = replace(
        footer, schema=schema.VERSION, tonframes=version("tonframes"), digest=digest(rows)
    )
    write(file.path, file.table, rows, present)
