# The public names, and where each of them is defined.

# For type checkers: `__getattr__` imports this module, which lazy_loader takes for no public name.
import tonframes.network as network  # noqa: PLR0402 - the other form is one for lazy_loader

from .addresses import to_friendly, to_raw
from .analysis.activity import activity, flows
from .analysis.audit import check_balances, check_fees
from .analysis.failures import failure_summary, failures
from .analysis.fees import fee_breakdown, fee_summary
from .analysis.gas import gas_outliers, gas_summary
from .analysis.jettons import jetton_amounts
from .analysis.money import with_price
from .analysis.names import with_names
from .analysis.operations import with_operation
from .analysis.storage import storage_rates
from .analysis.traces import trace_costs
from .analysis.units import to_ton
from .bodies import decode_bodies
from .client import Client
from .columns import describe
from .errors import (
    DecodeError,
    IncompleteError,
    MissingError,
    RequestError,
    StoreError,
    TonframesError,
    TonframesWarning,
)
from .export import read_csv, write_csv, write_excel
from .fetch import (
    HistoryPlan,
    Plan,
    fetch_accounts,
    fetch_blocks,
    fetch_transactions,
    follow_blocks,
    follow_transactions,
    plan_blocks,
    plan_transactions,
    seqno_at,
)
from .frames import Accounts, Blocks, Transactions
from .network.contracts import code_name
from .network.exit_codes import exit_code_name
from .network.opcodes import opcode_name
from .network.prices import gas_fee
from .parse import parse_accounts, parse_blocks, parse_transactions
from .plots import (
    plot_activity,
    plot_failures,
    plot_fees,
    plot_flows,
    plot_gas,
    plot_trace,
)
from .samples import sample
from .scanning import Scan, scan
from .service import serve
from .store import (
    compact_store,
    ingest,
    read_accounts,
    read_blocks,
    read_transactions,
    verify_store,
)

__version__: str

__all__ = [
    "Accounts",
    "Blocks",
    "Client",
    "DecodeError",
    "HistoryPlan",
    "IncompleteError",
    "MissingError",
    "Plan",
    "RequestError",
    "Scan",
    "StoreError",
    "TonframesError",
    "TonframesWarning",
    "Transactions",
    "activity",
    "check_balances",
    "check_fees",
    "code_name",
    "compact_store",
    "decode_bodies",
    "describe",
    "exit_code_name",
    "failure_summary",
    "failures",
    "fee_breakdown",
    "fee_summary",
    "fetch_accounts",
    "fetch_blocks",
    "fetch_transactions",
    "flows",
    "follow_blocks",
    "follow_transactions",
    "gas_fee",
    "gas_outliers",
    "gas_summary",
    "ingest",
    "jetton_amounts",
    "network",
    "opcode_name",
    "parse_accounts",
    "parse_blocks",
    "parse_transactions",
    "plan_blocks",
    "plan_transactions",
    "plot_activity",
    "plot_failures",
    "plot_fees",
    "plot_flows",
    "plot_gas",
    "plot_trace",
    "read_accounts",
    "read_blocks",
    "read_csv",
    "read_transactions",
    "sample",
    "scan",
    "seqno_at",
    "serve",
    "storage_rates",
    "to_friendly",
    "to_raw",
    "to_ton",
    "trace_costs",
    "verify_store",
    "with_names",
    "with_operation",
    "with_price",
    "write_csv",
    "write_excel",
]
