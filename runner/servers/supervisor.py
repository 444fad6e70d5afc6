"""A tiny program between the runner and a server: nothing of the server outlives the runner.

    python supervisor.py CONTROL_FD STATUS_FD        (both inherited pipes; started by `process`)

It promises that the server and all that descends from it, in whatever session or process group,
is gone when the runner ends in any way (SIGKILL included), when the runner says so, when the
server's own main process ends, or when this program itself is killed.

How. Two processes, forked before the server starts, so that no single SIGKILL leaves an orphan:

    runner ── guard ── keeper ── server ── ... its children

The *keeper* starts the server, watches the control pipe, ends the tree. The *guard* only waits: if
the keeper is killed, the orphans fall to the guard (both are child subreapers), which kills them.
If the guard is killed, its pipe to the keeper closes and the keeper ends the tree. The server's
main process also asks the kernel to be killed with the keeper (PR_SET_PDEATHSIG), in case both go.

Control pipe: one line of JSON, `{"argv", "env", "log", "term_timeout_s", "secrets",
"stop_command", "remove"}` (stop_command is null, or what ends a server that is not below us: a
container; `secrets` are masked in the log; `remove` are files to be deleted at the end), then
`stop SECONDS` at most a few times; end of file means `stop term_timeout_s`.
Status pipe: lines of JSON, `{"event": "started", "pid"}` or `{"event": "failed", "error"}`, then
`{"event": "exited", "code", "signal"}` when the server's main process ends, then maybe
`{"event": "left", "pids"}` for processes that survived SIGKILL (stuck in a driver). End of file
means that everything is gone, but for those.

Not promised: off Linux there are neither subreapers nor /proc, so only the server's process group
is ended. Only the standard library is imported, so that this starts in some 50 ms.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
ON_LINUX = sys.platform == "linux"
POLL_S = 1.0
"""How often the parent's pid is compared: a net for a pipe that a forked child still holds open."""
LEFTOVER_TIMEOUT_S = 5.0
"""What the rest of the tree gets after the server's main process has ended unasked."""
KILL_TIMEOUT_S = 60.0
"""SIGKILL is final, unless a process hangs inside a driver; waiting longer would not help."""
MAX_LINE_BYTES = 1 << 16


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere nothing happens."""
    if ON_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def parents() -> dict[int, int]:
    """pid -> parent pid of every process that /proc shows."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(stat.parent.name)] = int(fields[1])
    return found


def below(ancestor: int, parent_of: dict[int, int]) -> set[int]:
    """All descendants of a process, itself left out."""
    tree = {ancestor}
    while True:
        more = {pid for pid, parent in parent_of.items() if parent in tree} - tree
        if not more:
            return tree - {ancestor}
        tree |= more


def signal_all(
    number: int, *, group: int | None, spare: "subprocess.Popen[bytes] | None" = None
) -> None:
    """Send a signal to the server's process group and to every other descendant of ours, `spare`
    left out."""
    if group is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in below(os.getpid(), parents()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) not in (group, spare.pid if spare else None):
                os.kill(pid, number)


def reap() -> tuple[dict[int, int], bool]:
    """Collect the ended children: ({pid: wait status}, whether any child is left)."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def kill_until_none(*, group: int | None) -> bool:
    """SIGKILL everything below us until nothing is left. False: something is stuck."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while reap()[1]:
        if time.monotonic() > deadline:
            return False
        signal_all(signal.SIGKILL, group=group)
        time.sleep(0.02)
    return True


def wake_on_signals() -> int:
    """Handle the signals that matter by waking `select`: returns the descriptor to watch.

    Handlers rather than SIG_IGN: an ignored signal would stay ignored in the server after exec.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def read_signals(wake: int) -> bytes:
    try:
        return os.read(wake, 4096)
    except BlockingIOError:
        return b""


def say(status: int, **event: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # the runner is gone: nobody to tell
        os.write(status, json.dumps(event).encode() + b"\n")


class Keeper:
    """Starts the server, and ends it with everything below it."""

    def __init__(self, spec: dict[str, Any], *, control: int, status: int, guard: int) -> None:
        self.spec = spec
        self.control: int | None = control
        self.status = status
        self.guard_pipe: int | None = guard
        self.guard_pid = os.getppid()
        self.wake = wake_on_signals()
        self.exited = False
        self.deadline: float | None = None
        self.output: int | None = None
        self.partial = b""
        self.commands = b""
        self.stopping: subprocess.Popen[bytes] | None = None

    def run(self, commands: bytes) -> None:
        with Path(self.spec["log"]).open("ab", buffering=0) as self.log:
            if self.start():
                self.obey(commands)
                self.keep()
                self.copy_output()
                self.write_log(self.partial)

    def keep(self) -> None:
        """Until nothing of the server is left."""
        while not self.none_left():
            self.wait_for_news()
            if self.deadline is not None and time.monotonic() >= self.deadline:
                if not kill_until_none(group=self.server):
                    say(self.status, event="left", pids=sorted(below(os.getpid(), parents())))
                self.report_exit(-signal.SIGKILL)
                return

    def start(self) -> bool:
        """Start the server. False, and told, when its program cannot be run."""
        keeper = os.getpid()
        target: int | BinaryIO = self.log
        if self.spec["secrets"]:
            # Through a pipe of ours only when there is something to mask.
            self.output, target = os.pipe()
            os.set_blocking(self.output, False)

        def in_the_child() -> None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)

        try:
            # Kept, and never polled: `reap` is what waits for it.
            self.process = subprocess.Popen(
                self.spec["argv"],
                env=self.spec["env"],
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=in_the_child,  # single-threaded here, so it is safe
            )
        except OSError as error:
            say(self.status, event="failed", error=f"{error.strerror}: {self.spec['argv'][0]}")
            return False
        if isinstance(target, int):
            os.close(target)
        self.server = self.process.pid
        say(self.status, event="started", pid=self.server)
        return True

    def none_left(self) -> bool:
        ended, some_left = reap()
        if self.server in ended:
            self.report_exit(os.waitstatus_to_exitcode(ended[self.server]))
            self.stop(LEFTOVER_TIMEOUT_S)
            self.ask_to_end()
        return not some_left

    def report_exit(self, code: int) -> None:
        if not self.exited:
            self.exited = True
            self.copy_output()
            name = signal.Signals(-code).name if code < 0 else None
            say(self.status, event="exited", code=None if name else code, signal=name)

    def stop(self, timeout_s: float) -> None:
        """Ask everything to end; a later call can only bring the deadline forward."""
        deadline = time.monotonic() + timeout_s
        if self.deadline is None:
            self.ask_to_end()
            self.deadline = deadline
            self.run_stop_command()
        self.deadline = min(self.deadline, deadline)

    def ask_to_end(self) -> None:
        """SIGTERM to the main process: it drains, and ends its children in its own order (SGLang
        takes a worker that ends by itself for a crash). To all of them once it is gone."""
        if self.exited:
            signal_all(signal.SIGTERM, group=self.server, spare=self.stopping)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.server, signal.SIGTERM)

    def run_stop_command(self) -> None:
        """A child like the others: collected by `reap`, ended by the deadline."""
        argv = self.spec.get("stop_command")
        if not argv:
            return
        try:
            self.stopping = subprocess.Popen(
                argv,
                env=self.spec["env"],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except OSError as error:
            self.write_log(f"stop_command {argv[0]}: {error.strerror}\n".encode())

    def wait_for_news(self) -> None:
        timeout_s = POLL_S
        if self.deadline is not None:
            timeout_s = min(timeout_s, max(0.0, self.deadline - time.monotonic()))
        pipes = (self.control, self.guard_pipe, self.wake, self.output)
        ready = select.select([fd for fd in pipes if fd is not None], [], [], timeout_s)[0]
        if self.output in ready:
            self.copy_output()
        if self.control in ready:
            self.hear(self.control)
        ended_guard = self.guard_pipe in ready or os.getppid() != self.guard_pid
        if ended_guard:
            self.guard_pipe = None
            self.guard_pid = os.getppid()
        asked = self.wake in ready and signal.SIGTERM in read_signals(self.wake)
        if ended_guard or asked:
            self.stop(self.spec["term_timeout_s"])

    def hear(self, control: int) -> None:
        data = os.read(control, 4096)
        if not data:
            self.control = None
            self.stop(self.spec["term_timeout_s"])
        self.obey(data)

    def obey(self, data: bytes) -> None:
        """Each whole line is `stop SECONDS`."""
        *lines, self.commands = (self.commands + data).split(b"\n")
        for line in lines:
            self.stop(float(line.removeprefix(b"stop ")))

    def copy_output(self) -> None:
        """Copy whole lines from the server to the log, secrets masked. A carriage return ends a
        line too: progress bars are how a loading server shows that it lives."""
        while self.output is not None:
            try:
                data = os.read(self.output, MAX_LINE_BYTES)
            except BlockingIOError:
                return
            if not data:
                os.close(self.output)
                self.output = None
                return
            text = self.partial + data
            end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            if len(text) - end > MAX_LINE_BYTES:
                end = len(text)
            self.partial = text[end:]
            self.write_log(text[:end])

    def write_log(self, data: bytes) -> None:
        for secret in self.spec["secrets"]:
            data = data.replace(secret.encode(), b"***")
        self.log.write(data)


def guard(keeper: int, *, life: int) -> None:
    """Wait for the keeper; then see to it that nothing of the server is left."""
    wake = wake_on_signals()
    runner = os.getppid()
    told = False
    while True:
        ended, some_left = reap()
        if keeper in ended or not some_left:
            break
        ready = select.select([wake], [], [], POLL_S)[0]
        asked = bool(ready) and signal.SIGTERM in read_signals(wake)
        if not told and (asked or os.getppid() != runner):
            os.close(life)
            told = True
    kill_until_none(group=None)


def read_spec(control: int) -> tuple[dict[str, Any], bytes] | None:
    """The first line of the control pipe and what came after it. None: the runner is gone."""
    received = b""
    while b"\n" not in received:
        data = os.read(control, MAX_LINE_BYTES)
        if not data:
            return None
        received += data
    line, _, rest = received.partition(b"\n")
    return json.loads(line), rest


def remove_files(spec: dict[str, Any]) -> None:
    """Files with secrets end with the server, even when the runner was killed."""
    for name in spec.get("remove", []):
        Path(name).unlink(missing_ok=True)


def main() -> None:
    control, status = int(sys.argv[1]), int(sys.argv[2])
    received = read_spec(control)
    if received is None:
        return
    spec, commands = received
    reading, writing = os.pipe()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.fork()
    if keeper == 0:
        os.close(writing)
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # not inherited by a fork
        Keeper(spec, control=control, status=status, guard=reading).run(commands)
        remove_files(spec)
        return
    os.close(reading)
    os.close(control)
    guard(keeper, life=writing)
    remove_files(spec)


if __name__ == "__main__":
    main()
