"""Two servers never share a GPU by accident: one lock for each GPU of this host.

A lock is a file in the host's folder for temporary files, held by `flock`. Its descriptor goes to
the server's supervisor, so a lock lasts exactly as long as something of that server may be alive,
however the runner ends, and a dead one's is free at once.

Which GPUs a server takes is read off its command line as SGLang reads it; where that is not clear
(several nodes, devices beyond those that are visible), all that are visible. A GPU named by its
index and the same one named by its UUID are not seen to be one.
"""

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from runner.errors import MachineError

PATIENCE_S = 10.0
"""How long a server that was just told to end may take to let go."""
_POLL_S = 0.2
_SIZES = {
    "tp": ("--tp", "--tp-size", "--tensor-parallel-size"),
    "pp": ("--pp", "--pp-size", "--pipeline-parallel-size"),
    "dp": ("--dp", "--dp-size", "--data-parallel-size"),
    "step": ("--gpu-id-step",),
    "nodes": ("--nnodes",),
}
"""SGLang's flags (0.5.23) that decide which devices it takes, in every spelling it knows."""
_FIRST = ("--base-gpu-id",)
_SHARES_DEVICES = ("--enable-dp-attention", "--attn-dp-size")
"""With these, data parallelism is inside the tensor-parallel group."""


def gpus_here(devices: Path = Path("/dev")) -> list[str]:
    """The indexes of this host's NVIDIA GPUs, by their device files."""
    found = (path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*"))
    return [str(index) for index in sorted(int(name) for name in found if name.isdigit())]


def gpus_taken(argv: Sequence[str], env: Mapping[str, str], here: Sequence[str]) -> list[str]:
    """The GPUs that an SGLang server with this command line and environment takes on a host that
    has `here`, as CUDA_VISIBLE_DEVICES names them."""
    if not here or _value(argv, ("--device",)) == "cpu":
        return []
    visible = list(here)
    if (chosen := env.get("CUDA_VISIBLE_DEVICES")) is not None:
        visible = [name for name in (one.strip() for one in chosen.split(",")) if name]
        if "-1" in visible:  # CUDA sees nothing from there on
            visible = visible[: visible.index("-1")]
    try:
        size = {name: int(_value(argv, flags) or 1) for name, flags in _SIZES.items()}
        first = int(_value(argv, _FIRST) or 0)
    except ValueError:  # the server will complain in its own words
        return visible
    count = size["tp"] * size["pp"]
    if not any(word.partition("=")[0] in _SHARES_DEVICES for word in argv):
        count *= size["dp"]
    taken = visible[first :: size["step"]][:count] if size["step"] > 0 else []
    return taken if len(taken) == count and size["nodes"] == 1 else visible


def _value(argv: Sequence[str], flags: Sequence[str]) -> str:
    """What the last of these flags is given; "" for none."""
    found = ""
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in flags:
            found = value if equals else after
    return found


@asynccontextmanager
async def held(
    gpus: Sequence[str], *, owner: str, folder: Path | None = None, patience_s: float = PATIENCE_S
) -> AsyncIterator[list[int]]:
    """Hold these GPUs, and give the descriptors of their locks for a process to inherit: what it
    inherited stays locked until it ends. `owner` is what another run is told.

    Raises:
        MachineError: another server holds one of them, or its lock cannot be opened.
    """
    folder = folder if folder is not None else Path(tempfile.gettempdir())
    with ExitStack() as closing:
        descriptors = []
        until = time.monotonic() + patience_s
        for gpu in sorted(set(gpus)):
            descriptor = _open(folder / f"rawtok-gpu-{gpu}.lock")
            closing.callback(os.close, descriptor)
            while not _locks(descriptor):
                if time.monotonic() >= until:
                    raise _in_use(gpu, os.pread(descriptor, 4096, 0).decode(errors="replace"))
                await asyncio.sleep(_POLL_S)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, owner.encode(), 0)
            descriptors.append(descriptor)
        yield descriptors


def _open(path: Path) -> int:
    """Made for every user of the host. An existing file is opened without O_CREAT, which Linux
    refuses for another user's file in a sticky folder (fs.protected_regular)."""
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask
            return descriptor
    except OSError as error:
        raise MachineError(
            "The lock of a GPU cannot be opened.",
            where=str(path),
            found=error.strerror or str(error),
            next_step="check who owns that file",
        ) from error


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(gpu: str, owner: str) -> MachineError:
    return MachineError(
        f"GPU {gpu} belongs to another server that is running.",
        where="CUDA_VISIBLE_DEVICES, server.flags",
        found=owner or "no word of whose it is",
        next_step="wait for that run, stop it (python -m runner.runs stop RUN), or choose other "
        "GPUs: CUDA_VISIBLE_DEVICES=4,5,6,7",
    )
