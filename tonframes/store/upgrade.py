"""Files of older versions of the schema, written again with the present one."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from tonframes.errors import warn
from tonframes.store.files import Damaged, HeldFile, write_groups
from tonframes.store.ingested import Ingested
from tonframes.store.store import Store
from tonframes.wire import schema

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path


def upgrade_store(path: str | PathLike[str]) -> list[Path]:
    """Rewrite the files of a store that an older version of tonframes has written.

    An upgrade is optional: tonframes reads and extends a store of any older version. But an engine
    that opens a folder of it as one data set, such as `polars.scan_parquet`, finds files with
    different columns until they are all of one version, and nulls where older versions of
    tonframes did not understand an answer.

    Each file is replaced as a whole, under the lock of the store. If the upgrade is interrupted,
    calling it again continues where it stopped. Other processes may read and write meanwhile.
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
    ingested = Ingested(path)
    if ingested.exists():
        return _upgrade(ingested) + (_upgrade(Store(path)) if Store(path).network else [])
    return _upgrade(Store(path))


def _upgrade(store: Store) -> list[Path]:
    store.check()
    older = [file for file in store.all_files() if _is_older(file)]
    if older:
        store.prepare()
    return [file.path for file in older if _rewrite(store, file)]


def _is_older(file: HeldFile) -> bool:
    try:
        return file.footer().schema < schema.VERSION
    except Damaged as damaged:
        warn(f"{file.path} {damaged.reason}: left as it is")
        return False


def _rewrite(store: Store, file: HeldFile) -> bool:
    """Rewrite a file and return True; a damaged file is left as it is."""
    with store.exclusive():
        store.raise_version()
        try:
            footer = file.check()
            present = replace(footer, schema=schema.VERSION, tonframes=version("tonframes"))
            write_groups(file.path, file.table, file.groups(file.table.schema.names), present)
        except Damaged as damaged:
            warn(f"{file.path} {damaged.reason}: left as it is")
            return False
    return True
