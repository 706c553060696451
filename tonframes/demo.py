"""Show the main steps: fetch, store, analyse, plot."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from tonframes.analysis.audit import check_balances
from tonframes.analysis.failures import failure_summary
from tonframes.analysis.fees import fee_summary
from tonframes.analysis.gas import gas_summary
from tonframes.atomic import replacing
from tonframes.client import Client
from tonframes.fetch import fetch_accounts, fetch_blocks
from tonframes.inert import inert
from tonframes.plots import plot_fees, plot_gas
from tonframes.samples import sample
from tonframes.service import serve
from tonframes.store import read_accounts, read_blocks

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    from matplotlib.figure import Figure

    from tonframes.frames import Blocks

#: What the demo fetches.
BLOCKS, ACCOUNTS = 50, 200
#: Longest text in a cell, in characters.
WIDEST = 28


def demo(store: str | PathLike[str]) -> Path:
    """Fetch, analyse and plot sample data over HTTP, and print every step.

    A local service answers from the sample store. Blocks and accounts are fetched from it into
    another store, and analysed.

    Parameters
    ----------
    store
        Folder of the store to fetch into.

    Returns
    -------
    Path of the picture.
    """
    start = time.monotonic()
    folder = Path(store)
    source = read_blocks(sample())
    first = source.seqnos[0].start
    addresses = read_accounts(sample()).accounts.address[:ACCOUNTS]
    say(f"1. A service on this computer answers from the sample store (synthetic): {sample()}")
    with serve(sample(), dialect="service") as url, Client(url) as client:
        say(f"   It listens on {url}")
        say(f"\n2. Fetching {BLOCKS} masterchain blocks and {ACCOUNTS} accounts into {folder}")
        blocks = fetch_blocks(
            range(first, first + BLOCKS), client=client, store=folder, progress=True
        )
        accounts = fetch_accounts(addresses, client=client, store=folder, progress=True)
        done = client.statistics
    say(f"   {done.requests} requests; what the store holds is not fetched again")
    say("\n3. The results, as typed frames")
    for name in blocks.names:
        say(f"   blocks.{name:<14} {blocks.frame(name).shape}")
    for name in accounts.names:
        say(f"   accounts.{name:<12} {accounts.frame(name).shape}")
    columns = ["block_time", "account", "total_fees", "compute_gas_used", "compute_exit_code"]
    show("blocks.transactions", blocks.transactions[columns].head())
    columns = ["direction", "source", "destination", "value", "opcode", "comment"]
    show("blocks.messages", blocks.messages[columns].head())
    show("accounts.accounts", accounts.accounts[["address", "status", "balance"]].head())
    fees = fee_summary(blocks)
    amounts = fees.drop(columns=["transactions", "share"]).T.set_axis(["nanoton"], axis=1)
    show("4. Fees, in nanoton: fee_summary", amounts)
    columns = ["operation", "calls", "gas_used", "gas_median", "gas_max", "gas_fees"]
    gas = gas_summary(blocks, by="operation")
    show("5. Operations that cost the most gas: gas_summary", gas[columns].head())
    columns = ["phase", "code", "name", "failures", "cost"]
    show(
        "6. Failures and their reasons: failure_summary",
        failure_summary(blocks)[columns].head(8),
    )
    show(
        "   Are all balances explained? check_balances",
        check_balances(blocks)["verdict"].value_counts().to_frame("transactions"),
    )
    picture = folder / "fees.png"
    with replacing(picture) as sink:
        draw(blocks).savefig(sink, format="png", dpi=150)
    say(f"\n7. A picture of the fees: {picture}")
    say(f"\nDone in {time.monotonic() - start:.1f} s. Next, in Python:\n")
    say(f"    import tonframes as tf; blocks = tf.read_blocks({str(folder)!r})")
    say("    blocks.transactions.groupby('account').total_fees.sum().nlargest()")
    return picture


def draw(blocks: Blocks) -> Figure:
    """Plot the cost of each operation, and the gas that calls use."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - tonframes is imported without matplotlib

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_fees(blocks, by="operation", top=8, ax=left)
    plot_gas(blocks, ax=right)
    figure.supxlabel(
        f"{len(blocks.transactions):,} transactions of a made-up chain", fontsize="small"
    )
    return figure


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a frame under a title."""
    texts: list[str] = frame.select_dtypes("str").columns.to_list()
    if frame.index.dtype == "str":
        frame = frame.rename(index=_shortened)
    say(f"\n{title}\n\n{frame.to_string(formatters=dict.fromkeys(texts, _shortened))}")


def _shortened(text: object) -> str:
    """Make a text inert and short: sentences lose their end, addresses and hashes their middle."""
    if not isinstance(text, str):
        return ""
    plain = inert(text)
    if " " in plain:
        return shorten(plain, WIDEST, placeholder=" …")
    return plain if len(plain) <= WIDEST else f"{plain[:10]}…{plain[-6:]}"
