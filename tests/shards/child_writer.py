"""A writer in a process of its own, to be killed. argv: directory, count, and options as JSON.

Puts the samples 0..count-1 that the directory does not hold yet, prints each acknowledged id on a
line of its own, and "recovered CUT_BYTES" at the start. Options: `dribble` writes at most so many
bytes at a time; `kill_at_write` is the number of the write behind which SIGKILL comes;
`file_limit` is the largest file that the operating system allows.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from runner.errors import MachineError
from runner.shards import ShardReader, ShardWriter
from tests.shards.shardkit import keying, line


def say(text: str) -> None:
    os.write(1, (text + "\n").encode())


def dribble(most_bytes: int, kill_at_write: int) -> None:
    """Make every write a short one, and the last one the last."""
    pwrite, writes = os.pwrite, 0

    def short_pwrite(fd, data, offset):
        nonlocal writes
        written = pwrite(fd, data[:most_bytes], offset)
        writes += len(data) > 10  # the lock file's line does not count
        if writes == kill_at_write:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    os.pwrite = short_pwrite


def main(directory: Path, count: int, options: dict) -> int:
    if "dribble" in options:
        dribble(options["dribble"], options.get("kill_at_write", -1))
    if "file_limit" in options:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options["file_limit"],) * 2)
    done = {keying(one)[0] for one in ShardReader(directory).lines()}
    writer = ShardWriter(
        directory,
        keying=keying,
        frame_bytes=2000,
        linger_s=0.002,
        shard_bytes=options.get("shard_bytes", 20_000),
        on_durable=lambda ids: say("\n".join(ids)),
        on_failure=lambda error: say(f"failed {error.found}"),
    )
    try:
        with writer:
            say(f"recovered {writer.recovery.cut_bytes}")
            for number in range(count):
                one = line(number, text=str(hash((number, "x")) ** 9))
                if keying(one)[0] not in done:
                    writer.put(one, keying(one)[0])
    except MachineError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
