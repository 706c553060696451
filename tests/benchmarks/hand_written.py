"""The helpers as queries that somebody who knows DuckDB writes by hand.

`bench_engines.py` compares the helpers with them, and `test_hand_written.py` shows that both return
the same rows. They read `transactions` and `messages`, and check nothing.
"""

from __future__ import annotations

from tonframes.network import exit_codes
from tonframes.network.contracts import CODE_KINDS, WALLET_V5
from tonframes.network.exit_codes import CONTRACT_DEFINED, CONTRACT_DEFINED_NAME
from tonframes.network.opcodes import OPCODE_NAMES
from tonframes.network.prices import GAS_LIMIT, STORAGE
from tonframes.network.result_codes import RESULT_CODES

CODE = "account_state_code_hash_before"


def values(rows):
    """Write rows as an SQL list of values."""

    def one(value):
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"

    return ", ".join(f"({', '.join(map(one, row))})" for row in rows)


# ── fees ─────────────────────────────────────────────────────────────────────────────────────────

FEES = """
parts AS (
    SELECT *,
        total_fees - storage - gas - bounce_fees - due AS rest_before_action
    FROM (
        SELECT *,
            coalesce(compute_gas_credit > 0, false) AS external,
            storage_fees_collected AS storage,
            coalesce(bounce_msg_fees, 0) AS bounce_fees,
            coalesce(credit_due_fees_collected, 0) AS due,
            CASE WHEN compute_skipped OR (block_workchain = -1 AND compute_gas_used = 0
                AND compute_gas_fees > 0 AND compute_vm_steps > 0)
                THEN 0 ELSE compute_gas_fees END AS gas,
            CASE WHEN compute_skipped OR NOT compute_success OR action_success IS NOT NULL
                THEN coalesce(action_total_action_fees, 0) END AS recorded
        FROM transactions
    )
),
fees AS (
    SELECT *,
        CASE WHEN external THEN rest ELSE zero END AS import,
        CASE WHEN external THEN zero ELSE rest END AS residual
    FROM (
        SELECT *, rest_before_action - action AS rest, (rest_before_action - action) * 0 AS zero
        FROM (
            SELECT *,
                CASE WHEN NOT action_success AND (external OR rest_before_action = 0)
                    AND (now < 1703116800 OR (action_result_code = 50 AND now < 1746662400))
                    THEN 0 ELSE recorded END AS action
            FROM parts
        )
    )
)
"""

FEE_BREAKDOWN = f"""
WITH {FEES}
SELECT hash, storage, gas, action, bounce_fees AS bounce, import, due, total_fees AS total,
    residual, rest IS NOT NULL AS complete
FROM fees
"""

FEE_SUMMARY = f"""
WITH {FEES},
sent AS (
    SELECT tx_hash, sum(fwd_fee) AS fwd_fees FROM messages WHERE direction = 'out' GROUP BY tx_hash
),
sums AS (
    SELECT KEY, count(*) AS transactions,
        sum(storage) AS storage, sum(gas) AS gas, sum(action) AS action,
        sum(bounce_fees) AS bounce, sum(import) AS import, sum(due) AS due,
        sum(residual) AS residual, sum(total_fees) AS total_fees,
        coalesce(sum(fwd_fees), 0) AS fwd_fees
    FROM fees LEFT JOIN sent ON fees.hash = sent.tx_hash
    GROUP BY KEY
)
SELECT KEY, transactions, storage::BIGINT AS storage, gas::BIGINT AS gas, action::BIGINT AS action,
    bounce::BIGINT AS bounce, import::BIGINT AS import, due::BIGINT AS due,
    residual::BIGINT AS residual,
    (total_fees - coalesce(storage, 0) - coalesce(gas, 0) - coalesce(action, 0)
        - coalesce(bounce, 0) - coalesce(import, 0) - coalesce(due, 0)
        - coalesce(residual, 0))::BIGINT AS unknown,
    total_fees::BIGINT AS total_fees, fwd_fees::BIGINT AS fwd_fees,
    (total_fees + fwd_fees)::BIGINT AS cost,
    (total_fees + fwd_fees) / sum(total_fees + fwd_fees) OVER () AS share
FROM sums ORDER BY cost DESC, KEY
"""

CHECK_FEES = f"""
WITH {FEES}
SELECT hash, account,
    CASE WHEN difference IS NULL THEN 'unknown' WHEN difference = 0 THEN 'ok' ELSE 'violated' END
        AS verdict,
    difference,
    CASE WHEN difference <> 0 THEN 'the parts do not add up to total_fees'
        WHEN rest IS NULL THEN 'phases are missing'
        WHEN difference IS NULL THEN 'no field has the fee for importing the message' END AS why
FROM (
    SELECT hash, account, rest,
        CASE WHEN import < 0 THEN import
            WHEN NOT (external AND import <> 0) THEN residual END AS difference
    FROM fees
)
"""

CHECK_BALANCES = """
WITH flows AS (
    SELECT tx_hash,
        sum(CASE WHEN direction = 'in' THEN coalesce(value, 0) + coalesce(ihr_fee, 0)
            ELSE -coalesce(value, 0) - coalesce(ihr_fee, 0) - coalesce(fwd_fee, 0) END)::BIGINT
            AS flow,
        count(*) FILTER (direction = 'in') AS ins,
        count(*) FILTER (direction <> 'in') AS outs
    FROM messages GROUP BY tx_hash
),
changes AS (
    SELECT hash, account, lt, prev_trans_hash,
        CASE WHEN coalesce(ins, 0) = (descr = 'ord')::INT AND coalesce(outs, 0) =
            coalesce(CASE WHEN action_success THEN action_msgs_created END, 0)
            + coalesce(bounce = 'ok', false)::INT
            THEN CASE WHEN account = '-1:' || repeat('F', 64) THEN 0 ELSE coalesce(flow, 0) END
                - total_fees END AS change,
        CASE WHEN orig_status = 'nonexist' THEN coalesce(account_state_balance_before, 0)
            ELSE account_state_balance_before END AS before,
        CASE WHEN end_status = 'nonexist' THEN coalesce(account_state_balance_after, 0)
            ELSE account_state_balance_after END AS after
    FROM transactions LEFT JOIN flows ON hash = tx_hash
),
started AS (
    SELECT *, CASE WHEN lag(hash) OVER w = prev_trans_hash AND before IS NULL
        AND lag(after) OVER w IS NULL THEN 0 ELSE 1 END AS start
    FROM changes WINDOW w AS (PARTITION BY account ORDER BY lt)
),
chains AS (
    SELECT *, sum(start) OVER (PARTITION BY account ORDER BY lt) AS number FROM started
),
sums AS (
    SELECT account, number, count(*) AS chain, count(change) AS known,
        sum(change)::BIGINT AS changes, max(before) AS first, max(after) AS last
    FROM chains GROUP BY account, number
),
compared AS (
    SELECT hash, account, lt, chain, known < chain AS missing,
        CASE WHEN known = chain THEN last - first - changes END AS difference
    FROM chains JOIN sums USING (account, number)
)
SELECT hash, account, lt,
    CASE WHEN difference IS NULL THEN 'unknown' WHEN difference = 0 THEN 'ok' ELSE 'violated' END
        AS verdict,
    difference,
    CASE WHEN difference <> 0 THEN 'balances do not add up'
        WHEN missing THEN 'messages are missing'
        WHEN difference IS NULL THEN 'no balance is known before or after' END AS why,
    chain
FROM compared
"""

# ── gas ──────────────────────────────────────────────────────────────────────────────────────────

GAS = """
exchanged AS (
    SELECT *, coalesce(compute_skipped, false) AS skipped,
        coalesce(block_workchain = -1 AND compute_gas_used = 0 AND compute_gas_fees > 0
            AND compute_vm_steps > 0, false) AS wrong
    FROM transactions
),
calls AS (
    SELECT *, CASE WHEN wrong THEN compute_gas_fees ELSE compute_gas_used END AS used,
        CASE WHEN wrong THEN compute_gas_used ELSE compute_gas_fees END AS fee
    FROM exchanged
)
"""

GAS_SUMMARY = f"""
WITH {GAS},
marked AS (
    SELECT KEY, skipped, compute_vm_steps, fee, CASE WHEN NOT skipped THEN used END AS gas,
        block_workchain = -1 AND fee = 0 AS free
    FROM calls
),
counts AS (
    SELECT KEY, gas, count(*) AS transactions, count(gas) AS calls,
        count(*) FILTER (skipped) AS skipped, count(*) FILTER (free AND gas IS NOT NULL) AS free,
        sum(gas) AS gas_used, sum(fee) FILTER (gas IS NOT NULL) AS gas_fees,
        sum(compute_vm_steps) FILTER (gas IS NOT NULL) AS vm_steps
    FROM marked GROUP BY KEY, gas
),
ranked AS (
    SELECT *, sum(calls) OVER (PARTITION BY KEY) AS of,
        sum(calls) OVER (PARTITION BY KEY ORDER BY gas NULLS LAST) AS up_to
    FROM counts
),
sums AS (
    SELECT KEY, sum(transactions)::BIGINT AS transactions, sum(calls)::BIGINT AS calls,
        sum(skipped)::BIGINT AS skipped, sum(free)::BIGINT AS free,
        coalesce(sum(gas_used), CASE WHEN sum(skipped) > 0 THEN 0 END)::BIGINT AS gas_used,
        min(gas) FILTER (up_to * 100 >= of * 50) AS gas_median,
        min(gas) FILTER (up_to * 100 >= of * 95) AS gas_p95,
        max(gas) AS gas_max,
        coalesce(sum(gas_fees), CASE WHEN sum(skipped) > 0 THEN 0 END)::BIGINT AS gas_fees,
        max(gas) FILTER (calls > free) AS bounded,
        coalesce(sum(vm_steps), CASE WHEN sum(skipped) > 0 THEN 0 END)::BIGINT AS vm_steps
    FROM ranked GROUP BY KEY
)
SELECT KEY, transactions, calls, skipped, free, gas_used, gas_used / nullif(calls, 0) AS gas_mean,
    gas_median, gas_p95, gas_max, gas_fees, gas_fees / nullif(gas_used, 0) AS price_per_gas,
    bounded / {GAS_LIMIT} AS limit_use_max, vm_steps,
    gas_used / nullif(vm_steps, 0) AS gas_per_step
FROM sums ORDER BY gas_fees DESC NULLS LAST, KEY
"""

GAS_OUTLIERS = f"""
WITH {GAS},
histogram AS (
    SELECT {CODE}, compute_gas_credit, used, count(*) AS count
    FROM calls WHERE NOT skipped AND used IS NOT NULL AND {CODE} IS NOT NULL GROUP BY ALL
),
ranked AS (
    SELECT *, sum(count) OVER (PARTITION BY {CODE}, compute_gas_credit) AS of,
        sum(count) OVER (PARTITION BY {CODE}, compute_gas_credit ORDER BY used) AS up_to
    FROM histogram
),
medians AS (
    SELECT {CODE}, compute_gas_credit, min(used) FILTER (2 * up_to >= of) AS gas_median,
        any_value(of)::BIGINT AS calls
    FROM ranked GROUP BY ALL HAVING any_value(of) >= 20
)
SELECT hash, account, lt, now, calls.{CODE}, calls.compute_gas_credit, used AS gas_used, gas_median,
    used / nullif(gas_median, 0) AS ratio, medians.calls
FROM calls JOIN medians ON calls.{CODE} = medians.{CODE}
    AND calls.compute_gas_credit IS NOT DISTINCT FROM medians.compute_gas_credit
WHERE NOT skipped AND used > gas_median * FACTOR
ORDER BY ratio DESC NULLS LAST, hash
"""

# ── failures ─────────────────────────────────────────────────────────────────────────────────────

OUTCOMES = """
phases AS (
    SELECT *, coalesce(bounce, 'none') AS bounced,
        CASE
            WHEN compute_skipped AND skipped_reason = 'no_state'
                AND orig_status IN ('nonexist', 'uninit') AND bounce IS NULL THEN 'deposit'
            WHEN compute_skipped AND skipped_reason = 'no_gas'
                AND coalesce(bounce, '') <> 'ok' THEN 'dust'
            WHEN compute_skipped THEN 'skipped'
            WHEN NOT compute_success THEN 'compute'
            WHEN NOT action_success THEN 'action'
            WHEN compute_success AND compute_exit_code NOT IN (0, 1) THEN 'committed'
            WHEN action_skipped_actions > 0 OR (action_success
                AND action_tot_actions > action_spec_actions + action_msgs_created) THEN 'ignored'
        END AS phase
    FROM transactions
),
kept AS (
    SELECT *,
        CASE WHEN phase = 'action' THEN action_result_code
            WHEN phase IN ('compute', 'committed') THEN compute_exit_code END AS code,
        total_fees + coalesce(bounce_fwd_fees, 0) AS cost,
        CASE WHEN compute_gas_credit > 0 OR descr = 'tick_tock' OR (credit IS NULL AND has_credit)
            THEN 0 ELSE credit END
            - (total_fees - storage_fees_collected - coalesce(credit_due_fees_collected, 0)) AS kept
    FROM phases
    WHERE aborted OR phase IS NOT NULL
),
outcomes AS (
    SELECT *,
        CASE WHEN bounced = 'ok' OR phase IN ('committed', 'ignored', 'deposit', 'dust')
            OR kept < 0 THEN 0 ELSE kept END AS stuck
    FROM kept
)
"""


def _exits():
    of_kinds = {"": exit_codes.EXIT_CODES, WALLET_V5: exit_codes._IN_WALLET_V5}
    of_kinds |= dict.fromkeys({*CODE_KINDS.values()} - {WALLET_V5}, exit_codes._GENERAL)
    return [
        (kind, row.code, row.name, row.meaning)
        for kind, rows in of_kinds.items()
        for row in rows.values()
    ]


OWN = " OR ".join(f"code BETWEEN {codes[0]} AND {codes[-1]}" for codes in CONTRACT_DEFINED)
KINDS = f"kinds AS (FROM (VALUES {values(CODE_KINDS.items())}) AS t(code_hash, kind))"
NAMES = f"""
exits AS (FROM (VALUES {values(_exits())}) AS t(kind, exit_code, exit_name, exit_meaning)),
results AS (
    FROM (VALUES {values((row.code, row.name, row.meaning) for row in RESULT_CODES.values())})
    AS t(result_code, result_name, result_meaning)
),
reasons AS (FROM (VALUES {values(exit_codes.SKIP_REASONS.items())}) AS t(reason, reason_meaning)),
named AS (
    SELECT unnamed.* EXCLUDE (kind),
        CASE WHEN phase IN ('compute', 'committed') THEN coalesce(exit_name,
                CASE WHEN {OWN} THEN '{CONTRACT_DEFINED_NAME}' END)
            WHEN phase = 'action' THEN result_name
            WHEN phase IN ('skipped', 'deposit', 'dust') THEN skipped_reason
            WHEN phase = 'ignored' THEN 'skipped actions' END AS name,
        CASE WHEN phase IN ('compute', 'committed') THEN coalesce(exit_meaning,
                CASE WHEN {OWN} THEN 'Thrown by the contract: see its source code.' END)
            WHEN phase = 'action' THEN result_meaning
            WHEN phase IN ('skipped', 'deposit', 'dust') THEN reason_meaning
            WHEN phase = 'ignored' THEN 'Messages that could not be sent were left out (mode +2).'
            END AS meaning
    FROM unnamed
    LEFT JOIN exits ON exits.kind = unnamed.kind AND exit_code = code
    LEFT JOIN results ON result_code = code
    LEFT JOIN reasons ON reason = skipped_reason
)
"""

FAILURES = f"""
WITH {KINDS}, {OUTCOMES},
unnamed AS (
    SELECT outcomes.*, coalesce(kind, '') AS kind
    FROM outcomes LEFT JOIN kinds ON code_hash = {CODE}
),
{NAMES}
SELECT hash, account, lt, now, phase, code, name, meaning,
    CASE WHEN phase = 'action' THEN coalesce(action_result_arg, 0) END AS result_arg,
    CASE WHEN phase = 'action' THEN action_no_funds END AS no_funds,
    bounced AS bounce, cost, stuck
FROM named
"""

FAILURE_SUMMARY = f"""
WITH {KINDS}, {OUTCOMES},
counts AS (
    SELECT coalesce(kind, '') AS kind, phase, code, skipped_reason, account, count(*) AS failures,
        sum(cost) AS cost, sum(stuck) AS stuck, count(*) - count(stuck) AS stuck_unknown
    FROM outcomes LEFT JOIN kinds ON code_hash = {CODE}
    WHERE phase IS NULL OR phase NOT IN ('deposit', 'dust')
    GROUP BY ALL
),
unnamed AS (FROM counts),
{NAMES},
calls AS (
    SELECT count(*) AS transactions, count(*) - (
        SELECT count(*) FROM outcomes WHERE phase IN ('deposit', 'dust')) AS calls
    FROM transactions
)
SELECT phase, code, name, meaning, sum(failures)::BIGINT AS failures,
    sum(failures) / any_value(transactions) AS rate,
    sum(failures) / any_value(calls) AS call_rate,
    count(DISTINCT account) AS accounts, sum(cost)::BIGINT AS cost,
    coalesce(sum(stuck), 0)::BIGINT AS stuck, sum(stuck_unknown)::BIGINT AS stuck_unknown
FROM named, calls GROUP BY phase, code, name, meaning
ORDER BY failures DESC, phase, code, name, meaning
"""

# ── traces, activity, storage ────────────────────────────────────────────────────────────────────

TRACE_COSTS = """
WITH RECURSIVE links AS MATERIALIZED (
    SELECT arrived.trace_id, arrived.tx_hash, sent.tx_hash AS parent
    FROM messages AS arrived JOIN messages AS sent USING (msg_hash)
    WHERE arrived.direction = 'in' AND arrived.source IS NOT NULL AND sent.direction = 'out'
        AND sent.tx_lt < arrived.tx_lt
        AND arrived.trace_id IS NOT NULL AND sent.trace_id IS NOT NULL
),
levels AS (
    SELECT trace_id, tx_hash, 2 AS depth FROM links ANTI JOIN (FROM links) AS others
        ON links.parent = others.tx_hash
    UNION ALL
    SELECT links.trace_id, links.tx_hash, depth + 1
    FROM levels JOIN links ON links.parent = levels.tx_hash
),
depths AS (
    SELECT trace_id, max(depth) AS depth, count(*) AS linked FROM levels GROUP BY trace_id
),
sums AS (
    SELECT trace_id, max(account) FILTER (hash = trace_id) AS started_by,
        max(now) FILTER (hash = trace_id) AS started_at, count(*) AS transactions,
        count(DISTINCT account) AS accounts, sum(total_fees) AS total_fees,
        count(*) FILTER (aborted AND NOT coalesce(compute_skipped
            AND ((skipped_reason = 'no_state' AND orig_status IN ('nonexist', 'uninit')
                    AND bounce IS NULL)
                OR (skipped_reason = 'no_gas' AND coalesce(bounce, '') <> 'ok')),
            false)) AS failures
    FROM transactions WHERE trace_id IS NOT NULL GROUP BY trace_id
),
sent AS (
    SELECT trace_id, count(destination) AS sent, sum(coalesce(fwd_fee, 0)) AS fwd_fees,
        sum(coalesce(value, 0)) FILTER (tx_hash = trace_id) AS attached
    FROM messages WHERE direction = 'out' AND trace_id IS NOT NULL GROUP BY trace_id
),
excesses AS (
    SELECT trace_id, sum(value) AS excesses
    FROM messages JOIN (
        SELECT trace_id, account AS started_by FROM transactions WHERE hash = trace_id
    ) USING (trace_id)
    WHERE direction = 'in' AND source IS NOT NULL AND opcode = 3576854235
        AND destination = started_by
    GROUP BY trace_id
)
SELECT trace_id, started_by, started_at,
    coalesce(started_by IS NOT NULL AND coalesce(linked, 0) = transactions - 1
        AND coalesce(sent, 0) = transactions - 1, false) AS complete,
    transactions, accounts, coalesce(depth, 1)::BIGINT AS depth, failures,
    total_fees::BIGINT AS total_fees, coalesce(fwd_fees, 0)::BIGINT AS fwd_fees,
    (total_fees + coalesce(fwd_fees, 0))::BIGINT AS cost,
    CASE WHEN started_by IS NOT NULL THEN coalesce(attached, 0) END::BIGINT AS attached,
    CASE WHEN started_by IS NOT NULL THEN coalesce(excesses, 0) END::BIGINT AS excesses
FROM sums LEFT JOIN sent USING (trace_id) LEFT JOIN excesses USING (trace_id)
    LEFT JOIN depths USING (trace_id)
ORDER BY cost DESC, trace_id
"""

ACTIVITY = """
WITH traffic AS (
    SELECT tx_hash, count(*) FILTER (direction = 'in') AS messages_in,
        count(*) FILTER (direction <> 'in') AS messages_out,
        count(*) FILTER (source IS NULL OR destination IS NULL) AS external,
        count(*) FILTER (direction = 'in' AND source IS NOT NULL AND destination IS NOT NULL)
            AS internal,
        sum(value) FILTER (direction = 'in' AND source IS NOT NULL AND destination IS NOT NULL)
            AS value
    FROM messages GROUP BY tx_hash
)
SELECT to_timestamp(now // 3600 * 3600) AS hour, count(*) AS transactions,
    count(DISTINCT account) AS accounts,
    coalesce(sum(messages_in), 0)::BIGINT AS messages_in,
    coalesce(sum(messages_out), 0)::BIGINT AS messages_out,
    coalesce(sum(external), 0)::BIGINT AS external, coalesce(sum(internal), 0)::BIGINT AS internal,
    coalesce(sum(value), 0)::BIGINT AS value,
    sum(CASE WHEN block_workchain = -1 AND compute_gas_used = 0 AND compute_gas_fees > 0
        AND compute_vm_steps > 0 THEN compute_gas_fees ELSE coalesce(compute_gas_used, 0) END
        )::BIGINT AS gas_used,
    sum(total_fees)::BIGINT AS total_fees
FROM transactions LEFT JOIN traffic ON hash = tx_hash GROUP BY hour ORDER BY hour
"""

FLOWS = """
WITH once AS (
    SELECT msg_hash, any_value(source) AS source, any_value(destination) AS destination,
        coalesce(any_value(value), 0) AS value, coalesce(any_value(bounced), false) AS bounced
    FROM messages WHERE source IS NOT NULL AND destination IS NOT NULL GROUP BY msg_hash
)
SELECT source, destination, count(*) FILTER (NOT bounced) AS messages,
    coalesce(sum(value) FILTER (NOT bounced), 0)::BIGINT AS value,
    count(*) FILTER (bounced) AS bounced,
    coalesce(sum(value) FILTER (bounced), 0)::BIGINT AS bounced_value
FROM once GROUP BY source, destination ORDER BY value DESC, source, destination
"""

_CHANGE = STORAGE[1].valid_from

STORAGE_RATES = f"""
WITH intervals AS (
    SELECT t.account, t.orig_status AS status, coalesce(t.{CODE}, '') AS code,
        before.now >= {_CHANGE} AS price, count(*) AS intervals,
        sum(t.storage_fees_collected) AS collected, sum(t.now - before.now)::BIGINT AS seconds,
        max((t.storage_fees_collected - 1) / (t.now - before.now))
            < min(t.storage_fees_collected / (t.now - before.now)) AS steady
    FROM transactions AS t JOIN transactions AS before ON t.prev_trans_hash = before.hash
    WHERE t.now > before.now AND t.orig_status <> 'nonexist'
        AND t.storage_fees_collected IS NOT NULL
        AND NOT (before.now < {_CHANGE} AND t.now > {_CHANGE})
        AND coalesce(before.storage_fees_due, 0) <= 0 AND coalesce(t.storage_fees_due, 0) <= 0
    GROUP BY ALL
),
last AS (
    SELECT account, max_by(
        {{now: now, status: end_status, code: coalesce(account_state_code_hash_after, ''),
          balance: CASE WHEN end_status = 'nonexist' THEN coalesce(account_state_balance_after, 0)
              ELSE account_state_balance_after END,
          debt: CASE WHEN storage_fees_collected IS NOT NULL THEN coalesce(storage_fees_due, 0)
              ELSE storage_fees_due END}}, lt) AS t
    FROM transactions GROUP BY account
),
rates AS (
    SELECT last.account, t.status, t.now, t.balance, t.debt, coalesce(intervals, 0) AS intervals,
        collected::BIGINT AS collected, seconds, collected / (seconds / 86400) AS rent_per_day,
        intervals / (seconds / 86400) AS rent_error, steady
    FROM last LEFT JOIN intervals ON last.account = intervals.account
        AND t.status = intervals.status AND t.code = intervals.code
        AND (t.now >= {_CHANGE}) = intervals.price
)
SELECT *,
    CASE WHEN steady AND collected > 0 THEN balance / rent_per_day END AS days_left,
    CASE WHEN steady AND collected > 0 AND status = 'active'
        THEN (balance + 100000000 - debt) / rent_per_day END AS days_to_freeze,
    NULL::BIGINT AS cells, NULL::BIGINT AS bits
FROM rates ORDER BY rent_per_day DESC NULLS LAST, account
"""

OPERATIONS = f"""
WITH names AS (FROM (VALUES {values(OPCODE_NAMES.items())}) AS t(number, name)),
incoming AS (
    SELECT tx_hash, CASE WHEN source IS NULL THEN 'external'
        WHEN destination IS NULL THEN 'event'
        WHEN bounced THEN 'bounced'
        WHEN opcode = 0 THEN 'comment'
        WHEN opcode IS NULL THEN 'deposit'
        ELSE coalesce(DECODED, name, format('0x{{:08x}}', opcode)) END AS operation
    FROM messages LEFT JOIN names ON opcode = number
    WHERE direction = 'in'
)
SELECT transactions.*, CASE WHEN descr = 'tick_tock' THEN 'tick-tock' ELSE operation END
    AS operation
FROM transactions LEFT JOIN incoming ON transactions.hash = tx_hash
"""

#: The queries by the names of `bench_engines.HELPERS`.
QUERIES = {
    "fee_breakdown": FEE_BREAKDOWN,
    "fee_summary": FEE_SUMMARY.replace("KEY", "account"),
    "check_fees": CHECK_FEES,
    "check_balances": CHECK_BALANCES,
    "gas_summary": GAS_SUMMARY.replace("KEY", CODE),
    "gas_outliers": GAS_OUTLIERS.replace("FACTOR", "1.5"),
    "failures": FAILURES,
    "failure_summary": FAILURE_SUMMARY,
    "trace_costs": TRACE_COSTS,
    "storage_rates": STORAGE_RATES,
    "activity": ACTIVITY,
    "flows": FLOWS,
    "with_operation": OPERATIONS.replace("DECODED", "decoded_opcode"),
}
