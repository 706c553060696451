"""Fetch into a store: client, store and frames together.

What users call:

- `blocks`: `fetch_blocks`; `accounts`: `fetch_accounts`; `follow`: `follow_blocks`.
- `histories`: `fetch_transactions` and `follow_transactions`, histories of accounts.
- `plan`: `plan_blocks`, the number of requests; `resolve`: `seqno_at`, and the arguments of all.

Masterchain blocks:

- `missing`: what a store lacks is read, proven and committed, in threads or on an executor.
- `spread`: tasks are handed to workers, the rate limit is shared out, what is lost is repeated.
  `workers`: threads, processes, and a task as a worker does it.
- `windows`: many masterchain blocks through windows of time (`headers`) and of logical time
  (`rows`). `block`: all pages of one masterchain block.
- `proving`: masterchain blocks are fetched again until they are proven. `proof`: the checks which
  prove that nothing is missing, and what they do not notice.
- `network`: what a service shows; `progress`: progress bars and log lines.
"""

from tonframes.fetch.accounts import fetch_accounts
from tonframes.fetch.blocks import fetch_blocks
from tonframes.fetch.follow import follow_blocks
from tonframes.fetch.histories.plan import HistoryPlan, plan_transactions
from tonframes.fetch.histories.transactions import fetch_transactions, follow_transactions
from tonframes.fetch.plan import Plan, plan_blocks
from tonframes.fetch.resolve import DEFAULT, default_store, seqno_at

__all__ = [
    "DEFAULT",
    "HistoryPlan",
    "Plan",
    "default_store",
    "fetch_accounts",
    "fetch_blocks",
    "fetch_transactions",
    "follow_blocks",
    "follow_transactions",
    "plan_blocks",
    "plan_transactions",
    "seqno_at",
]
