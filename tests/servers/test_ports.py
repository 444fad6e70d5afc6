"""Ports, with real sockets."""

import os
import socket

import pytest

from runner.errors import MachineError
from runner.servers import ports


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.4", False),
        ("node17", False),
    ],
)
def test_which_hosts_are_only_this_machine(host: str, expected: bool) -> None:
    assert ports.is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("node17", "http://node17:80"),
    ],
)
def test_where_to_connect(host: str, url: str) -> None:
    assert ports.url_of(host, 80) == url


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", ports.free_port("127.0.0.1"))):
        pass


def test_an_address_of_another_machine_is_a_machine_error() -> None:
    with pytest.raises(MachineError, match=r"server\.host"):
        ports.free_port("192.0.2.1")  # a documentation address, never ours


def test_a_taken_port_names_its_holder() -> None:
    with listening() as listener:
        port = listener.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port} .* in use") as caught:
            ports.check_port_free("127.0.0.1", port)
    assert f"pid {os.getpid()}" in caught.value.found


def test_a_port_with_a_past_connection_is_free() -> None:
    """Connections in TIME_WAIT are no obstacle to a server, so neither to us."""
    with listening() as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = listener.accept()
        served.close()
        client.close()
    ports.check_port_free("127.0.0.1", port)


def test_nobody_holds_a_free_port() -> None:
    assert ports.port_holder(ports.free_port("127.0.0.1")) == ""


def test_whether_a_process_listens() -> None:
    with listening() as listener:
        port = listener.getsockname()[1]
        assert ports.tree_listens(os.getpid(), port)
    assert not ports.tree_listens(os.getpid(), port)


def test_a_process_that_is_gone_does_not_listen() -> None:
    assert not ports.tree_listens(2**22 - 1, 80)
