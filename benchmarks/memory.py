"""Peak memory of the runner against the number of prompts, through a scripted loopback server.

    python -m benchmarks.memory [--sizes 1000,10000,100000]

Each size is one whole `python -m runner` as a process of its own (plan, send, judge, shards,
verdicts; tracking off); the peak is the kernel's own high-water mark (VmHWM). The last column is
what one more prompt costs, from the smallest size to this one. Linux only.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = '{"vocab_size": 1280, "vocab_assigned": 1255, "stop_id": 1262, "think_close_id": 1264}'


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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sizes", default="1000,10000,100000")
    sizes = [int(size) for size in arguments.parse_args().sizes.split(",")]
    fake = [sys.executable, "-m", "tests.fake_sglang", "--port", "0", "--scenario", SCENARIO]
    with (
        tempfile.TemporaryDirectory() as name,
        subprocess.Popen(fake, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        first = 0.0
        print(f"{'prompts':>9} {'peak MiB':>9} {'seconds':>8} {'bytes per further prompt':>25}")
        for size in sizes:
            peak, seconds = peak_of(size, url, Path(name))
            first = first or peak
            more = (peak - first) * 2**20 / max(1, size - sizes[0])
            print(f"{size:>9,} {peak:>9.0f} {seconds:>8.0f} {more:>25.0f}", flush=True)
        server.terminate()


if __name__ == "__main__":
    main()
