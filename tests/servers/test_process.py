"""One server process: started, watched, ended, with what it leaves behind."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.errors import MachineError, ServerError
from runner.servers.process import ProcessExit, ServerProcess
from tests.servers.conftest import FAKE_SERVER, gone, read_pid, wait_for


def process_of(tmp_path: Path, *words: str, **settings: Any) -> ServerProcess:
    return ServerProcess(
        [*FAKE_SERVER, *words],
        env=settings.pop("env", dict(os.environ)),
        log_path=tmp_path / "server.log",
        term_timeout_s=settings.pop("term_timeout_s", 5.0),
        **settings,
    )


def with_process(
    tmp_path: Path, body: Callable[[ServerProcess], Awaitable[Any]], *words: str, **settings: Any
) -> Any:
    async def run() -> Any:
        async with process_of(tmp_path, *words, **settings) as process:
            return await body(process)

    return asyncio.run(run())


def test_it_runs_until_it_is_stopped(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> int:
        assert process.alive()
        assert not gone(process.pid)
        await process.stop()
        assert not process.alive()
        return process.pid

    assert gone(with_process(tmp_path, body))


def test_sigterm_before_it_handles_it_or_after_ends_it_well(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> ProcessExit:
        await process.stop()
        return await process.exited

    assert with_process(tmp_path, body) in (ProcessExit(code=0), ProcessExit(signal="SIGTERM"))


def test_one_that_ignores_sigterm_is_killed_at_the_deadline(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> ProcessExit:
        await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")
        await asyncio.sleep(0.3)  # the fake says its line just before it ignores SIGTERM
        await process.stop(0.2)
        return await process.exited

    ended = with_process(tmp_path, body, "--ignore-term", "--say", "up")
    assert ended == ProcessExit(signal="SIGKILL")


def test_a_second_stop_brings_the_deadline_forward(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> ProcessExit:
        await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")
        await asyncio.sleep(0.3)
        patient = asyncio.create_task(process.stop(600.0))
        await asyncio.sleep(0)
        await process.stop(0.0)
        await patient
        return await process.exited

    ended = with_process(tmp_path, body, "--ignore-term", "--say", "up")
    assert ended == ProcessExit(signal="SIGKILL")


def test_a_grandchild_in_its_own_session_ends_with_it(tmp_path: Path, doomed: list[int]) -> None:
    pid_file = tmp_path / "pid"

    async def body(process: ServerProcess) -> None:
        doomed.append(await asyncio.to_thread(read_pid, pid_file))
        await process.stop(0.2)
        assert gone(doomed[0])

    with_process(tmp_path, body, "--grandchild", str(pid_file))


def test_what_a_dead_server_leaves_is_ended_too(tmp_path: Path, doomed: list[int]) -> None:
    pid_file = tmp_path / "pid"

    async def body(process: ServerProcess) -> None:
        assert await process.exited == ProcessExit(code=3)
        doomed.append(read_pid(pid_file))
        await process.stop(0.2)
        assert gone(doomed[0])

    with_process(tmp_path, body, "--grandchild", str(pid_file), "--die", "no")


def test_exit_code_and_last_words_are_kept(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> list[str]:
        assert await process.exited == ProcessExit(code=3)
        return process.log_tail()

    assert with_process(tmp_path, body, "--die", "no such weights") == ["no such weights"]


def test_a_signal_is_told_by_its_name(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> ProcessExit:
        os.kill(process.pid, signal.SIGKILL)
        return await process.exited

    assert with_process(tmp_path, body) == ProcessExit(signal="SIGKILL")


def test_a_program_that_does_not_exist_is_a_server_error(tmp_path: Path) -> None:
    async def run() -> None:
        process = ServerProcess(["/no/such/python"], env={}, log_path=tmp_path / "server.log")
        await process.start()

    with pytest.raises(ServerError, match=r"No such file.*\n.*server\.python"):
        asyncio.run(run())


def test_a_program_that_may_not_be_run_is_a_server_error(tmp_path: Path) -> None:
    async def run() -> None:
        await ServerProcess([str(tmp_path)], env={}, log_path=tmp_path / "server.log").start()

    with pytest.raises(ServerError, match="Permission denied"):
        asyncio.run(run())


def test_stop_before_start_and_stop_twice_do_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        process = process_of(tmp_path)
        await process.stop()
        await process.start()
        await process.stop()
        await process.stop()

    asyncio.run(run())


def test_the_server_gets_no_descriptor_and_no_ignored_signal_of_ours(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"

    async def body(process: ServerProcess) -> None:
        await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")

    with_process(tmp_path, body, "--facts", str(facts), "--say", "up")
    seen = json.loads(facts.read_text())
    ours = sum(1 << (n - 1) for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD))
    assert [fd for fd in seen["fds"] if fd > 2] == []
    assert seen["ignored"] & ours == 0


def test_the_server_gets_exactly_the_environment_it_was_given(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"

    async def body(process: ServerProcess) -> None:
        await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")

    env = {"ONLY": "this one", "LC_ALL": "C.UTF-8"}
    with_process(tmp_path, body, "--facts", str(facts), "--say", "up", env=env)
    assert json.loads(facts.read_text())["env"] == env


def test_an_environment_larger_than_a_pipe_arrives(tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    env = {f"NAME_{i}": "x" * 10_000 for i in range(20)} | {"LC_ALL": "C.UTF-8"}

    async def body(process: ServerProcess) -> None:
        await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")

    with_process(tmp_path, body, "--facts", str(facts), "--say", "up", env=env)
    assert json.loads(facts.read_text())["env"] == env


def test_secrets_never_reach_the_log(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> None:
        await process.exited

    with_process(tmp_path, body, "--die", "args: key=hush-hush!", secrets=["hush-hush"])
    assert (tmp_path / "server.log").read_text() == "args: key=***!\n"


def test_a_last_line_without_an_end_is_kept_when_secrets_are_masked(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('x' * 200_000 + '\\nkey hush')"

    async def run() -> None:
        process = ServerProcess(
            [sys.executable, "-c", code],
            env={},
            log_path=tmp_path / "server.log",
            secrets=["hush"],
        )
        async with process:
            await process.exited

    asyncio.run(run())
    assert (tmp_path / "server.log").read_text() == "x" * 200_000 + "\nkey ***"


def test_a_progress_bar_shows_life_when_secrets_are_masked(tmp_path: Path) -> None:
    code = "import time; print('10%', end='\\r', flush=True); time.sleep(600)"

    async def run() -> None:
        process = ServerProcess(
            [sys.executable, "-c", code], env={}, log_path=tmp_path / "server.log", secrets=["x"]
        )
        async with process:
            await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")

    asyncio.run(run())


def test_the_main_process_is_asked_first_so_that_it_ends_its_children(tmp_path: Path) -> None:
    """As SGLang does: a child that got the signal too would count as crashed."""
    child = "import signal, time; signal.signal(15, lambda *_: print('child: TERM')); time.sleep(9)"
    code = (
        "import signal, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "def end(*_):\n"
        "    child.kill(); child.wait(); print('in order', flush=True); sys.exit(0)\n"
        "signal.signal(15, end)\n"
        "print('up', flush=True)\n"
        "signal.pause()\n"
    )

    async def run() -> ProcessExit:
        process = ServerProcess(
            [sys.executable, "-c", code], env={}, log_path=tmp_path / "server.log"
        )
        async with process:
            await asyncio.to_thread(wait_for, lambda: process.log_bytes() > 0, what="its log")
        return process.exited.result()

    assert asyncio.run(run()) == ProcessExit(code=0)
    assert (tmp_path / "server.log").read_text() == "up\nin order\n"


def test_secret_files_end_with_the_server_even_if_the_runner_could_not(tmp_path: Path) -> None:
    secret = tmp_path / "secrets.yaml"
    secret.write_text("hush")

    async def body(process: ServerProcess) -> None:
        assert secret.exists()

    with_process(tmp_path, body, remove=[secret])
    assert not secret.exists()


def test_a_killed_supervisor_is_an_exit_without_code(tmp_path: Path) -> None:
    async def body(process: ServerProcess) -> ProcessExit:
        keeper = psutil.Process(process.pid).parent()
        guard = keeper.parent()
        guard.kill()
        keeper.kill()
        return await process.exited

    ended = with_process(tmp_path, body)
    assert ended == ProcessExit()
    assert str(ended) == "its supervisor was killed"


def with_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> Callable[[], ServerProcess]:
    """Processes under a supervisor that does `code` instead of its duty."""
    script = tmp_path / "supervisor.py"
    script.write_text(f"import os, sys\nstatus = int(sys.argv[2])\n{code}\n")
    monkeypatch.setattr("runner.servers.supervisor.__file__", str(script))
    return lambda: process_of(tmp_path)


def test_processes_that_survive_sigkill_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = '{"event": "started", "pid": 41}\n{"event": "left", "pids": [41, 42]}\n'
    make = with_supervisor(tmp_path, monkeypatch, f"os.write(status, {events.encode()!r})")

    async def run() -> None:
        process = make()
        await process.start()
        await process.exited
        await process.stop()

    with pytest.raises(MachineError, match="pids 41, 42"):
        asyncio.run(run())


def test_a_supervisor_that_breaks_at_once_is_a_server_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = with_supervisor(tmp_path, monkeypatch, "raise SystemExit('broken')")

    async def run() -> None:
        await make().start()

    with pytest.raises(ServerError, match="the supervisor ended before"):
        asyncio.run(run())
    assert (tmp_path / "server.log").read_text() == "broken\n"


def test_a_cancelled_start_can_be_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        process = process_of(tmp_path)
        starting = asyncio.create_task(process.start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await process.stop()
        assert not process.alive()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (ProcessExit(code=3), "exit code 3"),
        (ProcessExit(code=0), "exit code 0"),
        (ProcessExit(signal="SIGKILL"), "killed by SIGKILL"),
    ],
)
def test_an_exit_reads_as_a_sentence(ended: ProcessExit, text: str) -> None:
    assert str(ended) == text
