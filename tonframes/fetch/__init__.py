"""Fetch into a store: client, store and frames together.

- `blocks`: `fetch_blocks`, masterchain blocks.
- `spans`: masterchain blocks on an executor; whole spans are tasks.
- `spread`: tasks are handed to workers; the rate limit is shared out, what is lost is repeated.
- `processes`: processes of our own, which are workers.
- `work`: one task, as a worker does it.
- `missing`: what a store lacks is fetched in this process.
- `reading`: consecutive masterchain blocks are read in threads, and proven part by part.
- `accounts`: `fetch_accounts`, states of accounts.
- `histories`: `fetch_transactions`, histories of accounts.
- `follow`: `follow_blocks`, new masterchain blocks as they appear.
- `plan`: `plan_blocks`, the number of requests of a fetch.
- `time`: `seqno_at`, the masterchain block at a moment.
- `density`: how many blocks and transactions masterchain blocks commit, from samples.
- `windows`: masterchain blocks, read through windows of time and of logical time.
- `ends`: the tips and the seconds at the ends of a range that is read so.
- `paging`: pages of a window, with as many rows as the service manages.
- `headers`, `rows`: the blocks and the transactions of these windows: what came, what is missing.
- `row_pages`: pages of transactions, and the tables that are made of them.
- `intervals`: where to cut logical time, so that pages come full.
- `crew`: the threads of these requests.
- `proving`: consecutive masterchain blocks, fetched again until they are proven complete.
- `origin`: where the proof of the chains begins.
- `proof`: the checks which prove that nothing is missing.
- `block`: all pages of one masterchain block.
- `network`: the network of a service, and its first and last masterchain block.
- `shown`: what a service has shown so far.
- `resolve`: the client, store and seqnos that the arguments mean.
- `progress`: progress bars and log lines.
"""

from tonframes.fetch.accounts import fetch_accounts
from tonframes.fetch.blocks import fetch_blocks
from tonframes.fetch.follow import follow_blocks
from tonframes.fetch.histories.follow import follow_transactions
from tonframes.fetch.histories.plan import HistoryPlan, plan_transactions
from tonframes.fetch.histories.transactions import fetch_transactions
from tonframes.fetch.plan import Plan, plan_blocks
from tonframes.fetch.resolve import DEFAULT, default_store
from tonframes.fetch.time import seqno_at

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
