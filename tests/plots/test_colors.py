"""Colours: the palette for all eyes and for greyscale print, and colours of the user."""

from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pytest
from drawn import luminance, named
from matplotlib.figure import Figure

from tonframes.plots import colors, plot_activity, plot_failures, plot_fees, plot_flows, plot_gas
from tonframes.plots.colors import MAIN, MIDDLE, PALETTE, SHADES

#: What people with a kind of colour blindness see, in linear RGB. Machado, Oliveira and Fernandes,
#: A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009, severity 1.
SEEN = {
    "all colours": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def lab(color, seen):
    """Return a colour as somebody sees it, in CIE L*a*b* (D65)."""
    levels = np.array(mpl.colors.to_rgb(color))
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(seen @ linear, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", SEEN)
def test_everybody_can_tell_the_colours_apart(kind):
    # A difference of 2.3 can just be noticed between two large areas.
    seen = np.array(SEEN[kind])
    apart = {
        (one, other): np.linalg.norm(lab(one, seen) - lab(other, seen))
        for one, other in combinations(PALETTE, 2)
    }
    assert min(apart.values()) > 14, min(apart, key=apart.get)


def test_all_colours_show_on_white():
    assert all(1.05 / (luminance(color) + 0.05) > 1.9 for color in PALETTE)


def test_neighbours_in_a_stack_differ_in_greyscale_print():
    lightness = [116 * luminance(color) ** (1 / 3) - 16 for color in PALETTE]
    assert min(abs(one - other) for one, other in pairwise(lightness)) >= 8


def test_the_main_colour_shows_on_white_and_on_black():
    light = luminance(MAIN) + 0.05
    assert 1.05 / light >= 3
    assert light / 0.05 >= 3


def test_shades_become_darker():
    assert all(luminance(one) > 1.4 * luminance(other) for one, other in pairwise(SHADES))


def test_the_middle_has_the_same_contrast_with_black_and_white():
    assert pytest.approx(1.05 / (MIDDLE + 0.05), rel=0.01) == (MIDDLE + 0.05) / 0.05
    assert colors.luminance((0.2, 0.5, 0.9)) == pytest.approx(luminance((0.2, 0.5, 0.9)))


def faces(ax):
    return {bars.get_label(): mpl.colors.to_hex(bars[0].get_facecolor()) for bars in ax.containers}


def test_parts_have_the_colours_of_the_user(few, frames):
    drawn = faces(plot_fees(*few, by="operation", colors={"gas": "black", "forwarding": "red"}))
    assert (drawn["gas"], drawn["forwarding"]) == ("#000000", "#ff0000")
    assert drawn["storage"] == "#e69f00"
    drawn = faces(plot_failures(frames[0], colors=["black", "tab:red"]))
    assert drawn["action"] == "#d62728"
    drawn = faces(plot_activity(*few, by="operation", colors=("black", "red", "blue")))
    assert drawn["messages in"] == "#ff0000"


def test_single_colours_and_shades_are_those_of_the_user(few):
    ax = plot_gas(few[0], colors=["red"])
    assert {mpl.colors.to_hex(bar.get_facecolor()) for bar in ax.patches} == {"#ff0000"}
    (mesh,) = plot_flows(few[1], colors=["white", "red"]).collections
    assert mpl.colors.to_hex(mesh.cmap(1.0)) == "#ff0000"


def test_shades_start_at_the_background_in_every_style():
    light, dark = Figure().subplots(), Figure().subplots()
    dark.xaxis.label.set_color("white")
    assert colors.ramp(light) == SHADES
    assert colors.ramp(dark) == SHADES[::-1]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"gsa": "red"}, ValueError, r"plot_fees draws nothing that is called 'gsa'.*'gas'"),
        ({"gas": "rde"}, ValueError, "plot_fees: matplotlib knows no colour 'rde'"),
        (["red"] * 10, ValueError, "plot_fees draws 9 parts at most: colors= has 10 colours"),
        ("red", TypeError, "plot_fees takes a list of colours as colors=, not 'red'"),
        ([], TypeError, r"plot_fees takes a list of colours as colors=, not \[\]"),
    ],
)
def test_wrong_colours_raise(given, error, message, few):
    with pytest.raises(error, match=message):
        plot_fees(*few, by="operation", colors=given)


def test_a_mapping_that_is_changed_later_changes_no_plot(few):
    mine = {"gas": "red"}
    ax = plot_fees(*few, by="operation", colors=mine)
    assert mine == {"gas": "red"}
    assert mpl.colors.to_hex(named(ax, "gas")[0].get_facecolor()) == "#ff0000"
