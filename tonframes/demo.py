"""The main job, told step by step: fetch, keep, look, draw."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tonframes.client import Client
from tonframes.fees import PARTS, to_ton, undo_gas_exchange
from tonframes.fetch import fetch_accounts, fetch_blocks
from tonframes.sample import sample
from tonframes.service import serve
from tonframes.store import read_accounts, read_blocks

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.figure import Figure

#: What the demo fetches.
BLOCKS, ACCOUNTS = 50, 200


def demo(store: str | PathLike[str]) -> Path:
    """Do the main job over real HTTP and tell every step.

    A local service answers from the sample store; blocks and accounts are fetched from it into a
    store of their own, and looked at.

    Parameters
    ----------
    store
        The folder of that store.

    Returns
    -------
    The picture that was drawn.
    """
    start = time.monotonic()
    folder = Path(store)
    source = read_blocks(sample())
    first = source.seqnos[0].start
    addresses = read_accounts(sample()).accounts.address[:ACCOUNTS]
    say(f"1. A service on this computer answers from the sample store (made up): {sample()}")
    with serve(sample(), dialect="service") as url, Client(url) as client:
        say(f"   It listens on {url}")
        say(f"\n2. Fetching {BLOCKS} masterchain blocks and {ACCOUNTS} accounts into {folder}")
        blocks = fetch_blocks(
            range(first, first + BLOCKS), client=client, store=folder, progress=True
        )
        accounts = fetch_accounts(addresses, client=client, store=folder, progress=True)
        done = client.statistics
    say(f"   {done.requests} requests; the files are there to stay, and are not fetched again")
    say("\n3. What came, as typed frames")
    for name in blocks.names:
        say(f"   blocks.{name:<14} {blocks.frame(name).shape}")
    for name in accounts.names:
        say(f"   accounts.{name:<12} {accounts.frame(name).shape}")
    transactions = undo_gas_exchange(blocks.transactions)
    columns = ["block_time", "account", "total_fees", "compute_gas_used", "compute_exit_code"]
    show("blocks.transactions", transactions[columns].head())
    columns = ["direction", "source", "destination", "value", "opcode", "comment"]
    show("blocks.messages", blocks.messages[columns].head())
    show("accounts.accounts", accounts.accounts[["address", "status", "balance"]].head())
    show("4. Total fees by phase, in nanoton", fees_by_phase(transactions).to_frame())
    show("5. Who uses the most gas", top_gas(transactions))
    show("6. Failures by exit code", failures_by_code(transactions))
    picture = folder / "fees.png"
    draw(transactions).savefig(picture, dpi=150)
    say(f"\n7. A picture of the fees: {picture}")
    say(f"\nDone in {time.monotonic() - start:.1f} s. Next, in Python:\n")
    say(f"    import tonframes as tf; blocks = tf.read_blocks({str(folder)!r})")
    say("    blocks.transactions.groupby('account').total_fees.sum().nlargest()")
    return picture


def fees_by_phase(transactions: pd.DataFrame) -> pd.Series:
    """Sum the parts of the fees; what no phase shows is the import of external messages."""
    parts = {phase: transactions[column].sum() for phase, column in PARTS.items()}
    total = transactions.total_fees.sum()
    fees = {**parts, "import": total - sum(parts.values()), "total": total}
    return pd.Series(fees, dtype="int64", name="nanoton")


def top_gas(transactions: pd.DataFrame) -> pd.DataFrame:
    """Find the accounts that use the most gas."""
    return (
        transactions.groupby("account")
        .agg(
            transactions=("hash", "size"),
            gas_used=("compute_gas_used", "sum"),
            gas_fees=("compute_gas_fees", "sum"),
        )
        .nlargest(5, "gas_used")
    )


def failures_by_code(transactions: pd.DataFrame) -> pd.DataFrame:
    """Count aborted transactions by what they ended with."""
    failed = transactions[transactions.aborted.fillna(value=False)]
    codes = ["skipped_reason", "compute_exit_code", "action_result_code"]
    return (
        failed.groupby(codes, dropna=False)
        .agg(transactions=("hash", "size"), total_fees=("total_fees", "sum"))
        .sort_values("transactions", ascending=False)
        .reset_index()
    )


def draw(transactions: pd.DataFrame) -> Figure:
    """Draw what the fees are for, and how much gas transactions use."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - importing tonframes draws nothing

    fees = to_ton(fees_by_phase(transactions).drop("total").loc[lambda s: s > 0]).sort_values()
    gas = transactions["compute_gas_used"].fillna(0).to_numpy("int64")
    gas = gas[gas > 0]
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    bars = left.barh(fees.index, fees, color="#0a4a8f", height=0.65)
    left.bar_label(bars, [f"{amount:.4f}" for amount in fees], padding=4)
    left.set(xlabel="TON", title="What validators collected, by phase")
    left.margins(x=0.18)
    right.hist(gas, bins=np.geomspace(gas.min(), gas.max(), 41), color="#0a4a8f")
    right.set(xscale="log", yscale="log", xlabel="gas", ylabel="transactions")
    right.set_title("Gas used by a transaction")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_ha("left")
        axes.title.set_x(0)
    figure.supxlabel(f"{len(transactions):,} transactions of a made-up chain", fontsize="small")
    return figure


def say(text: str) -> None:
    """Tell a step."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(title: str, frame: pd.DataFrame) -> None:
    """Print a frame under a title."""
    texts: list[str] = frame.select_dtypes("str").columns.to_list()
    if frame.index.dtype == "str":
        frame = frame.rename(index=_shortened)
    say(f"\n{title}\n\n{frame.to_string(formatters=dict.fromkeys(texts, _shortened))}")


def _shortened(text: object) -> str:
    """Cut long texts in the middle, and keep control characters from the terminal."""
    if not isinstance(text, str):
        return ""
    plain = "".join(c if c.isprintable() else "·" for c in text)
    return plain if len(plain) <= 24 else f"{plain[:10]}…{plain[-6:]}"  # noqa: PLR2004
