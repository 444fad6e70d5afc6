"""Peak memory of the runner against the number of prompts, through a scripted loopback server.

    python -m benchmarks.memory [--sizes 1000,30000,100000]

Each size is one whole `python -m runner` as a process of its own (plan, send, judge, shards,
verdicts; tracking off); the peak is the kernel's own high-water mark (VmHWM). The last column is
what one more prompt costs, from the line before to this one; the peak of a million prompts follows
from the last. Exit code 1 when that is above the limit. Linux only.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = '{"vocab_size": 1280, "vocab_assigned": 1255, "stop_id": 1262, "think_close_id": 1264}'


MILLION, LIMIT_MIB = 1_000_000, 500


def prompts(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for n in range(rows):
            file.write(f'{{"messages": [{{"role": "user", "content": "What is {n} plus 7?"}}]}}\n')


def high_water_mib(pid: int) -> float:
    """The peak resident size so far; 0 once the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((x for x in status.splitlines() if x.startswith("VmHWM")), "VmHWM: 0 kB")
    return int(line.split()[1]) / 1024


def peak_of(rows: int, url: str, folder: Path) -> tuple[float, float]:
    """(MiB, seconds) of one run over `rows` prompts."""
    file = folder / f"{rows}.jsonl"
    prompts(file, rows)
    command = [
        sys.executable, "-m", "runner", "server=external", f"server.urls=[{url}]", "tracking=none",
        "source=file", f"source.path={file}", "client.concurrency=64",
        f"paths.outputs={folder / 'outputs'}", f"task_name=n{rows}",
    ]  # fmt: skip
    start, peak = time.monotonic(), 0.0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, high_water_mib(process.pid))
            time.sleep(0.2)
    if process.returncode != 0:
        raise SystemExit(f"the run of {rows} prompts ended with {process.returncode}")
    return peak, time.monotonic() - start


def at_a_million(peaks: dict[int, float]) -> float:
    """MiB, on the line through the two largest sizes (never less than the largest)."""
    (before, less), (size, peak) = sorted(peaks.items())[-2:]
    return max(peak, peak + (peak - less) / (size - before) * (MILLION - size))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", default="1000,30000,100000")
    sizes = [int(size) for size in arguments.parse_args().sizes.split(",")]
    fake = [sys.executable, "-m", "tests.fake_sglang", "--port", "0", "--scenario", SCENARIO]
    with (
        tempfile.TemporaryDirectory() as name,
        subprocess.Popen(fake, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        peaks: dict[int, float] = {}
        print(f"{'prompts':>9} {'peak MiB':>9} {'seconds':>8} {'bytes per further prompt':>25}")
        for size in sizes:
            peaks[size], seconds = peak_of(size, url, Path(name))
            print(f"{size:>9,} {peaks[size]:>9.0f} {seconds:>8.0f} {more(peaks):>25}", flush=True)
        server.terminate()
    if len(peaks) < 2:
        return 0
    million = at_a_million(peaks)
    print(f"{MILLION:>9,} {million:>9.0f} by the last two lines; limit {LIMIT_MIB}")
    return 1 if million > LIMIT_MIB else 0


def more(peaks: dict[int, float]) -> str:
    """Bytes for each prompt that the last size has more than the one before."""
    for (before, less), (size, peak) in itertools.pairwise(list(peaks.items())[-2:]):
        return f"{(peak - less) * 2**20 / (size - before):.0f}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
