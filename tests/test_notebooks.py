"""The notebooks are short and assert what their text says; `make docs` runs them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

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
