"""A real `mlflow server` as a process group of its own, which a test may freeze, kill and start
again at the same address."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.tracking.database import make_database

READY_S = 240
"""Starting takes some seconds; minutes when everything else runs on the same two cores."""


class MlflowServer:
    """Started on entering, gone after leaving. Everything of it lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        make_database(self.folder / "mlflow.db")
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--workers", "1", "--port", str(self.port)]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        log = self.folder / "server.log"
        with log.open("wb") as out:
            process = self._process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_S
        while not self.answers():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def freeze(self) -> None:
        """Connections are taken by the kernel and never answered."""
        self._signal(signal.SIGSTOP)

    def kill(self) -> None:
        """All of it, at once."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _signal(self, number: int) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, number)
