"""The store: files that any engine can open, each whole or not there.

::

    store/
      network.json                                        which network; a store never mixes two
      columns.json                                        units and meanings of the columns
      transactions/00049000000-00049000100.parquet        half-open ranges of masterchain seqnos
      messages/…  blocks/…                                the same ranges
      accounts/20261121T094500.123456Z-6b1f0a2c.parquet   snapshots, appended and never changed
      metadata/…  address_book/…                          files of the address book may be joined
      account_transactions/20261121T094500.123456Z-….parquet   transactions of accounts
      account_messages/…  histories/…                     their messages, and the spans they cover
      ingested/…                                          rows that are not proven; see `ingested`
      by_account/…                                        copies of compacted transactions, sorted
      merging/…                                           merged files until they have their places
      damaged/…                                           files that were set aside
      .lock                                               locked while something is written
      .verified                                           which files were verified

A transaction may be in `transactions` and in `account_transactions`, in each of them once.

There is no manifest: names and footers are the truth. Files of one folder never overlap, so a
folder is one data set without doubled rows. A file has a part of one span of 100 seqnos, or a whole
span of 1,000 or 10,000 that `compact_store` has made. A file is written under a name that data sets
ignore, flushed to the disk and renamed. The transactions file of a range comes last: with it the
range is held. It is the first to go when a range is set aside. Files whose names begin with a dot
belong to other programs: they are ignored, and stay.

Damage: a file has a seal of all its bytes and one of its footer (`tonframes.sealed`). The footer is
verified each time a file is opened, and a page when it is read. No file with a valid footer is
deleted unless others have its rows: it is set aside.

Versions: each file says in its footer which version of the schema its columns have, and
`network.json` says the newest of them. In rows of an older version a later column has the value of
its rule, or null. A store that a newer tonframes has written to is refused.

The modules, from what users call down to one file::

    views, history_views             rows of a store, for users
    ingest, verify, compaction       rows from elsewhere; damage; fewer and larger files
    store, bucket_store              what fetches write to, in a folder or a bucket
    ingested, ranges, writer         rows that are not proven; ranges of blocks; one commit
    histories, spans, merging        transactions of accounts; what is known of them; small files
    reader, bucket_reader, listing   which files there are, and what they hold
    damage, verified                 files that are set aside, or were found whole
    identity, locks, files           the network; one writer at a time; one file
"""

from tonframes.seqnos import SPAN, aligned, subtract
from tonframes.store.bucket_reader import open_store
from tonframes.store.bucket_store import AnyStore, BucketStore, store_at
from tonframes.store.compaction import compact_store
from tonframes.store.files import within
from tonframes.store.histories import held_spans, read_history, transactions_in, without
from tonframes.store.history_views import held_transactions, read_transactions
from tonframes.store.identity import MADE_UP, NETWORKS
from tonframes.store.ingest import ingest
from tonframes.store.reader import Reader
from tonframes.store.spans import (
    COLUMNS,
    ENDS,
    Bound,
    Link,
    Period,
    Span,
    Spans,
    Unit,
    contradict,
    differ,
    gaps_of,
    joined_spans,
    new_rows,
    spans_of,
    with_row,
)
from tonframes.store.store import Store
from tonframes.store.verify import verify_store
from tonframes.store.views import HeldRows, blocks_of, open_blocks, read_accounts, read_blocks

__all__ = [
    "COLUMNS",
    "ENDS",
    "MADE_UP",
    "NETWORKS",
    "SPAN",
    "AnyStore",
    "Bound",
    "BucketStore",
    "HeldRows",
    "Link",
    "Period",
    "Reader",
    "Span",
    "Spans",
    "Store",
    "Unit",
    "aligned",
    "blocks_of",
    "compact_store",
    "contradict",
    "differ",
    "gaps_of",
    "held_spans",
    "held_transactions",
    "ingest",
    "joined_spans",
    "new_rows",
    "open_blocks",
    "open_store",
    "read_accounts",
    "read_blocks",
    "read_history",
    "read_transactions",
    "spans_of",
    "store_at",
    "subtract",
    "transactions_in",
    "verify_store",
    "with_row",
    "within",
    "without",
]
