"""Typed tables of the TON blockchain, from a TON index service to pandas and Parquet."""

from importlib.metadata import version as _version

from tonframes.activity import activity, flows
from tonframes.addresses import to_friendly, to_raw
from tonframes.audit import check_balances, check_fees
from tonframes.bodies import decode_bodies
from tonframes.client import Client
from tonframes.codes import exit_code_name, opcode_name, result_code_name
from tonframes.errors import (
    DecodeError,
    IncompleteError,
    MissingError,
    RequestError,
    StoreError,
    TonframesError,
    TonframesWarning,
)
from tonframes.export import read_csv, write_csv
from tonframes.failures import failure_summary, failures
from tonframes.fees import fee_breakdown, fee_summary, to_ton, undo_gas_exchange
from tonframes.fetch import (
    Plan,
    fetch_accounts,
    fetch_blocks,
    follow_blocks,
    plan_blocks,
    seqno_at,
)
from tonframes.frames import (
    Accounts,
    Blocks,
    describe,
    parse_account_states,
    parse_accounts,
    parse_blocks,
    parse_transactions,
)
from tonframes.gas import gas_outliers, gas_summary, price_of
from tonframes.names import with_names
from tonframes.plots import plot_activity, plot_failures, plot_fees, plot_flow, plot_gas
from tonframes.rent import storage_rates
from tonframes.sample import sample
from tonframes.service import serve
from tonframes.store import read_accounts, read_blocks
from tonframes.synthetic import synthetic_blocks
from tonframes.tariffs import forward_fee, gas_bought, gas_fee
from tonframes.traces import trace_costs

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
    "activity",
    "check_balances",
    "check_fees",
    "decode_bodies",
    "describe",
    "exit_code_name",
    "failure_summary",
    "failures",
    "fee_breakdown",
    "fee_summary",
    "fetch_accounts",
    "fetch_blocks",
    "flows",
    "follow_blocks",
    "forward_fee",
    "gas_bought",
    "gas_fee",
    "gas_outliers",
    "gas_summary",
    "opcode_name",
    "parse_account_states",
    "parse_accounts",
    "parse_blocks",
    "parse_transactions",
    "plan_blocks",
    "plot_activity",
    "plot_failures",
    "plot_fees",
    "plot_flow",
    "plot_gas",
    "price_of",
    "read_accounts",
    "read_blocks",
    "read_csv",
    "result_code_name",
    "sample",
    "seqno_at",
    "serve",
    "storage_rates",
    "synthetic_blocks",
    "to_friendly",
    "to_raw",
    "to_ton",
    "trace_costs",
    "undo_gas_exchange",
    "with_names",
    "write_csv",
]
