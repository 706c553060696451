"""Plots of what the helpers compute: frames in, matplotlib Axes out.

Every function draws on `ax`, or on a new figure if `ax` is None, and returns the Axes. Everything
else is done with matplotlib: ``plot_fees(…).figure.savefig("fees.pdf")``. The current style sets
the font, the colour of text and the background. The colours of the data are the same in all
styles; `colors=` sets others.

A new figure is as high as its rows need, and a notebook shows it in its own theme. Plots need a
layout engine for the room that their names and keys take: new figures have matplotlib's constrained
layout, and a figure of yours without an engine gets it.

The modules: `fees`, `gas`, `failures`, `activity`, `flows` and `trace` have the plots. They share::

    axes          Axes with two spines, few ticks, names of rows, a title and a key
    figure        new figures, which follow the theme of a notebook
    labels        the frame of a helper, and its columns, groups, addresses and numbers as text
    marks         stacked bars, stacked steps
    times         periods on the x axis
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
