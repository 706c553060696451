"""What the package shows, what it imports, and what travels in the wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from chain.samples import write_sample
from packaging.requirements import Requirement
from packaging.version import Version

import tonframes as tf
from tonframes.store import Store

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_sorted_and_there():
    assert tf.__all__ == sorted(tf.__all__)
    assert all(hasattr(tf, name) for name in tf.__all__)


def test_every_public_name_is_documented():
    for name in tf.__all__:
        assert (getattr(tf, name).__doc__ or "").strip(), name


def test_dir_offers_exactly_the_public_names():
    # Imported modules become attributes of the package; dir() does not list them.
    code = "import tonframes as tf, tonframes.cli, tonframes.wire.pages; print(*dir(tf))"
    assert set(tf.__all__) == set(dir(tf)) == set(output_of("-c", code).split())


def test_no_public_name_is_that_of_a_module():
    package = Path(tf.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix != ".pyi"}
    assert modules.isdisjoint(tf.__all__)


def output_of(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, timeout=100
    )
    return done.stdout


def modules_of(code):
    """Return the modules that a new process has imported after this code."""
    return set(output_of("-c", f"{code}\nimport sys\nprint(*sys.modules)").split("\n")[-2].split())


FRAMES = {"pandas", "numpy", "pyarrow", "narwhals", "msgspec"}
EXTRAS = {
    "duckdb",
    "dask",
    "pyspark",
    "pytoniq_core",
    "IPython",
    "ipywidgets",
    "xlsxwriter",
}
LATE = EXTRAS | {"polars", "matplotlib", "tonframes.plots"}


def test_import_of_the_package_imports_no_other():
    loaded = modules_of("import tonframes")
    assert "lazy_loader" in loaded
    assert not loaded & (FRAMES | LATE | {"requests", "tonframes.wire"})


def test_the_version_is_printed_without_the_library():
    code = "from tonframes.cli import main\ntry:\n    main(['--version'])\nexcept SystemExit: pass"
    assert not modules_of(code) & (FRAMES | LATE | {"requests"})


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("main(['describe', 'messages'])", {"requests", "tonframes.store", "tonframes.fetch"}),
        ("main(['fetch', 'blocks', '1:2', '--dry', '--store', 'none'])", {"tonframes.service"}),
        ("main(['serve', 'none'])", {"tonframes.fetch", "tonframes.demo"}),
    ],
    ids=["describe", "fetch", "serve"],
)
def test_a_command_imports_only_what_it_needs(code, unneeded):
    loaded = modules_of(f"from tonframes.cli import main\n{code}")
    assert "tonframes.wire.schema" in loaded
    assert not loaded & (LATE | unneeded)


def test_reading_a_store_imports_no_extra():
    sample = Path(tf.sample())
    loaded = modules_of(f"import tonframes as tf\ntf.read_blocks({str(sample)!r}).transactions")
    assert "pandas" in loaded
    assert not loaded & (LATE | {"requests"})


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
USERS = ("boc", "engines", "excel", "notebook", "spark")


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_every_imported_package_is_declared():
    extras = [PYPROJECT["optional-dependencies"][extra] for extra in USERS]
    declared = {name_of(line) for line in chain(PYPROJECT["dependencies"], *extras)}
    distributions = packages_distributions()
    known = sys.stdlib_module_names | {"tonframes", "_typeshed"}
    for module, name in imports_of(ROOT / "tonframes"):
        if name not in known:
            provided = {name_of(one) for one in distributions.get(name, [name])}
            assert provided & declared, f"{module} imports {name}"


def test_every_declared_package_of_the_library_is_imported():
    distributions = packages_distributions()
    imported = {
        name_of(one)
        for _, name in imports_of(ROOT / "tonframes")
        for one in distributions.get(name, [])
    }
    assert {name_of(line) for line in PYPROJECT["dependencies"]} <= imported


@cache
def imports_of(folder):
    """Return every module with the top-level name of each import in it."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found += [(path.name, alias.name.split(".")[0]) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.append((path.name, node.module.split(".")[0]))
    return found


def test_the_lowest_versions_are_those_declared():
    floors = set()
    for lines in (
        PYPROJECT["dependencies"],
        *(PYPROJECT["optional-dependencies"][extra] for extra in USERS),
    ):
        for line in lines:
            if floor := re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", line):
                floors.add(f"{floor[1]}=={floor[2]}")
            else:
                assert re.fullmatch(r"[\w.-]+<[\d.]+", line), line
    listed = (ROOT / "constraints-lowest.txt").read_text("utf-8").splitlines()
    assert listed[0].startswith("#")
    assert listed[1:] == sorted(floors)


def test_every_tested_version_is_allowed():
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    pinned = {name_of(name): Version(version) for name, version in pinned.items()}
    extras = PYPROJECT["optional-dependencies"].values()
    for line in chain(PYPROJECT["dependencies"], *extras):
        requirement = Requirement(line)
        if requirement.name != "tonframes":
            assert pinned[name_of(requirement.name)] in requirement.specifier, line


def test_the_sample_is_what_its_maker_makes(tmp_path):
    write_sample("blocks", tmp_path / "sample")
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
    assert "tonframes/histories/network.json" in names
    assert {"tonframes/network/opcodes.csv", "tonframes/network/contracts.csv"} <= set(names)
    assert "tonframes/py.typed" in names
    assert "tonframes/__init__.pyi" in names  # the list of public names, read at import


def test_a_package_index_shows_the_readme_with_links_that_work(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = metadata.get_payload()
    home = PYPROJECT["urls"]["Homepage"]
    raw = home.replace("github.com", "raw.githubusercontent.com")
    written = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    expected = [
        (mark, f"{raw}/main/{target}" if mark else f"{home}/blob/main/{target}")
        if (ROOT / target).exists()
        else (mark, target)
        for mark, target in written
    ]
    found = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", shown)
    assert found == expected
    assert all(target.startswith("https://") for _, target in found)
    assert sum(target.startswith((raw, home)) for _, target in found) >= 8


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
    assert len(notebooks) == 11
    run(python, "-c", RUN, *notebooks)


def test_arrow_tables_need_no_pandas():
    table = tf.read_blocks(tf.sample()).arrow("blocks")
    assert isinstance(table, pa.Table)
