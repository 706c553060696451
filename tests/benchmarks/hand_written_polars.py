"""The helpers as queries that somebody who knows polars writes by hand.

`bench_engines.py` compares the helpers with them, and `test_hand_written.py` shows that both return
the same rows. They take transactions and messages as LazyFrames. They check nothing, and their sums
may overflow.
"""

from __future__ import annotations

import polars as pl

from tonframes.network.prices import GAS_LIMIT

CODE = "account_state_code_hash_before"

c = pl.col
when = pl.when
EXCHANGED = (
    (c("block_workchain") == -1)
    & (c("compute_gas_used") == 0)
    & (c("compute_gas_fees") > 0)
    & (c("compute_vm_steps") > 0)
).fill_null(value=False)

# ── fees ─────────────────────────────────────────────────────────────────────────────────────────


def fees(transactions):
    """Add the parts of the fees."""
    free = c("compute_skipped").fill_null(value=False) | EXCHANGED
    known = c("compute_skipped") | ~c("compute_success") | c("action_success").is_not_null()
    rows = transactions.with_columns(
        external=(c("compute_gas_credit") > 0).fill_null(value=False),
        storage=c("storage_fees_collected"),
        bounce_fees=c("bounce_msg_fees").fill_null(0),
        due=c("credit_due_fees_collected").fill_null(0),
        gas=when(free).then(0).otherwise(c("compute_gas_fees")),
        recorded=when(known).then(c("action_total_action_fees").fill_null(0)),
    )
    parts = c("storage") + c("gas") + c("bounce_fees") + c("due")
    rows = rows.with_columns(before=c("total_fees") - parts)
    early = (c("now") < 1703116800) | ((c("action_result_code") == 50) & (c("now") < 1746662400))
    undone = ~c("action_success") & (c("external") | (c("before") == 0)) & early
    rows = rows.with_columns(action=when(undone).then(0).otherwise(c("recorded")))
    rows = rows.with_columns(rest=c("before") - c("action"))
    zero = c("rest") * 0
    return rows.with_columns(
        when(c("external")).then(c("rest")).otherwise(zero).alias("import"),
        when(c("external")).then(zero).otherwise(c("rest")).alias("residual"),
    )


def fee_breakdown(transactions, _):
    return fees(transactions).select(
        "hash", "storage", "gas", "action", "import", "due", "residual",
        bounce="bounce_fees", total="total_fees", complete=c("rest").is_not_null(),
    )  # fmt: skip


def fee_summary(transactions, messages):
    sent = messages.filter(c("direction") == "out").group_by("tx_hash")
    rows = fees(transactions).join(
        sent.agg(fwd_fees=c("fwd_fee").sum()), left_on="hash", right_on="tx_hash", how="left"
    )
    unsure = ("storage", "gas", "action", "import", "residual")
    sums = rows.group_by("account").agg(
        pl.len().cast(pl.Int64).alias("transactions"),
        c(*unsure, "bounce_fees", "due", "total_fees", "fwd_fees").sum(),
        *(c(name).count().alias(f"{name}_known") for name in unsure),
    )
    sums = sums.with_columns(
        when(c(f"{name}_known") > 0).then(c(name)).alias(name) for name in unsure
    )
    parts = pl.sum_horizontal(*unsure, "bounce_fees", "due", ignore_nulls=True)
    sums = sums.with_columns(unknown=c("total_fees") - parts, cost=c("total_fees") + c("fwd_fees"))
    return sums.select(
        "account", "transactions", *unsure, "due", "unknown", "total_fees", "fwd_fees", "cost",
        bounce="bounce_fees", share=c("cost") / c("cost").sum(),
    ).sort("cost", "account", descending=[True, False])  # fmt: skip


def check_fees(transactions, _):
    rows = fees(transactions).with_columns(
        difference=when(c("import") < 0)
        .then(c("import"))
        .when(~(c("external") & (c("import") != 0)))
        .then(c("residual"))
    )
    difference = c("difference")
    verdict = when(difference.is_null()).then(pl.lit("unknown"))
    why = when(difference != 0).then(pl.lit("the parts do not add up to total_fees"))
    why = why.when(c("rest").is_null()).then(pl.lit("phases are missing"))
    return rows.select(
        "hash",
        "account",
        "difference",
        verdict=verdict.when(difference == 0).then(pl.lit("ok")).otherwise(pl.lit("violated")),
        why=why.when(difference.is_null()).then(
            pl.lit("no field has the fee for importing the message")
        ),
    )


# ── gas ──────────────────────────────────────────────────────────────────────────────────────────


def calls(transactions):
    """Add the gas of calls, their fee, and whether they were skipped or free."""
    rows = transactions.with_columns(
        used=when(EXCHANGED).then(c("compute_gas_fees")).otherwise(c("compute_gas_used")),
        fee=when(EXCHANGED).then(c("compute_gas_used")).otherwise(c("compute_gas_fees")),
        skipped=c("compute_skipped").fill_null(value=False),
    )
    rows = rows.with_columns(gas=when(~c("skipped")).then(c("used")))
    free = (c("block_workchain") == -1) & (c("fee") == 0) & c("gas").is_not_null()
    return rows.with_columns(free=free)


def gas_summary(transactions, _):
    ran = c("gas").is_not_null()
    counts = calls(transactions).group_by(CODE, "gas").agg(
        transactions=pl.len().cast(pl.Int64),
        skipped=c("skipped").sum().cast(pl.Int64),
        free=c("free").sum().cast(pl.Int64),
        gas_fees=c("fee").sum(),
        vm_steps=c("compute_vm_steps").sum(),
    )  # fmt: skip
    counts = counts.with_columns(calls=when(ran).then("transactions").otherwise(0))
    counts = counts.with_columns(
        gas_used=c("gas") * c("calls"),
        of=c("calls").sum().over(CODE),
        up_to=c("calls").cum_sum().over(CODE, order_by="gas"),
        bounded=when(c("calls") > c("free")).then("gas"),
        gas_fees=when(ran).then("gas_fees"),
        vm_steps=when(ran).then("vm_steps"),
    )
    groups = counts.with_columns(
        gas_median=when(c("up_to") * 100 >= c("of") * 50).then("gas"),
        gas_p95=when(c("up_to") * 100 >= c("of") * 95).then("gas"),
    ).group_by(CODE).agg(
        c("transactions", "calls", "skipped", "free", "gas_used", "gas_fees", "vm_steps").sum(),
        c("gas_median", "gas_p95").min(),
        c("bounded").max(),
        gas_max=c("gas").max(),
    )  # fmt: skip
    known = (c("calls") > 0) | (c("skipped") > 0)
    groups = groups.with_columns(
        when(known).then(c(name)).alias(name) for name in ("gas_used", "gas_fees", "vm_steps")
    )

    def ratio(name, of):
        return c(name) / when(c(of) != 0).then(c(of))

    return groups.select(
        CODE, "transactions", "calls", "skipped", "free", "gas_used", "gas_median", "gas_p95",
        "gas_max", "gas_fees", "vm_steps",
        gas_mean=ratio("gas_used", "calls"),
        price_per_gas=ratio("gas_fees", "gas_used"),
        limit_use_max=c("bounded") / (c("bounded") * 0 + GAS_LIMIT),
        gas_per_step=ratio("gas_used", "vm_steps"),
    ).sort("gas_fees", CODE, descending=[True, False], nulls_last=True)  # fmt: skip


def gas_outliers(transactions, _):
    kind = [CODE, "compute_gas_credit"]
    rows = calls(transactions).filter(c("gas").is_not_null() & c(CODE).is_not_null())
    rows = rows.select("hash", "account", "lt", "now", *kind, gas_used="gas")
    counts = rows.group_by(*kind, "gas_used").agg(count=pl.len().cast(pl.Int64))
    counts = counts.with_columns(
        of=c("count").sum().over(kind), up_to=c("count").cum_sum().over(kind, order_by="gas_used")
    )
    usual = counts.group_by(kind).agg(
        gas_median=c("gas_used").filter(c("up_to") * 2 >= c("of")).min(), calls=c("of").max()
    )
    rows = rows.join(usual.filter(c("calls") >= 20), on=kind, nulls_equal=True)
    rows = rows.filter(c("gas_used") > c("gas_median") * 1.5)
    median = when(c("gas_median") != 0).then(c("gas_median"))
    rows = rows.with_columns(ratio=c("gas_used") / median)
    return rows.sort("ratio", "hash", descending=[True, False], nulls_last=True)


# ── activity, storage ────────────────────────────────────────────────────────────────────────────


def activity(transactions, messages):
    come = c("direction") == "in"
    outside = c("source").is_null() | c("destination").is_null()
    arrived = come & ~outside
    traffic = messages.select(
        "tx_hash",
        messages_in=come,
        messages_out=~come,
        external=outside,
        internal=arrived,
        value=when(arrived).then("value"),
    )
    traffic = traffic.group_by("tx_hash").agg(pl.all().sum())
    used = when(EXCHANGED).then("compute_gas_fees").otherwise(c("compute_gas_used").fill_null(0))
    rows = transactions.select(
        "hash", "account", "total_fees", hour=c("now") // 3600 * 3600_000_000, gas_used=used
    ).join(traffic, left_on="hash", right_on="tx_hash", how="left")
    counts = ("messages_in", "messages_out", "external", "internal")
    return rows.group_by("hour").agg(
        c(*counts).sum().cast(pl.Int64),
        c("value", "gas_used", "total_fees").sum(),
        transactions=pl.len().cast(pl.Int64),
        accounts=c("account").n_unique().cast(pl.Int64),
    ).with_columns(c("hour").cast(pl.Datetime("us", "UTC"))).sort("hour")  # fmt: skip


def flows(_, messages):
    rows = messages.filter(c("source").is_not_null() & c("destination").is_not_null())
    rows = rows.select("msg_hash", "source", "destination", "value", "bounced").unique("msg_hash")
    back, value = c("bounced").fill_null(value=False), c("value").fill_null(0)
    rows = rows.select(
        "source",
        "destination",
        messages=~back,
        value=when(back).then(0).otherwise(value),
        bounced=back,
        bounced_value=when(back).then(value).otherwise(0),
    )
    pairs = rows.group_by("source", "destination").agg(
        c("messages", "bounced").sum().cast(pl.Int64), c("value", "bounced_value").sum()
    )
    order = ["value", "source", "destination"]
    return pairs.sort(order, descending=[True, False, False])


#: The queries by the names of `bench_engines.HELPERS`.
QUERIES = {
    query.__name__: query
    for query in (
        fee_breakdown,
        fee_summary,
        check_fees,
        gas_summary,
        gas_outliers,
        activity,
        flows,
    )
}
