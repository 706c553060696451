"""The Parquet store: files that any engine can open, each whole or not there.

::

    store/
      network.json                                        which network; a store never mixes two
      transactions/00049000000-00049000100.parquet        half-open ranges of masterchain seqnos
      messages/…  blocks/…                                the same ranges
      accounts/20261121T094500.123456Z-6b1f0a2c.parquet   snapshots, appended and never changed
      address_book/…  metadata/…
      damaged/…                                           files that were set aside
      .lock                                               held while something is written

There is no manifest: names and footers are the truth. Files of one folder never overlap and never
cross a multiple of `SPAN`, so a folder is one data set without doubled rows. A file is written
under a name that data sets ignore, flushed to the disk and renamed; the transactions file comes
last and is the commit of its range, and the first to go when one is set aside.

The rooms, from what is asked for down to bytes::

    views       Blocks and Accounts as views of a store
    store       write to a store, and set damaged files aside
    reader      read what is held: ranges of seqnos, and snapshots
    damage      find damaged files, and set them aside
    files       one file: written completely or not at all, read with its checksums
    locks       one writer at a time
    digest      the hash of a table's content; the rows of some seqnos
"""

from tonframes.seqnos import SPAN, aligned, subtract
from tonframes.store.digest import digest, within
from tonframes.store.store import Store
from tonframes.store.views import Held, blocks_of, read_accounts, read_blocks

__all__ = [
    "SPAN",
    "Held",
    "Store",
    "aligned",
    "blocks_of",
    "digest",
    "read_accounts",
    "read_blocks",
    "subtract",
    "within",
]
