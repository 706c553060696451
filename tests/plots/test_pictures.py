"""Plots look as in the pictures that somebody has looked at (`make baseline`)."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.testing.compare import compare_images
from pictures import FOLDER, GRID, PICTURES, save
from slow import slow

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
PINNED = re.search(r"^matplotlib==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)[1]
#: The same plots as in the grid, at other sizes.
ONCE = [*GRID, "narrow"]
TOLERANCE = 4  # root mean square of the difference, of 255: edges of letters differ by machine


@pytest.mark.skipif(mpl.__version__ != PINNED, reason=f"pictures are drawn by matplotlib {PINNED}")
@pytest.mark.parametrize("name", [name for name in PICTURES if name not in ONCE] + slow(*ONCE))
def test_plots_look_as_in_their_pictures(name, frames, hours, tmp_path):
    found = save(name, tmp_path, frames, hours)
    difference = compare_images(str(FOLDER / found.name), str(found), TOLERANCE)
    assert difference is None, difference


def test_every_picture_is_of_a_plot():
    known = {f"{name.replace(' ', '-')}.png" for name in PICTURES}
    assert {path.name for path in FOLDER.glob("*.png")} == known
