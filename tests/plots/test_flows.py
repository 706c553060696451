"""Flows: the matrix of senders and receivers."""

import numpy as np
import pytest
from drawn import luminance

from tonframes import flows
from tonframes.plots import plot_flows


def test_the_matrix_adds_up_to_the_value_sent(frames):
    ax = plot_flows(frames[1], top=5)
    (mesh,) = ax.collections
    pairs = flows(frames[1])
    total = sum(map(int, pairs.value))
    cells = mesh.get_array()
    assert cells.shape == (6, 6)
    assert cells.sum() == pytest.approx(total / 1e9, rel=1e-12)
    sent = pairs.assign(value=[int(value) for value in pairs.value]).groupby("source").value.sum()
    largest = sorted(sent, reverse=True)[:5]
    np.testing.assert_allclose(cells.sum(axis=1)[:5], [value / 1e9 for value in largest])


def test_numbers_are_readable_on_their_fills(frames):
    ax = plot_flows(frames[1])
    (mesh,) = ax.collections
    for text in ax.texts:
        column, row = text.get_position()
        fill = mesh.cmap(mesh.norm(mesh.get_array()[int(row), int(column)]))
        light, dark = sorted([luminance(fill), luminance(text.get_color())], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
