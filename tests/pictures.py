"""Pictures of plots, to compare with and to look at. `make baseline` draws them anew."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from drawn import draw, six_hours

import tonframes as tf

FOLDER = Path(__file__).parent / "plots" / "baseline"
#: The same pictures on every machine: the font is the one that matplotlib brings.
SETTINGS = {
    "font.family": "DejaVu Sans",
    "text.hinting": "none",
    "figure.dpi": 60,
    "savefig.dpi": "figure",
}
GRID = ["fees by operation", "gas", "failures", "activity by block", "flows", "trace"]
#: The pictures: what is drawn, and of which rows.
PICTURES = [*GRID, "fees by hour", "activity", "gas by hour", "gas by operation", "grid", "narrow"]


def picture(name, frames, hours):
    """Return the figure of a picture."""
    if name in {"fees by hour", "gas by hour"}:
        return draw(name, *hours).figure
    if name not in {"grid", "narrow"}:
        return draw(name, *frames).figure
    size = (12, 12) if name == "grid" else (8, 9)
    figure, grid = plt.subplots(3, 2, figsize=size, layout="constrained")
    for ax, part in zip(grid.flat, GRID, strict=True):
        draw(part, *frames, ax=ax)
    return figure


def save(name, folder, frames, hours):
    """Draw a picture into a folder, with the same settings everywhere, and return its path."""
    path = folder / f"{name.replace(' ', '-')}.png"
    with plt.style.context(["default", SETTINGS]):
        figure = picture(name, frames, hours)
        figure.savefig(
            path, dpi=45 if name in {"grid", "narrow"} else 60, metadata={"Software": None}
        )
        plt.close(figure)
    return path


def main():
    mpl.use("Agg")
    blocks = tf.read_blocks(tf.sample())
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        save(name, FOLDER, (blocks.transactions, blocks.messages), six_hours())


if __name__ == "__main__":
    main()
