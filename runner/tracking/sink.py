"""The thread that sends a live run's events. It can be slow, fail or hang: nobody waits for it.

The file is the queue, so the thread owns nothing that could be lost with it.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from runner.tracking import state as states
from runner.tracking.masking import mask_uri
from runner.tracking.sender import Sender
from runner.tracking.state import SenderLock, Target
from runner.tracking.store import UnreachableError

GATHER_S = 1.0
"""After a wake-up, events are gathered for so long: one request for many."""

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0

TRIES_AT_THE_END = 3
PAUSE_AT_THE_END_S = 0.5


class Sink:
    """The sending thread of one run. `start`, `wake` on every event, `close` at the end."""

    def __init__(self, run_dir: Path, target: Target, *, say: Callable[[str], None]) -> None:
        self._run_dir = run_dir
        self._target = target
        self._say = say
        self._lock = SenderLock(run_dir)
        self._wake = Event()
        self._closing = Event()
        self._given_up = Event()
        self._sender: Sender | None = None
        self._down = False
        self._said_down = False
        self._thread = Thread(target=self._run, name="tracking-sink", daemon=True)

    @property
    def mlflow_run_id(self) -> str:
        """The id of the MLflow run, "" until it is known."""
        sender = self._sender
        return sender.state.mlflow_run_id if sender else ""

    def start(self) -> None:
        """Stores where events go, so that `sync` knows it whatever comes, and starts sending."""
        if self._lock.take():
            self._aim()
        self._thread.start()

    def wake(self) -> None:
        """Tells the thread that the file grew. Never waits."""
        self._wake.set()

    def close(self, timeout_s: float) -> bool:
        """Lets the thread send the rest, for `timeout_s` at most. False when something is left."""
        self._closing.set()
        self._wake.set()
        try:
            self._thread.join(timeout_s)
        finally:
            # A thread that hangs in a request is left behind; it must not write any more.
            self._given_up.set()
            self._lock.release()
        return self._sender is not None and self._sender.unsent_bytes == 0

    @property
    def told_down(self) -> bool:
        """Whether the user knows already that the address does not answer."""
        return self._down and self._said_down

    def _aim(self) -> None:
        states.save(self._run_dir, states.aimed(states.load(self._run_dir), self._target))

    def _run(self) -> None:
        while not self._lock.take():  # a `sync` of this run is at work
            if self._closing.wait(GATHER_S):
                return
        self._aim()
        self._sender = Sender(
            self._run_dir, self._target.uri, say=self._tell, stopped=self._given_up.is_set
        )
        while not self._closing.is_set():
            self._send_on(self._sender)
            self._pause()
        self._send_last(self._sender)

    def _send_on(self, sender: Sender) -> None:
        """Sends until nothing is missing, through any outage, or until the end is near."""
        backoff_s = BACKOFF_FIRST_S
        while not self._closing.is_set():
            try:
                more = sender.step()
            except (UnreachableError, OSError) as error:
                self._tell_down(error)
                self._closing.wait(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
            else:
                self._down, backoff_s = False, BACKOFF_FIRST_S
                if not more:
                    return

    def _send_last(self, sender: Sender) -> None:
        """The end: what does not answer now, and did not before, is left to `sync`."""
        tries = 1 if self._down else TRIES_AT_THE_END
        while tries and not self._given_up.is_set():
            try:
                more = sender.step()
                if not more:
                    sender.retry_refused()
            except (UnreachableError, OSError) as error:
                tries -= 1
                self._tell_down(error)
                self._given_up.wait(PAUSE_AT_THE_END_S if tries else 0)
            else:
                self._down = False
                if not more:
                    return

    def _pause(self) -> None:
        self._wake.wait()
        self._wake.clear()
        self._closing.wait(GATHER_S)

    def _tell(self, text: str) -> None:
        if not self._given_up.is_set():
            self._say(text)

    def _tell_down(self, error: Exception) -> None:
        self._down = True
        if not self._said_down:
            self._said_down = True
            self._tell(
                f"tracking: {mask_uri(self._target.uri)} is not reachable ({error}); the run goes "
                f"on, and what is missing is sent when it answers, or later by "
                f"`python -m runner.runs sync {self._run_dir}`"
            )
