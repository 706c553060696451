"""Files are written in one way: completely or not at all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tonframes as tf
from tonframes.atomic import exchange, replacing, replacing_all

PACKAGE = Path(tf.__file__).parent
#: Calls that write a file, unless `open` is told to read.
WRITERS = {
    *("open", "write_text", "write_bytes", "to_parquet", "to_csv", "write_table", "write_csv"),
    *("ParquetWriter", "savefig", "OSFile"),
}
#: What they write is no file that anybody reads later: a buffer, an open file, who holds a lock.
ALLOWED = {
    ("sealed.py", "ParquetWriter"),
    ("sealed.py", "write_table"),
    ("sealed.py", "OSFile"),
    ("sealed.py", "open"),  # the seals of a file that has no name yet
    ("store/sorting.py", "OSFile"),  # parts of a file, which are sorted and removed
    ("store/sorting.py", "write_table"),
    ("export.py", "write_csv"),
    ("demo.py", "savefig"),
    ("plots/figure.py", "savefig"),  # into memory
    ("store/locks.py", "open"),
    ("cli/command.py", "open"),  # /dev/null
}


def writers(file: Path) -> set[str]:
    """List the calls in a module that may write a file by itself."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            modes = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            reads = name == "open" and bool({"r", "rb"} & set(modes))
            if name in WRITERS and not reads:
                found.add(name)
    return found


def test_only_one_module_opens_files_for_writing():
    found = {
        (file.relative_to(PACKAGE).as_posix(), name)
        for file in PACKAGE.rglob("*.py")
        if file.name != "atomic.py"
        for name in writers(file)
    }
    assert found == ALLOWED


def test_files_are_replaced_together_or_not_at_all(tmp_path):
    files = [tmp_path / name for name in "ab"]
    files[0].write_text("old")

    def interrupted() -> None:
        with replacing_all(files) as [first, _]:
            first.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert files[0].read_text() == "old"
    with replacing_all(files) as sinks:
        for sink in sinks:
            sink.write(b"new")
        assert files[0].read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]
    assert [file.read_text() for file in files] == ["new", "new"]


def test_an_error_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "rows.csv"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "rows.csv")


def test_folders_exchange_their_names_or_stay(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (one / "file").touch()
    changed = exchange(one, other)
    assert (other / "file").exists() == changed
    assert (one / "file").exists() != changed
    assert not exchange(one, tmp_path / "none")
    assert one.is_dir()
