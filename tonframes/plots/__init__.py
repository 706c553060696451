"""Plots of what the helpers compute: frames in, matplotlib Axes out.

Every function draws on `ax`, or on a new figure if `ax` is None, and returns the Axes. Everything
else is done with matplotlib: ``plot_fees(…).figure.savefig("fees.pdf")``. The current style sets
the font, the colour of text and the background. The colours of the data are the same in all
styles; `colors=` sets others.

A new figure is as high as its rows need, and a notebook shows it in its own theme. On a figure of
yours, ``layout="constrained"`` gives all plots the room that their labels need. Without a layout
engine, each plot keeps its labels in its own part of the grid.

The modules: `fees`, `gas`, `failures`, `activity`, `flows` and `trace` have the plots. They share::

    frames        the frame of a helper becomes one of pandas
    figure        new figures, which follow the theme of a notebook
    axes          Axes with a title, two spines, few ticks, and rows with names
    layout        how much room there is for Axes and labels
    heading       the title, and a key
    labels        columns with units, groups, addresses, numbers
    marks         stacked bars, stacked steps, names at the ends of lines
    times         periods on the x axis
    tree          the messages of a trace as rows
    amounts       TON, nanoton, or a currency
    colors        the colours
"""

from tonframes.plots.activity import plot_activity
from tonframes.plots.failures import plot_failures
from tonframes.plots.fees import plot_fees
from tonframes.plots.flows import plot_flows
from tonframes.plots.gas import plot_gas
from tonframes.plots.trace import plot_trace

__all__ = [
    "plot_activity",
    "plot_failures",
    "plot_fees",
    "plot_flows",
    "plot_gas",
    "plot_trace",
]
