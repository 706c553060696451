"""Files are written in one way: completely or not at all."""

from __future__ import annotations

import ast
import errno
import os
import socket
import stat
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest

import tonframes as tf
from tonframes.atomic import replacing_all

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
    ("store/compaction.py", "OSFile"),  # parts of a file, which are sorted and removed
    ("store/compaction.py", "write_table"),
    ("export/safe_csv.py", "write_csv"),
    ("export/lake.py", "open"),  # a folder, for its owner and mode
    ("demo.py", "savefig"),
    ("plots/figure.py", "savefig"),  # into memory
    ("store/locks.py", "open"),
    ("cli.py", "open"),  # /dev/null
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


# ── what a user names ────────────────────────────────────────────────────────────────────────────

FRAME = pd.DataFrame({"lt": [2**62], "comment": ["=1"]})
CSV = b'"lt","comment"\n4611686018427387904,"\'=1"\n'


def csv(file: Path) -> Path:
    tf.write_csv(FRAME, file)
    return file


def excel(file: Path) -> Path:
    tf.write_excel(file.with_suffix(".xlsx"), FRAME)
    return file.with_suffix(".xlsx")


def parquet(file: Path) -> Path:
    tf.parse_blocks({"transactions": []}).write(file.parent)
    return file.parent / "transactions.parquet"


EACH = pytest.mark.parametrize("write", [csv, excel, parquet])
posix = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes, modes and owners")
root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")


@posix
@EACH
@pytest.mark.parametrize("there", [True, False])
def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path, write, there):
    kept = tmp_path / "elsewhere" / "kept"
    kept.parent.mkdir()
    if there:
        kept.write_bytes(b"old")
    file = write(tmp_path / "out")
    content = file.read_bytes()
    file.unlink()
    (tmp_path / "between").symlink_to("elsewhere/kept")
    file.symlink_to(tmp_path / "between")
    write(tmp_path / "out")
    assert file.is_symlink()
    assert kept.read_bytes()[:4] == content[:4]  # an Excel file also has the time in it
    assert [each.name for each in kept.parent.iterdir()] == ["kept"]


@posix
@EACH
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_replaced_file_keeps_its_mode(tmp_path, write, mode, monkeypatch):
    file = write(tmp_path / "out")
    file.chmod(mode)
    inode = file.stat().st_ino
    seen = []

    def fsync(handle, sync=os.fsync):
        seen.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.glob("_*.tmp"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "out")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert mode in seen, "nobody else can read it while it is written"
    assert file.stat().st_ino != inode


@root
@EACH
def test_a_replaced_file_keeps_its_owner_and_group(tmp_path, write):
    file = write(tmp_path / "out")
    os.chown(file, 12345, 54321)
    file.chmod(0o640)
    write(tmp_path / "out")
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o640)


@root
@EACH
def test_a_file_whose_owner_cannot_be_kept_is_left_alone(tmp_path, write, monkeypatch):
    file = write(tmp_path / "out")
    os.chown(file, 12345, 54321)
    before = file.read_bytes()

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refused)
    with pytest.raises(PermissionError, match=rf"owner and its group cannot be kept.*{file.name}"):
        write(tmp_path / "out")
    assert file.read_bytes() == before
    assert not list(tmp_path.glob("_*.tmp"))


@posix
def test_a_pipe_is_written_to(tmp_path):
    for write in (csv, excel):
        pipe = tmp_path / ("out.xlsx" if write is excel else "out")
        os.mkfifo(pipe)
        handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            write(tmp_path / "out")
            read = os.read(handle, 2**16)
        finally:
            os.close(handle)
        assert read == CSV if write is csv else zipfile.is_zipfile(BytesIO(read))
        assert pipe.is_fifo()


@posix
def test_a_folder_of_tables_replaces_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "transactions.parquet")
    with pytest.raises(FileExistsError, match="is a folder, a pipe or a device, and not replaced"):
        parquet(tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["transactions.parquet"]


@posix
@EACH
def test_a_link_that_leads_nowhere_else_is_left_alone(tmp_path, write):
    file = write(tmp_path / "out")
    file.unlink()
    file.symlink_to(file.name)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write(tmp_path / "out")
    assert file.is_symlink()


@root
def test_a_device_is_written_to_and_stays(tmp_path):
    null = tmp_path / "out"
    os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    try:
        csv(null)
    except PermissionError:
        pytest.skip("devices do not work in this folder")
    assert null.is_char_device()


STDOUT = """
import os, sys
import pandas as pd
import tonframes as tf
print("before", flush=True)
tf.write_csv(pd.DataFrame({"lt": [1]}), sys.argv[1])
print("after", flush=True)
"""


@posix
@pytest.mark.parametrize("way", ["a pipe", "a file", "a socket"])
def test_stdout_survives(tmp_path, way):
    # What /dev/stdout is, where a test that fails does no harm.
    name = tmp_path / "stdout"
    name.symlink_to("/dev/fd/1")
    command = [sys.executable, "-c", STDOUT, name]
    written = b'before\n"lt"\n1\nafter\n'
    if way == "a file":
        file = tmp_path / "out"
        with file.open("ab") as out:
            out.write(b"first\n")
            out.flush()
            subprocess.run(command, stdout=out, check=True)
        assert file.read_bytes() == b"first\n" + written
    elif way == "a socket":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(command, stdout=theirs, check=True)
            assert ours.recv(1000) == written
    else:
        assert subprocess.run(command, capture_output=True, check=True).stdout == written
    assert name.readlink() == Path("/dev/fd/1")


@posix
def test_a_full_device_is_named(tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    if full.exists():
        with pytest.raises(OSError, match=f"No space left on device: '{full}'"):
            tf.write_csv(FRAME, full)
        assert full.is_symlink()
