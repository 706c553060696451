"""Sealed files: a flipped bit is noticed, whichever it is; memory that runs out is no damage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import claimed, tables_of

import tonframes as tf
from tonframes import sealed
from tonframes.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
ROWS = pa.table({"lt": [1, 2**63 - 1], "comment": ['"seal": "' + "0" * 64 + '"', None]})
ABOUT = {"schema": 1, "extra": '{"schema": "seal": "' + "f" * 64}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"".join(sealed.content(ROWS.schema, ROWS, ABOUT, [])))
    return path


def flip(file: Path, place: int, bit: int) -> None:
    with file.open("r+b", buffering=0) as target:
        byte = os.pread(target.fileno(), 1, place)[0]
        os.pwrite(target.fileno(), bytes([byte ^ 1 << bit]), place)


def footer_of(file: Path) -> range:
    content = file.read_bytes()
    return range(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content))


def test_a_sealed_file_is_read_as_it_was_written(file):
    for whole in (False, True):
        with sealed.opened(file, whole=whole) as opened:
            assert opened.parquet().read().equals(ROWS)
            assert ABOUT.items() <= opened.about.items()
    assert pq.read_table(file).equals(ROWS)


def test_every_flipped_bit_of_a_footer_is_noticed_when_the_file_is_opened(file):
    unnoticed = []
    for place in footer_of(file):
        for bit in range(8):
            flip(file, place, bit)
            try:
                with sealed.opened(file) as opened:
                    assert opened.parquet().read().equals(ROWS)
                    assert ABOUT.items() <= opened.about.items()
                    unnoticed.append(place)
            except sealed.SealError:
                pass
            flip(file, place, bit)
    # Only a digit of the seal of the whole file may become another digit.
    seal = file.read_bytes().rindex(b'"seal": "') + len('"seal": "')
    assert set(unnoticed) <= set(range(seal, seal + 64))


def test_every_flipped_bit_of_a_file_is_noticed_when_all_of_it_is_verified(file):
    for place in range(file.stat().st_size):
        flip(file, place, place % 8)
        with pytest.raises(sealed.SealError), sealed.opened(file, whole=True):
            pass
        flip(file, place, place % 8)


@pytest.mark.parametrize("length", [0, 3, 7, 11, 100])
def test_a_part_of_a_file_is_none(file, length):
    content = file.read_bytes()
    for part in (content[:length], content[len(content) - length :]):
        file.write_bytes(part)
        with pytest.raises(sealed.SealError, match="only a part of one"), sealed.opened(file):
            pass


# ── in a store ───────────────────────────────────────────────────────────────────────────────────


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

READ_WITHIN = """
import resource, sys
import pyarrow as pa
from tonframes.store import Store
pa.set_cpu_count(1)
store = Store(sys.argv[1])
store.read("blocks", store.held(), ["seqno"])
said = open("/proc/self/status").read().split("VmSize:")[1].split()[0]
resource.setrlimit(resource.RLIMIT_AS, (int(said) * 1024 + 2**24, resource.RLIM_INFINITY))
[(_, file)] = store.held_files("blocks", store.held())
for attempt in (lambda: store.read("blocks", store.held()), file.check):
    try:
        attempt()
        print("read")
    except MemoryError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_runs_out_while_reading_is_no_damage(tmp_path):
    seqno = 90_000_000
    blocks = tf.read_blocks(tf.sample(), [seqno])
    tables = tables_of(blocks)
    place = tables["blocks"].schema.get_field_index("extra")
    large = pa.array(["x" * 2**26] * len(tables["blocks"]))
    field = tables["blocks"].schema.field(place)
    tables["blocks"] = tables["blocks"].set_column(place, field, large)
    store = claimed(tmp_path)
    store.write_blocks(tables, [range(seqno, seqno + 1)], proof="chain")
    done = subprocess.run(
        [sys.executable, "-c", READ_WITHIN, tmp_path],
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    [file] = (tmp_path / "blocks").iterdir()
    first, second = done.stdout.splitlines()
    assert re.fullmatch(rf"memory ran out while {file} was read: .*", first)
    assert second == "read"
    assert store.held() == (range(seqno, seqno + 1),)
    assert not (tmp_path / "damaged").exists()


@pytest.mark.parametrize(
    "error",
    [pa.ArrowMemoryError("realloc failed"), OSError("Couldn't deserialize thrift: bad_alloc")],
)
def test_a_failed_allocation_is_raised_as_memory(monkeypatch, error):
    store = Store(tf.sample())

    def fail(*_args: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(sealed.pq, "ParquetFile", fail)
    with pytest.raises(MemoryError, match=r"memory ran out while .*parquet was read"):
        store.read("blocks", store.held())
