"""The documentation cannot lie: its Python runs, its commands and its files are there.

The pages of the guide are run by `make docs`.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import re
import shlex
import tempfile
import tomllib
from pathlib import Path

import pytest

import tonframes as tf
from tonframes.cli import app
from tonframes.columns import column_reference
from tonframes.wire import schema

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, TOOLS = PYPROJECT["project"], PYPROJECT["tool"]
EXTRAS = set(PROJECT["optional-dependencies"])
HOME = PROJECT["urls"]["Homepage"]
RAW = HOME.replace("github.com", "raw.githubusercontent.com")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *ROOT.glob("docs/**/*.md")])
GUIDE = [page for page in PAGES if "{code-cell}" in page.read_text()]


def fenced(page, language):
    return re.findall(
        rf"^```{re.escape(language)}\n(.*?)```", page.read_text(), re.DOTALL | re.MULTILINE
    )


def test_the_python_of_the_readme_gives_the_output_shown(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first, month, real, lazy = fenced(ROOT / "README.md", "python")
    shown = first + month
    test = doctest.DocTestParser().get_doctest(shown, {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test, clear_globs=False).failed == 0
    assert len(test.examples) == shown.count(">>> ") == 19
    # This one asks the real chain: here a local service stands in, over other blocks.
    with tf.serve(tf.sample(), dialect="service") as url:
        monkeypatch.setenv("TONFRAMES_URL", url)
        with pytest.warns(tf.TonframesWarning) as told:
            exec(real.replace("49_000_0", "90_000_0"), test.globs)  # noqa: S102
    assert ["of 1 of 1 accounts" in str(warning.message) for warning in told] == [True] * 2
    assert len(test.globs["blocks"].transactions) == 50 * 25
    assert list(test.globs["states"].accounts.found) == [False]
    exec(lazy, test.globs)  # noqa: S102


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_of_the_guide_ends_with_an_assertion(page):
    assert "assert" in fenced(page, "{code-cell}")[-1]


def module(path):
    """Import a module of the folder docs, which is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_docstrings_get_the_types_of_annotations():
    docstrings = module(ROOT / "docs" / "extensions" / "docstrings.py")
    tested = doctest.testmod(docstrings)
    assert (tested.attempted, tested.failed) == (2, 0)
    lines = docstrings.with_types(
        inspect.getdoc(tf.to_ton).splitlines(), docstrings._types(tf.to_ton)
    )
    assert "columns : Sequence[str] or None" in [line.strip() for line in lines]


def test_pages_show_no_folder_of_the_machine_and_no_age():
    outputs = module(ROOT / "docs" / "extensions" / "outputs.py")
    tested = doctest.testmod(outputs)
    assert (tested.attempted, tested.failed) == (1, 0)
    for shown in (tf.read_blocks(tf.sample()), tf.read_accounts(tf.sample())):
        for text in (repr(shown), shown._repr_html_()):
            assert str(ROOT) in text
            assert " ago" in text
            clean = outputs.lasting(text)
            assert "…/sample" in clean
            assert str(ROOT) not in clean
            assert " ago" not in clean
    folder = Path(tempfile.gettempdir())
    assert outputs.lasting(f"from {folder / 'tmpab_1c' / 'blocks'}") == "from …/blocks"


def test_broken_links_between_the_pages_of_a_site_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<a id="top" href="a.html#here">1</a><a href="#top">2</a><img src="no.png">'
        '<a href="https://example.org/x#y">3</a><a href="a.html#there">4</a>'
    )
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html">5</a><a href="index.html">6</a>'
    )
    broken = module(ROOT / "docs" / "links.py").broken(tmp_path)
    assert sorted(broken) == [
        "a.html: b.html",
        "index.html: a.html#there",
        "index.html: no.png",
    ]


def test_every_public_name_is_in_the_reference():
    listed = re.findall(
        r"^   (\w+)$", (ROOT / "docs/reference/index.rst").read_text(), re.MULTILINE
    )
    assert sorted(listed) == tf.__all__


def test_the_guide_counts_columns_rightly():
    text = (ROOT / "docs/guide/frames.md").read_text()
    for table in schema.TABLES.values():
        row = re.search(
            rf"^\| .*`[a-z]*\.{table.name}`.*\| .*?([0-9, ]+)[a-z ]*\|$", text, re.MULTILINE
        )
        assert row, table.name
        assert str(len(table.columns)) in re.findall("[0-9]+", row[1]), table.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = "".join(fenced(page, "sh")).splitlines()
    lines += re.findall(r"`((?:tonframes|make) [^`]+)`", page.read_text())
    for line in lines:
        command, *arguments = shlex.split(line, comments=True)
        if command == "make":
            assert arguments[0] in targets, line
        elif command == "pip":
            assert arguments[0] == "install"
            name, _, extras = arguments[1].rstrip("]").partition("[")
            assert name in {".", "tonframes"}
            assert set(filter(None, extras.split(","))) <= EXTRAS, line
        else:
            assert command == "tonframes", line
            app.parse_args(arguments, exit_on_error=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if path := re.fullmatch(rf"(?:{RAW}/main|{HOME}/(?:blob|tree)/main)/(.+)", target):
            assert (ROOT / path[1]).exists(), target
        elif not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_the_readme_is_read_in_five_minutes():
    assert len((ROOT / "README.md").read_text().split()) <= 1_100


def test_links_of_the_readme_hold_wherever_the_repository_lies():
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert sum((ROOT / target).exists() for target in targets) >= 8
    assert not [target for target in targets if target.startswith((RAW, HOME))]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_block_is_two_commands_that_need_only_a_clone(page):
    lines = fenced(ROOT / page, "sh")[0].splitlines()
    assert [line.partition("#")[0].split() for line in lines] == [
        ["make", "demo"],
        ["make", "test"],
    ]
    assert all(re.search(r"(second|minute)s?\b", line.partition("#")[2]) for line in lines)


def test_nothing_is_installed_from_an_index_before_it_is_there():
    first = [
        line
        for page in PAGES
        for line in "".join(fenced(page, "sh")).splitlines()
        if re.match("pip install .?tonframes", line)
    ]
    # They add extras to what is installed, for which pip asks no index.
    assert all("[" in line for line in first)
    assert "pip install ." in (ROOT / "README.md").read_text()


def test_the_reference_of_columns_is_that_of_the_schema():
    assert (ROOT / "data" / "COLUMNS.md").read_text() == column_reference(), "run `make columns`"


#: Names without an example of their own: errors, warnings and plans, which nobody makes himself.
NO_EXAMPLE = {name for name in tf.__all__ if name.endswith(("Error", "Warning"))} | {"Plan"}


def test_every_public_name_has_an_example_that_runs():
    lacking = {name for name in tf.__all__ if ">>>" not in (getattr(tf, name).__doc__ or "")}
    assert lacking <= NO_EXAMPLE


def test_the_table_of_layers_names_every_package_from_top_to_bottom():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| layer |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    packages = {path.parent.name for path in ROOT.glob("tonframes/*/__init__.py")}
    assert packages <= {name for row in rows for name in row}
    contract = TOOLS["importlinter"]["contracts"][0]
    place = {name: i for i, layer in enumerate(contract["layers"]) for name in layer.split(" | ")}
    tops = [min(place[name] for name in row) for row in rows]
    assert tops == sorted(tops)


@pytest.mark.parametrize(
    "package", sorted(ROOT.glob("tonframes/*/__init__.py")), ids=lambda file: file.parent.name
)
def test_the_docstring_of_a_package_names_its_modules(package):
    said = ast.get_docstring(ast.parse(package.read_text()))
    modules = {file.stem for file in package.parent.glob("*.py")} - {"__init__"}
    assert modules <= set(re.findall(r"\w+", said))
