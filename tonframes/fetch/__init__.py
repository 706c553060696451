"""Fetching: where client, store and frames meet.

- `blocks`: `fetch_blocks`, masterchain blocks through a store.
- `parts`: consecutive masterchain blocks, until they are proven to be whole.
- `accounts`: `fetch_accounts`, states of accounts through a store.
- `plan`: `plan_blocks`, what a fetch would cost.
- `follow`: `follow_blocks` and `seqno_at`, the chain as it grows, and as it was at a moment.
- `proof`: how it is shown that nothing is missing.
- `seqno`: all pages of one masterchain block.
- `places`: which service is asked, which store is used.
"""

from tonframes.fetch.accounts import fetch_accounts
from tonframes.fetch.blocks import fetch_blocks
from tonframes.fetch.follow import follow_blocks
from tonframes.fetch.plan import Plan, plan_blocks
from tonframes.fetch.resolve import DEFAULT, default_store
from tonframes.fetch.time import seqno_at

__all__ = [
    "DEFAULT",
    "Plan",
    "default_store",
    "fetch_accounts",
    "fetch_blocks",
    "follow_blocks",
    "plan_blocks",
    "seqno_at",
]
