"""Run the code of notebooks and of pages of the documentation, as Jupyter does."""

import ast

import matplotlib.pyplot as plt


def run(cells, name):
    """Run cells one after the other in one scope, and render the last value of each."""
    scope: dict = {}
    with plt.ioff():
        for number, code in enumerate(cells):
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            place = f"{name}, code cell {number}"
            exec(compile(tree, place, "exec"), scope)  # noqa: S102
            if last is not None:
                show(eval(compile(ast.Expression(last.value), place, "eval"), scope))  # noqa: S307
    plt.close("all")


def show(value):
    """Render the last value of a cell, as a notebook does."""
    if value is not None:
        assert repr(value)
        html = getattr(value, "_repr_html_", None)
        assert html is None or "<" in html()
