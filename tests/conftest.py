"""What the tests share: the recorded responses, the references, and how long Hypothesis looks."""

import json
import os
import signal
from pathlib import Path

import pytest
from chains import Answers
from hypothesis import HealthCheck, settings

import tonframes as tf

# A shell's background job ignores Ctrl-C, and so would the tests of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).parents[1].parent / "shared"

# These runs draw the same examples every time; `soak` looks for new ones.
for profile, examples in {"versions": 5, "fast": 10, "slow": 100}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile(
    "soak",
    max_examples=3000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def _shared(name):
    """Return a folder beside the checkout, or skip the test.

    The folder is not part of the repository. With ``TONFRAMES_RECORDED=required`` its absence is
    an error, so that a run that must use the recorded data cannot skip it unseen.
    """
    folder = SHARED / name
    if not folder.is_dir():
        absent = f"there is no folder {name} in {SHARED.name} beside the checkout"
        if os.environ.get("TONFRAMES_RECORDED") == "required":
            pytest.fail(f"{absent}, and TONFRAMES_RECORDED=required asks for it")
        pytest.skip(absent)
    return folder


@pytest.fixture(scope="session")
def real():
    """Return the folder of answers recorded from real services."""
    return _shared("real")


@pytest.fixture(scope="session")
def reference():
    """Return the folder of the specification and of the names that the field uses."""
    return _shared("reference")


@pytest.fixture(scope="session")
def recorded(real):
    """Return the recorded answers about blocks."""
    paths = sorted((real / "masterchainBlockShards").glob("*.json"))
    assert paths
    return Answers(json.loads(path.read_bytes()) for path in paths)


@pytest.fixture(scope="session")
def blocks():
    """Return the blocks of the sample."""
    return tf.read_blocks(tf.sample())
