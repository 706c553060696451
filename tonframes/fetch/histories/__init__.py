"""Fetch the histories of accounts: all their transactions between two moments.

- `transactions`: `fetch_transactions`.
- `crew`: batches of accounts in threads, committed as they come.
- `batch`: accounts of one request, read until their histories are complete.
- `chains`: what is known of histories, and what to ask for next; no network.
- `reading`: pages of transactions, and the last transactions from the accounts' states.
"""
