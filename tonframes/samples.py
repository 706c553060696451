"""The sample stores: made-up data for learning."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from tonframes.errors import shorten

Sample: TypeAlias = Literal["blocks", "histories"]

#: The folder of each sample: in the wheel within the package, in the repository within `data`.
FOLDERS: dict[Sample, str] = {"blocks": "sample", "histories": "histories"}


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
    if not isinstance(name, str) or name not in FOLDERS:
        there_are = ", ".join(FOLDERS)
        raise ValueError(f"there is no sample {shorten(name)}: name one of {there_are}")
    package = Path(__file__).parent
    installed = package / FOLDERS[name]
    return installed if installed.is_dir() else package.parent / "data" / FOLDERS[name]
