"""Making the local database: whole or not there, and without waiting for the disk at each step."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, create_engine

from runner.tracking.database import make_database

OFF, FULL = 0, 2


@pytest.fixture
def modes() -> Iterator[list[int]]:
    """How each commit of this process waits for the disk: SQLite's `synchronous`."""
    seen: list[int] = []

    def committed(connection: Connection) -> None:
        seen.append(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())

    event.listen(Engine, "commit", committed)
    yield seen
    event.remove(Engine, "commit", committed)


def test_a_new_database_waits_for_the_disk_once(modes: list[int], tmp_path: Path) -> None:
    """A hundred migrations that each wait took minutes where the disk was busy."""
    make_database(tmp_path / "mlflow.db")
    assert len(modes) > 10
    assert set(modes) == {OFF}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mlflow.db", "mlflow.db.lock"]


def test_whoever_writes_to_it_later_waits_as_ever(modes: list[int], tmp_path: Path) -> None:
    make_database(tmp_path / "mlflow.db")
    modes.clear()
    engine = create_engine(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("create table more (a integer)")
    engine.dispose()
    assert modes == [FULL]


def test_it_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    make_database(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table mine (a integer)")
    make_database(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select count(*) from mine").fetchone() == (0,)


def test_what_a_kill_left_is_not_taken_for_a_database(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.touch()
    (tmp_path / ".mlflow.db.0").write_bytes(b"half")
    make_database(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select count(*) from experiments").fetchone() == (1,)
