"""A runner that starts the fake server, writes pids as JSON to a file, and waits to be killed.

python runner_side.py FILE LOG [--fork] WORDS...
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import psutil

from runner.servers.process import ServerProcess


def leak_the_pipe() -> int:
    """A forked child that outlives us and holds our end of the control pipe open."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    return pid


async def main() -> None:
    out, log, *words = sys.argv[1:]
    fork = "--fork" in words
    words = [word for word in words if word != "--fork"]
    fake = str(Path(__file__).with_name("fake_server.py"))
    process = ServerProcess(
        [sys.executable, fake, *words],
        env=dict(os.environ),
        log_path=Path(log),
        term_timeout_s=0.5,
    )
    await process.start()
    leaked = leak_the_pipe() if fork else 0
    keeper = psutil.Process(process.pid).parent()
    guard = keeper.parent()
    pids = {"server": process.pid, "keeper": keeper.pid, "guard": guard.pid, "leaked": leaked}
    Path(out + ".part").write_text(json.dumps(pids))
    Path(out + ".part").rename(out)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main())
