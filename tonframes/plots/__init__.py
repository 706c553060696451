"""Pictures of what the helpers computed: a frame in, matplotlib Axes out.

Every function draws on `ax`, or on a new figure where there is none, and gives the Axes back, so
that all else can be said with matplotlib: ``plot_fees(…).figure.savefig("fees.pdf")``. A legend
stands to the right of the Axes: figures of your own want ``layout="constrained"``.

Text, spines and outlines have the colours of the style in force. Fills differ by lightness first,
so that they stay apart in print, and hold on a light, a dark and a transparent ground.
"""

from tonframes.plots.activity import plot_activity
from tonframes.plots.failures import plot_failures
from tonframes.plots.fees import plot_fees
from tonframes.plots.flow import plot_flow
from tonframes.plots.gas import plot_gas

__all__ = ["plot_activity", "plot_failures", "plot_fees", "plot_flow", "plot_gas"]
