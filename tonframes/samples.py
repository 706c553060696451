"""The sample stores: made-up data for learning and testing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tonframes.seqnos import ranges
from tonframes.store import MADE_UP, Span, Store
from tonframes.wire import pages, schema
from tonframes.wire.tables import in_order, stamped, with_columns

if TYPE_CHECKING:
    from os import PathLike

    from tonframes.wire.record import Record

Sample: TypeAlias = Literal["blocks", "histories"]

#: The folder of each sample: in the wheel within the package, in the repository within `data`.
FOLDERS: dict[Sample, str] = {"blocks": "sample", "histories": "histories"}
#: How many blocks and accounts the sample of blocks holds. Accounts are read half way and at the
#: end.
BLOCKS, ACCOUNTS = 120, 300
#: After how many weeks the sample of histories is fetched, before the end: 4 May.
FETCHED = (6,)
#: Network of the samples.
NETWORK = "-217"


def sample(name: Sample = "blocks") -> Path:
    """Return the path of a sample store.

    Both are made up by the rules of the real network, for learning and testing. Names and amounts
    have no meaning.

    Parameters
    ----------
    name
        Which one:

        - blocks: 120 masterchain blocks, which are four minutes, and the states of 300 accounts at
          two times. For `read_blocks` and `read_accounts`.
        - histories: all transactions of an exchange, a jetton, a game and some wallets from
          23 March to 21 June 2026, and their states at two times. For `read_transactions` and
          `read_accounts`. On 3 May the network lowers its prices, on 19 May the exchange gets new
          code, on 28 May many swaps fail, and the game fades.

    Raises
    ------
    ValueError
        There is no sample of this name.

    Examples
    --------
    >>> import tonframes as tf
    >>> tf.read_blocks(tf.sample()).transactions.total_fees.dtype
    dtype('int64')
    >>> history = tf.read_transactions(tf.sample("histories"))
    >>> history.transactions.block_time.dt.month.unique().tolist()
    [3, 4, 5, 6]
    """
    if name not in FOLDERS:
        raise ValueError(f"there is no sample {name!r}: name one of {', '.join(FOLDERS)}")
    package = Path(__file__).parent
    installed = package / FOLDERS[name]
    return installed if installed.is_dir() else package.parent / "data" / FOLDERS[name]


def write_sample(name: Sample, path: str | PathLike[str]) -> None:
    """Write a sample store; the result is the same every time.

    Parameters
    ----------
    name
        Which one, as in `sample`.
    path
        A folder that does not exist yet.
    """
    if name == "blocks":
        _write_blocks(Store(path))
    else:
        write_histories(Store(path))


def _write_blocks(store: Store) -> None:
    from tonframes.synthetic import Chain  # noqa: PLC0415 - reading the sample does not need it

    chain = Chain()
    store.claim(NETWORK, MADE_UP)
    addresses: list[str] = []
    for _ in range(2):
        read = [_page(schema.BLOCKS_ANSWER, chain.next_block()) for _ in range(BLOCKS // 2)]
        tables = in_order(pages.blocks_tables(read))
        moment = datetime.fromtimestamp(chain.now, UTC)
        seqnos = ranges(tables["blocks"]["mc_block_seqno"].to_pylist())
        store.write_blocks(stamped(tables, moment), seqnos, proof="synthetic")
        if not addresses:
            everyone = chain.account_states(include_boc=False)["accounts"]
            addresses = sorted(account["address"] for account in everyone)[:ACCOUNTS]
        _write_states(store, chain.account_states(addresses), moment)


def write_histories(store: Store, *, weeks: int | None = None) -> None:
    """Write the sample of histories, or its first weeks."""
    from tonframes.synthetic import life as lives  # noqa: PLC0415 - as above

    life = lives.Life(weeks=weeks or lives.WEEKS)
    store.claim(NETWORK, MADE_UP)
    stops = [life.start + number * lives.WEEK for number in FETCHED]
    last: dict[str, tuple[int, int]] = {}
    for stop in [*(second for second in stops if second < life.stop), life.stop]:
        moment = datetime.fromtimestamp(stop, UTC)
        tables = in_order(pages.blocks_tables([_page(schema.BLOCKS_ANSWER, life.run(stop))]))
        columns = (tables["transactions"][name].to_pylist() for name in ("account", "lt", "now"))
        last |= {address: (lt, now) for address, lt, now in zip(*columns, strict=True)}
        # After the last transaction of an account there is none until now.
        none = {a: [Span(lt + 1, lt + 1, now, stop)] for a, (lt, now) in last.items()}
        store.write_histories(stamped(tables, moment), none)
        _write_states(store, life.account_states(), moment)


def _write_states(store: Store, answer: object, moment: datetime) -> None:
    tables = stamped(pages.accounts_tables([_page(schema.ACCOUNTS_ANSWER, answer)]), moment)
    tables["accounts"] = with_columns(tables["accounts"], with_boc=True)
    store.write_accounts(tables)


def _page(record: Record, answer: object) -> pages.Page:
    return pages.read(record, json.dumps(answer).encode())
