"""Addresses per second of to_raw and to_friendly, column kind by column kind.

Run it: python tests/benchmarks/bench_addresses.py [rows]
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from tonframes.addresses import to_friendly, to_raw

KINDS: dict[str, Callable[[pa.Array], object]] = {
    "pyarrow": lambda column: column,
    "pandas str": lambda column: pd.Series(column.to_pandas(), dtype="str"),
    "polars": pl.Series,
    "numpy object": lambda column: column.to_numpy(zero_copy_only=False),
    "numpy U": lambda column: column.to_numpy(zero_copy_only=False).astype(str),
    "list": lambda column: column.to_pylist(),
}


def rate(work: Callable[[], object], rows: int) -> float:
    """Return rows per second, the best of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return rows / min(seconds)


def main(rows: int) -> None:
    """Print a line per kind of column; every thousandth address is of the masterchain."""
    hexes = np.random.default_rng(0).bytes(32 * rows).hex()
    raw = pa.array(f"{-(n % 1000 == 0)}:{hexes[64 * n : 64 * n + 64].upper()}" for n in range(rows))
    friendly = to_friendly(raw)
    columns = {"raw": raw, "friendly": friendly}
    columns["mixed, 10 % null"] = pa.array(
        None if n % 10 == 0 else (raw if n % 2 else friendly)[n].as_py() for n in range(rows)
    )
    for kind, make in KINDS.items():
        for form, column in columns.items():
            if kind == "numpy U" and column.null_count:
                continue
            made = make(column)
            for function in (to_raw, to_friendly):
                speed = rate(lambda f=function, c=made: f(c), rows)
                sys.stdout.write(f"{kind:13} {form:17} {function.__name__:12} {speed:12,.0f}/s\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
