"""The queue file: appended whole, mended after a kill, one writer, read from anywhere."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import MachineError
from runner.records import RunStatus
from runner.tracking import journal
from runner.tracking.events import Metrics, Params, Status, encode
from runner.tracking.journal import Journal, read_from


def point(step: int) -> Metrics:
    return Metrics(at=1.0, step=step, values={"a": float(step)})


def steps(path: Path, offset: int = 0) -> list[int]:
    return [event.step for _, _, event in read_from(path, offset) if isinstance(event, Metrics)]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    with Journal(tmp_path) as file:
        for step in range(3):
            file.append(point(step))
        assert steps(file.path) == [0, 1, 2]


def test_reading_goes_on_from_an_offset(tmp_path: Path) -> None:
    with Journal(tmp_path) as file:
        for step in range(3):
            file.append(point(step))
    ends = [end for _, end, _ in read_from(file.path)]
    assert steps(file.path, ends[0]) == [1, 2]
    assert ends[-1] == file.path.stat().st_size


def test_no_file_has_no_lines(tmp_path: Path) -> None:
    assert list(read_from(tmp_path / "none")) == []


@settings(max_examples=40)
@given(cut=st.integers(1, len(encode(point(1)))))
def test_a_torn_tail_is_mended(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("torn") / journal.FILE_NAME
    path.write_bytes(encode(point(0)) + encode(point(1))[:-cut])
    with Journal(path.parent) as file:
        file.append(point(2))
    whole = cut == 1  # only the newline was missing
    assert steps(path) == ([0, 1, 2] if whole else [0, 2])
    assert all(event is not None for _, _, event in read_from(path))


def test_a_file_of_nothing_but_a_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(b'{"event":"st')
    with Journal(tmp_path):
        assert path.read_bytes() == b""


def test_a_torn_line_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(encode(point(0)) + b"x" * 200)
    fd = os.open(path, os.O_RDWR)
    journal.mend_tail(fd, block=16)
    os.close(fd)
    assert path.read_bytes() == encode(point(0))


def test_a_torn_line_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(encode(point(0)) + encode(point(1))[:-1])
    assert steps(path) == [0]


def test_a_damaged_line_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(encode(point(0)) + b"\x00\x00\n" + encode(point(1)))
    assert [event is None for _, _, event in read_from(path)] == [False, True, False]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        Journal(tmp_path),
        pytest.raises(MachineError, match="another process"),
        Journal(tmp_path, wait_s=0),
    ):
        pass


def test_the_lock_ends_with_the_writer(tmp_path: Path) -> None:
    with Journal(tmp_path):
        pass
    with Journal(tmp_path, wait_s=0) as file:
        file.append(point(0))
    assert steps(file.path) == [0]


def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[: len(data) // 2])

    with Journal(tmp_path) as file:
        file.append(point(0))
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space left"):
            file.append(point(1))
        monkeypatch.undo()
        file.append(point(2))
    assert steps(file.path) == [0, 2]


def test_the_first_value_of_a_param_is_known(tmp_path: Path) -> None:
    with Journal(tmp_path) as file:
        file.append(Params(at=1.0, values={"a": 1, "b": None}))
        file.append(point(0))
        file.append(Params(at=2.0, values={"a": 2, "c": "x"}))
    assert journal.params_in(file.path) == {"a": 1, "b": None, "c": "x"}


def test_the_last_status_is_known(tmp_path: Path) -> None:
    assert journal.last_status(tmp_path / journal.FILE_NAME) is None
    with Journal(tmp_path) as file:
        for status in (RunStatus.RUNNING, RunStatus.DONE):
            file.append(Status(at=1.0, status=status))
        file.append(point(0))
    last = journal.last_status(file.path)
    assert last is not None
    assert last.status is RunStatus.DONE
