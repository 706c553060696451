"""Every kind of plot, and what can be read from one that is drawn."""

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from chain import synthetic_blocks

import tonframes as tf
from tonframes.plots import (
    plot_activity,
    plot_failures,
    plot_fees,
    plot_flows,
    plot_gas,
    plot_trace,
)

#: The trace of a jetton transfer, within the first rows of the sample.
TRANSFER = "LGrGL9GEJdOiqsrnRQub/Z9D13yzm8YJzmNKi8SXsJI="
#: Every kind of plot: a function and its options.
PLOTS = {
    "fees": (plot_fees, {}),
    "fees by hour": (plot_fees, {"by": "hour"}),
    "fees by week": (plot_fees, {"by": "week"}),
    "fees by operation": (plot_fees, {"by": "operation"}),
    "fees by two": (plot_fees, {"by": ["account", "descr"], "top": 20}),
    "gas": (plot_gas, {}),
    "gas by hour": (plot_gas, {"by": "hour"}),
    "gas by day": (plot_gas, {"by": "day"}),
    "gas by month": (plot_gas, {"by": "month"}),
    "gas by code": (plot_gas, {"by": "account_state_code_hash_before"}),
    "gas by operation": (plot_gas, {"by": "operation"}),
    "failures": (plot_failures, {}),
    "all failures": (plot_failures, {"top": 40}),
    "failures by hour": (plot_failures, {"by": "hour"}),
    "failures by month": (plot_failures, {"by": "month"}),
    "failures by operation": (plot_failures, {"by": "operation"}),
    "activity": (plot_activity, {}),
    "activity by week": (plot_activity, {"by": "week"}),
    "activity by block": (plot_activity, {"by": "mc_block_seqno"}),
    "activity by operation": (plot_activity, {"by": "operation"}),
    "activity by account": (plot_activity, {"by": "account"}),
    "flows": (plot_flows, {}),
    "trace": (plot_trace, {"trace_id": TRANSFER}),
}
TABLES = ("transactions", "messages")


def draw(name, transactions, messages, **options):
    plot, more = PLOTS[name]
    given = [messages] if plot in (plot_flows, plot_trace) else [transactions, messages]
    return plot(*given, **more, **options)


def six_hours():
    """Return six hours with a gap, in frames whose index is not in order."""
    tables = {name: [] for name in TABLES}
    for hour in (0, 1, 2, 5):
        start = 1_780_000_200 + 3600 * hour
        for answer in synthetic_blocks(2, seed=hour, start=start, transactions_per_block=20):
            for name in TABLES:
                tables[name].append(tf.parse_blocks(answer).arrow(name))
    return tuple(pa.concat_tables(tables[name]).to_pandas() for name in TABLES)


def texts(labels):
    return [label.get_text() for label in labels]


def named(ax, name):
    """Return the bars or steps that have this name in the legend."""
    return next(c for c in [*ax.containers, *ax.patches] if c.get_label() == name)


def lengths(ax):
    """Return the total length of the bars of each row."""
    rows = np.zeros(len(ax.get_yticks()))
    for bars in ax.containers:
        for bar in bars:
            rows[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    return rows


def luminance(color):
    """Return the relative luminance of a colour (WCAG 2.2)."""
    levels = np.array(mpl.colors.to_rgb(color))
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
