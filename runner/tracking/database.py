"""Makes the local MLflow database so that no race and no kill can break it.

MLflow's own first touch is a chain of migrations that takes seconds: eight processes that do it
together break the file for good, and so does a kill in the middle. On a busy disk it takes minutes,
since each migration waits until it is on the disk; a file that nobody knows yet need not.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.tracking import quiet


def make_database(path: Path) -> None:
    """Makes an MLflow database at `path`, once, whoever else tries at the same time.

    Under a lock (`<path>.lock`, whose holder's end frees it), under another name, renamed when it
    is whole. Nothing happens when there is one. Its artifacts go beside it, to `mlartifacts`.
    """
    if path.exists() and path.stat().st_size > 0:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and path.stat().st_size > 0:
            return
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.unlink(missing_ok=True)
        _migrate(new, path.with_name("mlartifacts"))
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)


def _migrate(path: Path, artifacts: Path) -> None:
    quiet.mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    with _unsynced(path):
        store = SqlAlchemyStore(f"sqlite:///{path}", str(artifacts))
        store.engine.dispose()


@contextmanager
def _unsynced(path: Path) -> Iterator[None]:
    """Connections to this file that begin inside do not wait for the disk."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def connected(connection: Any, _record: object) -> None:
        if connection.execute("PRAGMA database_list").fetchone()[2] == str(path.resolve()):
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)
