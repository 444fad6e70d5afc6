"""Hosts and ports: which are free, which are ours, how to reach them.

A free port is found by binding to port 0 and letting go: another process can take it before the
server does. Nothing can close that window for a server that binds by itself, so the caller starts
again with another port when the server says that its port is taken.
"""

import errno
import ipaddress
import socket

import psutil

from runner.errors import MachineError


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """The address to connect to for a server that listens on `host` (a wildcard: via loopback)."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def free_port(host: str) -> int:
    """A port that nobody listens on right now. Raises MachineError when `host` is not ours."""
    with _socket(host) as trial:
        try:
            trial.bind((host, 0))
        except OSError as error:
            raise _cannot_listen(host, 0, error) from error
        port: int = trial.getsockname()[1]
        return port


def check_port_free(host: str, port: int) -> None:
    """Raises MachineError when `port` cannot be listened on, naming who holds it if that shows."""
    with _socket(host) as trial:
        # As servers do: connections in TIME_WAIT are no obstacle, a listener is.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise _cannot_listen(host, port, error) from error


def port_holder(port: int) -> str:
    """ "pid 12 (python)" of the process that listens on a port; "" when this user may not see."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            if listens and connection.pid:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        return ""
    return ""


def tree_listens(pid: int, port: int) -> bool:
    """Whether a process or one of its descendants listens on a port. True when that is hidden."""
    try:
        root = psutil.Process(pid)
        return any(_listens(process, port) for process in [root, *root.children(recursive=True)])
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        connections = process.net_connections(kind="tcp")
    except psutil.NoSuchProcess:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)


def _cannot_listen(host: str, port: int, error: OSError) -> MachineError:
    in_use = error.errno == errno.EADDRINUSE
    holder = port_holder(port) if in_use else ""
    return MachineError(
        f"port {port} on {host} is in use" if in_use else f"cannot listen on {host} port {port}",
        where="server.host, server.port",
        found=f"held by {holder}" if holder else str(error.strerror or error),
        next_step="end that process, choose another server.port, or 0 for a free one"
        if in_use
        else "set server.host to an address of this machine",
    )
