"""Plots of what the helpers compute: frames in, matplotlib Axes out.

Every function draws on `ax`, or on a new figure if `ax` is None, and returns the Axes. Everything
else is done with matplotlib: ``plot_fees(…).figure.savefig("fees.pdf")``. A legend is placed to the
right of the Axes. Create your own figures with ``layout="constrained"``, so that there is room for
it.

Text, spines and outlines have the colours of the current style. Fills differ in lightness, so that
they can be told apart in greyscale print and on a light, a dark and a transparent background.
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
