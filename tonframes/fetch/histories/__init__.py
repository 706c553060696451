"""Fetch the histories of accounts: all their transactions between two moments.

- `transactions`: `fetch_transactions`.
- `follow`: `follow_transactions`, new transactions as they appear.
- `plan`: `plan_transactions`, the number of requests of a fetch.
- `tasks`: the workers of an executor fetch parts of the accounts.
- `commits`: batches of accounts in threads; what comes is committed.
- `batch`: accounts of one request, read until their histories are complete.
- `chains`: what is known of histories, and what to ask for next; no network.
- `reading`: pages of transactions, and the last transactions from the accounts' states.
"""
