"""Rounds of the soak, each of a fixed seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "way"), [(4, "service dialect, windows"), (2, "service dialect, block by block")]
)
def test_a_round_ends_with_whole_stores(seed, way):
    command = [sys.executable, str(SOAK), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{way}: " in done.stdout
    assert "1 rounds, all whole" in done.stdout
