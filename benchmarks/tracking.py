"""What tracking costs the one who tells it: the time of each call, whatever MLflow does.

    python -m benchmarks.tracking [--points 2000]

The client path of a run calls `metrics` and nothing else of tracking. Each case makes the same
calls: without MLflow, into a sqlite file, to an address where nobody listens, and to a server that
accepts and never answers. The calls must cost the same in all of them: one line in a file. "To
none" is the median beside that without MLflow. No call waits for MLflow, but its thread needs the
same interpreter: with a thousand times the points of a real run that is p99. `leaving` is the wait
at a run's end, at most tracking.flush_timeout_s, here 2 s.
"""

import argparse
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.tracking import default_uri, open_tracker, quiet
from runner.tracking.database import make_database

FLUSH_TIMEOUT_S = 2.0


def measure(kind: str, uri: str, points: int) -> list[float]:
    """Seconds of each call of `metrics`, and last those of leaving."""
    # A sender that was given up on may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if kind == "mlflow" and not uri:
            make_database(Path(folder) / "mlflow.db")
        run_dir = Path(folder) / "task" / "run"
        run_dir.mkdir(parents=True)
        opened = open_tracker(
            kind=kind,
            run_dir=run_dir,
            uri=uri or default_uri(Path(folder)),
            experiment="bench",
            run_name="bench",
            flush_timeout_s=FLUSH_TIMEOUT_S,
            say=lambda text: None,
        )
        took = []
        with opened as tracker:
            for step in range(points):
                begun = time.perf_counter()
                tracker.metrics({f"metric/{n}": step * n for n in range(60)}, step)
                took.append(time.perf_counter() - begun)
                time.sleep(0.002)
            begun = time.perf_counter()
        return [*took, time.perf_counter() - begun]


@contextmanager
def silent_server() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []
        stop = threading.Event()
        server.settimeout(0.2)

        def accept() -> None:
            while not stop.is_set():
                try:
                    held.append(server.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()
        for one in held:
            one.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=2000)
    points = parser.parse_args().points
    quiet.mlflow()  # its import takes seconds of this process, once
    print(f"{points} calls of 60 metrics each, milliseconds")
    print(f"{'MLflow':<20}{'median':>9}{'to none':>9}{'p99':>9}{'longest':>9}{'leaving':>9}")
    alone = 0.0
    with silent_server() as silent:
        cases = {
            "none": ("none", ""),
            "sqlite file": ("mlflow", ""),
            "nobody listens": ("mlflow", f"http://127.0.0.1:{free_port()}"),
            "never answers": ("mlflow", silent),
        }
        for name, (kind, uri) in cases.items():
            *took, leaving = (1000 * seconds for seconds in measure(kind, uri, points))
            p99 = statistics.quantiles(took, n=100)[98]
            middle = statistics.median(took)
            alone = alone or middle
            figures = f"{middle:>9.3f}{middle / alone:>9.2f}{p99:>9.3f}{max(took):>9.2f}"
            print(f"{name:<20}{figures}{leaving:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
