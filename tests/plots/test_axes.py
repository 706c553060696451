"""Axes: their title, their key, and the layout of the figure of the user."""

import pickle

import matplotlib.pyplot as plt

from tonframes.plots import plot_fees, plot_gas


def test_a_title_of_the_user_replaces_ours(few):
    ax = plot_fees(*few, by="operation")
    ax.set_title("Mine")
    assert [ax.get_title(side) for side in ("left", "center", "right")] == ["", "Mine", ""]


def test_axes_can_be_drawn_on_twice(few):
    ax = plot_fees(*few, by="operation")
    plot_fees(*few, by="account", ax=ax)
    assert ax.get_title() == "Cost of transactions by account"


def test_figures_can_be_pickled(few):
    figure = plot_fees(*few, by="operation").figure
    assert pickle.loads(pickle.dumps(figure)).axes[0].get_title()


def test_a_figure_without_a_layout_engine_gets_one(few):
    figure, ax = plt.subplots()
    plot_fees(*few, by="operation", ax=ax)
    assert figure.get_constrained_layout()
    figure.set_layout_engine("tight")
    figure.draw_without_rendering()


def test_axes_without_a_place_in_a_grid_leave_the_layout_as_it_is(few):
    figure = plt.figure()
    plot_gas(*few, ax=figure.add_axes((0.2, 0.2, 0.6, 0.6)))
    assert figure.get_layout_engine() is None


def test_the_figure_of_the_user_keeps_its_layout_engine(few):
    figure, ax = plt.subplots(layout="tight")
    engine = figure.get_layout_engine()
    plot_gas(*few, ax=ax)
    assert figure.get_layout_engine() is engine
