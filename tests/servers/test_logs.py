"""What a log tells about a death."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.servers.logs import (
    CAUSES,
    find_cause,
    likely_cause,
    meaningful_lines,
    tail_lines,
    tail_text,
)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out_of_memory"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction", "out_of_memory"),
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer", "out_of_memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out_of_memory"),
        ("[Errno 98] error while attempting to bind: address already in use", "port_in_use"),
        ("llamacpp server: cannot listen on ::1 port 80: Address already in use", "port_in_use"),
        ("launch_server.py: error: unrecognized arguments: --tpp 8", "unknown_flag"),
        ("sglang serve: error: argument --dtype: invalid choice: 'fp9'", "unknown_flag"),
        ("llamacpp server: unknown flag n_cxt; like it: n_ctx", "unknown_flag"),
        ("llamacpp server: flag n_ctx expects int, not 'abc'", "unknown_flag"),
        ("ModuleNotFoundError: No module named 'sglang'", "missing_package"),
        ("/usr/bin/python: No module named sglang", "missing_package"),
        ("Please pass the argument `trust_remote_code=True` to allow", "needs_remote_code"),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error", "no_access"),
        ("OSError: org/x is not a local folder and is not a valid model id", ""),
        ("org/x is not a local folder and is not a valid model identifier", "missing_model"),
        ("llamacpp server: model file /m.gguf not found", "missing_model"),
        ("srv init: exiting due to model loading error", "missing_model"),
        ("RuntimeError: Cannot find any model weights with `/m`", "missing_model"),
        ("RuntimeError: No CUDA GPUs are available; Found no NVIDIA driver", "no_gpu"),
        ("CUDA error: an illegal memory access was encountered", "gpu_error"),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp", "collective_error"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("OSError: [Errno 24] Too many open files", "open_files"),
        ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
        ("Subprocess scheduler_0 (pid=32698) crashed with exit code -9.", "child_died"),
        ("Ignore import error when loading x: No module named 'cutlass'", ""),
        ("The server is fired up and ready to roll!", ""),
        ("", ""),
    ],
)
def test_known_messages_are_recognised(line: str, key: str) -> None:
    cause = find_cause(f"before\n{line}\nafter")
    assert (cause.key if cause else "") == key


def test_keys_are_unique_and_sentences_are_there() -> None:
    keys = [cause.key for _, cause in CAUSES]
    assert len(set(keys)) == len(keys)
    assert all(cause.sentence for _, cause in CAUSES)


def test_the_log_says_more_than_the_signal() -> None:
    assert "out of memory" in likely_cause("CUDA out of memory", signal="SIGKILL")
    assert "out-of-memory killer" in likely_cause("all is well", signal="SIGKILL")


def test_an_unknown_death_has_no_cause() -> None:
    assert likely_cause("all is well") == ""
    assert likely_cause("all is well", signal="SIGTERM") == ""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\n  \n=====\nb\n", ["a", "b"]),
        ("\x1b[31mred\x1b[0m\n", ["red"]),
        ("load 1%\rload 50%\rload 100%\ndone\n", ["load 100%", "done"]),
        ("windows\r\nline\r\n", ["windows", "line"]),
        ("same\nsame\nsame\nother\n", ["same", "other"]),
        ("torn", ["torn"]),
        ("usage: x [-h]\n          [--tp TP]\nx: error: no\n", ["usage: x [-h]", "x: error: no"]),
        ("y" * 9999, ["y" * 400]),
        ("", []),
    ],
)
def test_only_lines_that_say_something_are_shown(text: str, lines: list[str]) -> None:
    assert meaningful_lines(text, count=9) == lines


@given(st.text(), st.integers(0, 5))
def test_never_more_lines_than_asked_for(text: str, count: int) -> None:
    assert len(meaningful_lines(text, count=count)) <= count


def test_the_end_of_a_large_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(10_000)))
    text = tail_text(log, max_bytes=100)
    assert len(text) <= 100
    assert text.startswith("line ")
    assert text.endswith("line 9999\n")
    assert tail_lines(log, count=2) == ["line 9998", "line 9999"]


def test_what_was_said_before_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("out of memory\nready\n")
    ready = log.stat().st_size
    with log.open("a") as file:
        file.write("the tea is cold\n")
    assert tail_text(log, since_bytes=ready) == "the tea is cold\n"


def test_the_cause_comes_before_its_consequence() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory\nSubprocess scheduler_0 (pid=1) crashed"
    cause = find_cause(log)
    assert cause is not None
    assert cause.key == "out_of_memory"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert tail_text(tmp_path / "none") == ""


def test_bytes_that_are_not_text_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\xff\xfe bad\nend\n")
    assert tail_lines(tmp_path / "log", count=1) == ["end"]
