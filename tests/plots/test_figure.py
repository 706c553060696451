"""Figures in a notebook: transparent, and readable in its theme."""

import base64
import re
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import luminance
from matplotlib.figure import Figure

from tonframes.plots import plot_activity, plot_fees

DARK = "#111111"  # the background of JupyterLab's dark theme


@pytest.fixture(scope="module")
def figure(few):
    return plot_fees(*few, by="operation").figure


def contrast(one, other):
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def shown(figure):
    """Return the picture that a notebook shows."""
    data = re.search(r'base64,([^"]+)"', figure._repr_html_())[1]
    return plt.imread(BytesIO(base64.b64decode(data)))


def inverted(color):
    """Return a colour after the CSS filter invert(1) hue-rotate(180deg), of Filter Effects 1."""
    weights = np.tile([0.213, 0.715, 0.072], (3, 1))
    turn = 2 * weights - np.eye(3)  # cos 180° = -1, sin 180° = 0
    return np.clip(turn @ (1 - np.array(color)), 0, 1)


def test_no_colour_of_text_suits_both_themes():
    best = max(min(contrast([g] * 3, "white"), contrast([g] * 3, DARK)) for g in np.linspace(0, 1))
    assert best < 4.5


def test_a_notebook_shows_a_transparent_picture(figure):
    picture = shown(figure)
    alpha = picture[..., 3]
    assert (alpha == 0).mean() > 0.5
    corners = alpha[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert not corners.any()


def test_text_is_readable_in_the_light_and_the_dark_theme(figure):
    picture = shown(figure)
    text = picture[(picture[..., 3] > 0.99) & (picture[..., :3].max(axis=2) < 0.05)][0, :3]
    assert contrast(text, "white") >= 4.5
    assert contrast(inverted(text), DARK) >= 4.5
    page = figure._repr_html_()
    assert '[data-jp-theme-light="false"]' in page
    assert "invert(1) hue-rotate(180deg)" in page


def test_a_picture_is_sharp_and_as_large_as_the_figure(figure):
    picture = shown(figure)
    width = int(re.search(r'width="(\d+)"', figure._repr_html_())[1])
    assert abs(picture.shape[1] - 2 * width) <= 1
    assert width == pytest.approx(figure.bbox.width, rel=0.1)


def test_what_is_not_seen_is_told(few):
    ax = plot_activity(few[0].assign(wild="x"), by="wild")
    ax.set_title("<b>&")
    assert 'alt="&lt;b&gt;&amp;"' in ax.figure._repr_html_()


def test_files_are_dark_text_on_white(figure, tmp_path):
    figure.savefig(tmp_path / "fees.png")
    picture = plt.imread(tmp_path / "fees.png")
    assert picture[0, 0].tolist() == [1, 1, 1, 1]
    figure.savefig(tmp_path / "fees.pdf")
    assert (tmp_path / "fees.pdf").read_bytes().startswith(b"%PDF")


def test_a_style_with_a_background_of_its_own_is_kept(few):
    with plt.style.context("dark_background"):
        figure = plot_fees(*few, by="operation").figure
    assert figure._repr_html_() is None


def test_figures_of_the_user_stay_as_they_are(few):
    figure = Figure()
    plot_fees(*few, by="operation", ax=figure.subplots())
    assert type(figure) is Figure
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)
