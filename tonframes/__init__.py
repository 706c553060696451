"""Typed tables of the TON blockchain, from a TON index service to pandas and Parquet."""

from importlib.metadata import version as _version

from tonframes.client import Client
from tonframes.errors import (
    DecodeError,
    IncompleteError,
    MissingError,
    RequestError,
    StoreError,
    TonframesError,
    TonframesWarning,
)
from tonframes.fees import to_ton, undo_gas_exchange
from tonframes.fetch import (
    Plan,
    fetch_accounts,
    fetch_blocks,
    follow_blocks,
    plan_blocks,
    seqno_at,
)
from tonframes.frames import Accounts, Blocks, describe, parse_accounts, parse_blocks
from tonframes.sample import sample
from tonframes.service import serve
from tonframes.store import read_accounts, read_blocks
from tonframes.synthetic import synthetic_blocks

__version__ = _version("tonframes")

__all__ = [
    "Accounts",
    "Blocks",
    "Client",
    "DecodeError",
    "IncompleteError",
    "MissingError",
    "Plan",
    "RequestError",
    "StoreError",
    "TonframesError",
    "TonframesWarning",
    "describe",
    "fetch_accounts",
    "fetch_blocks",
    "follow_blocks",
    "parse_accounts",
    "parse_blocks",
    "plan_blocks",
    "read_accounts",
    "read_blocks",
    "sample",
    "seqno_at",
    "serve",
    "synthetic_blocks",
    "to_ton",
    "undo_gas_exchange",
]
