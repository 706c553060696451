"""Fetch the histories of accounts: all their transactions between two moments.

- `transactions`: `fetch_transactions` and `follow_transactions`.
- `plan`: `plan_transactions`, the number of requests of a fetch.
- `tasks`: any number of accounts, in threads or by the workers of an executor.
- `batch`: accounts of one request, read until their histories are complete.
- `chains`: what is known of histories, and what to ask for next; no network.
"""
