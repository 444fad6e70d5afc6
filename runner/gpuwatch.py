"""Power, memory and load of the machine's NVIDIA GPUs while a run works; best effort.

Asked of nvidia-smi every `INTERVAL_S`. Where it is missing, silent or broken, nothing is known and
nothing fails.
"""

import asyncio

from runner.records import Record
from runner.serverfacts import command_output

INTERVAL_S = 10.0
FIELDS = ("power.draw", "memory.used", "utilization.gpu")
COMMAND = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")


class GpuLook(Record, frozen=True, kw_only=True):
    """One look, over all GPUs: watts and MiB in sum, the mean load from 0 to 1."""

    gpus: int
    power_w: float
    memory_mib: float
    load: float


def parse(text: str) -> GpuLook | None:
    """nvidia-smi's CSV lines; None when there is no GPU in them. A figure that a card does not
    tell ("[N/A]") counts as 0."""
    rows = [[_number(cell) for cell in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == len(FIELDS)]
    if not rows:
        return None
    return GpuLook(
        gpus=len(rows),
        power_w=sum(row[0] for row in rows),
        memory_mib=sum(row[1] for row in rows),
        load=sum(row[2] for row in rows) / len(rows) / 100,
    )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return 0.0


class GpuWatch:
    """What was seen so far. `gpus` is 0 where there are none."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self.looks = 0
        self.gpus = 0
        self._power_w = self._load = 0.0
        self.memory_mib = 0.0
        """At most, over all GPUs."""

    @property
    def power_w(self) -> float:
        """On average, over all GPUs."""
        return self._power_w / self.looks if self.looks else 0.0

    @property
    def load(self) -> float:
        """On average, 0 to 1."""
        return self._load / self.looks if self.looks else 0.0

    def add(self, look: GpuLook) -> None:
        self.looks += 1
        self.gpus = look.gpus
        self._power_w += look.power_w
        self._load += look.load
        self.memory_mib = max(self.memory_mib, look.memory_mib)

    async def watch(self, interval_s: float = INTERVAL_S) -> None:
        """Until cancelled. Where there is no GPU it only waits, and asks no second time."""
        while (look := parse(await asyncio.to_thread(command_output, self._command))) is not None:
            self.add(look)
            await asyncio.sleep(interval_s)
        await asyncio.Event().wait()
