import pytest
from fault_server import FaultServer


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server
