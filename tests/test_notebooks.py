"""The notebooks run offline and in any folder, and assert what their text says."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def cells(notebook, kind):
    every = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in every if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_short_and_end_with_an_assertion(notebook):
    content = json.loads(notebook.read_text())
    assert len(content["cells"]) <= 15
    assert cells(notebook, "markdown")[0].startswith("# ")
    last = ast.parse(cells(notebook, "code")[-1]).body[-1]
    assert isinstance(last, ast.Assert)
    assert content["nbformat"] == 4
    for cell in content["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_there_are_eleven_notebooks():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, 12)]


def show(value):
    """Render the last value of a cell, as a notebook does."""
    if value is not None:
        assert repr(value)
        html = getattr(value, "_repr_html_", None)
        assert html is None or "<" in html()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scope: dict = {}
    with plt.ioff():
        for number, code in enumerate(cells(notebook, "code")):
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            name = f"{notebook.name}, code cell {number}"
            exec(compile(tree, name, "exec"), scope)  # noqa: S102
            if last is not None:
                show(eval(compile(ast.Expression(last.value), name, "eval"), scope))  # noqa: S307
    plt.close("all")
