"""What the package shows, what it imports, and what travels in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import tonframes as tf
from tonframes.samples import write_sample
from tonframes.store import Store

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_sorted_and_there():
    assert tf.__all__ == sorted(tf.__all__)
    assert all(hasattr(tf, name) for name in tf.__all__)


def test_every_public_name_is_documented():
    for name in tf.__all__:
        assert (getattr(tf, name).__doc__ or "").strip(), name


def test_importing_draws_nothing_and_needs_no_extra():
    code = "import sys, tonframes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert not loaded & {
        "matplotlib",
        "polars",
        "duckdb",
        "dask",
        "pyspark",
        "pytoniq_core",
        "IPython",
        "hypothesis",
        "orjson",
    }


def test_the_sample_is_what_its_maker_makes(tmp_path):
    write_sample(tmp_path / "sample")
    made, shipped = Store(tmp_path / "sample"), Store(tf.sample())
    assert made.network == shipped.network == "-217"
    assert made.held() == shipped.held()
    for name in tf.Blocks.names[:3]:
        assert made.read(name, made.held()).equals(shipped.read(name, made.held())), name
    for name in tf.Accounts.names:
        assert made.snapshot(name).equals(shipped.snapshot(name)), name


def test_the_sample_holds_what_is_said_of_it():
    blocks, accounts = tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())
    assert len(blocks.transactions) >= 3000
    assert sum(map(len, blocks.seqnos)) == 120
    assert blocks.blocks.after_split.any()
    assert blocks.blocks.after_merge.any()
    assert blocks.blocks.query("workchain == 0").shard.nunique() > 2
    assert len(accounts.accounts) == 300
    moments = sorted((tf.sample() / "accounts").glob("*.parquet"))
    assert len(moments) == 2
    assert sum(f.stat().st_size for f in tf.sample().rglob("*") if f.is_file()) < 3_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel as an installer would, with the build backend that is installed."""
    hatchling = pytest.importorskip("hatchling.build")
    assert hatchling
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return folder / done.stdout.split()[-1]


def test_the_wheel_holds_the_package_and_the_sample_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    assert folders == {"tonframes", f"tonframes-{wheel.name.split('-')[1]}.dist-info"}
    assert "tonframes/sample/network.json" in names
    assert "tonframes/py.typed" in names


def test_the_sample_is_found_from_the_wheel(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import tonframes as tf; print(tf.__file__, len(tf.read_blocks(tf.sample()).blocks),"
        " tf.sample())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    file, blocks, sample = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path)
    assert Path(sample).is_relative_to(tmp_path)
    assert int(blocks) > 120


RUN = """
import json, sys
from pathlib import Path
import matplotlib
matplotlib.use("Agg")
for notebook in sys.argv[1:]:
    cells = json.loads(Path(notebook).read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    exec(compile("\\n\\n".join(code), notebook, "exec"), {})
"""


@pytest.mark.wheel
@pytest.mark.timeout(900)
def test_the_wheel_is_all_that_a_clean_environment_needs(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    } | {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}

    def run(*command):
        return subprocess.run(
            [str(part) for part in command],
            check=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        ).stdout

    run(python, "-m", "pip", "install", "--quiet", wheel)
    # The library alone: no extra, nothing of this repository.
    assert "Done in" in run(tmp_path / "env" / "bin" / "tonframes", "demo", "--store", "demo")
    assert (tmp_path / "demo" / "fees.png").is_file()
    where = run(python, "-c", "import tonframes as tf; print(tf.sample())").strip()
    assert Path(where).is_relative_to(tmp_path)
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[engines,boc]")
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(notebooks) == 8
    run(python, "-c", RUN, *notebooks)


def test_arrow_tables_need_no_pandas():
    table = tf.read_blocks(tf.sample()).arrow("blocks")
    assert isinstance(table, pa.Table)
