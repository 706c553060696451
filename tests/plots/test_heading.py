"""The title of a plot, and titles that the user sets later."""

import pickle

import pytest

from tonframes.plots import plot_fees


def boxes(ax):
    """Return the places of the title and of the key."""
    ax.figure.draw_without_rendering()
    (title,) = [text for text in (ax.title, ax._left_title, ax._right_title) if text.get_text()]
    return title.get_window_extent(), ax.get_legend().get_window_extent()


@pytest.mark.parametrize("place", ["left", "center", "right"])
def test_a_title_of_the_user_replaces_ours_and_is_above_the_key(place, few):
    ax = plot_fees(*few, by="operation")
    ours, _ = boxes(ax)
    ax.set_title("Mine", loc=place)
    mine, key = boxes(ax)
    assert [ax.get_title(side) for side in ("left", "center", "right")].count("Mine") == 1
    assert mine.y0 >= key.y1
    assert mine.y0 == pytest.approx(ours.y0, abs=1)


def test_axes_that_are_drawn_on_twice_take_a_title(few):
    ax = plot_fees(*few, by="operation")
    plot_fees(*few, by="account", ax=ax)
    ax.set_title("Mine")
    mine, key = boxes(ax)
    assert mine.y0 >= key.y1


def test_a_title_at_the_place_of_matplotlibs_own_can_be_set(few):
    ax = plot_fees(*few, by="operation")
    ax.set_title("Mine", pad=0)
    ax.set_title("Other")
    assert ax.get_title() == "Other"


def test_figures_can_be_pickled(few):
    figure = plot_fees(*few, by="operation").figure
    assert pickle.loads(pickle.dumps(figure)).axes[0].get_title("left")
