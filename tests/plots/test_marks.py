"""Names at the ends of lines."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tonframes.plots.marks import moved_apart, name_ends


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 0.5))
def test_names_are_moved_apart_in_order_and_stay_inside(places, step):
    found = moved_apart(np.array(sorted(places)), step)
    least = min(step, 1 / max(len(places) - 1, 1))
    assert (np.diff(found) >= least - 1e-9).all()
    assert found.min() >= -1e-9
    assert found.max() <= 1 + 1e-9


def test_names_that_do_not_overlap_stay_where_they_are():
    assert moved_apart(np.array([0.1, 0.5, 0.9]), 0.2).tolist() == [0.1, 0.5, 0.9]


def test_lines_to_names_end_before_the_names():
    figure = Figure(figsize=(4, 3))
    ax = figure.subplots()
    names = dict.fromkeys(("gas", "storage", "forwarding"), 0.01)
    name_ends(ax, names, dict.fromkeys(names, "red"))
    figure.draw_without_rendering()
    lines = [text.arrow_patch.get_window_extent() for text in ax.texts if not text.get_text()]
    written = [text.get_window_extent() for text in ax.texts if text.get_text()]
    assert len(lines) == len(written) == 3
    assert max(line.x1 for line in lines) < min(box.x0 for box in written)
