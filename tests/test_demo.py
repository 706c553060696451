"""The demo tells the truth about the sample."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tonframes as tf
from tonframes.cli import main
from tonframes.demo import demo, draw

DATA = Path(__file__).parents[1] / "data"


def test_the_demo_does_the_main_job(tmp_path, capsys):
    assert main(["demo", "--store", str(tmp_path / "store")]) == 0
    picture = tmp_path / "store" / "fees.png"
    out = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    for step in (
        "1. A service",
        "2. Fetching 50 masterchain blocks and 200 accounts",
        "3. The results",
        "(1250, 100)",
        "(200, 18)",
        "4. Fees",
        "5. Operations that cost the most gas",
        "6. Failures and their reasons",
        "7. A picture",
    ):
        assert step in out
    fees = out.partition("4. Fees, in nanoton")[2].partition("5. ")[0]
    assert re.search(r"^cost +\d+$", fees, re.MULTILINE)
    assert "transactions" not in fees  # a count has no unit
    assert "share" not in fees
    assert "invalid destination address" in out  # whole, unlike addresses
    lines = re.search(r"Next, in Python:\n\n(.*)\n(.*)\n", out)
    scope: dict = {}
    exec(lines[1].strip(), scope)  # noqa: S102
    assert len(eval(lines[2].strip(), scope)) == 5  # noqa: S307
    demo(tmp_path / "store")
    assert "1 requests" not in capsys.readouterr().out


def test_the_picture_of_the_readme_is_that_of_the_demo(tmp_path):
    blocks = tf.read_blocks(tf.sample())
    fifty = tf.read_blocks(tf.sample(), range(blocks.seqnos[0].start, blocks.seqnos[0].start + 50))
    draw(fifty).savefig(tmp_path / "fees.png", dpi=150)
    drawn, kept = (plt.imread(path) for path in (tmp_path / "fees.png", DATA / "fees.png"))
    assert drawn.shape == kept.shape
    # Fonts may differ between machines by a shade; what is drawn may not.
    assert np.abs(drawn - kept).mean() < 0.01
