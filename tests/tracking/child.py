"""A small run in a process of its own: `child.py RUN_DIR URI HOW`, ended or killed by the test.

HOW: `done` ends well; `hang` writes, says "ready" and waits to be killed; `many` writes 20,000
points as fast as it can and tells how long the slowest call took.
"""

import sys
import time
from pathlib import Path

from runner.records import RunStatus
from runner.tracking import open_tracker


def main(run_dir: Path, uri: str, how: str) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)
    with open_tracker(
        kind="mlflow",
        run_dir=run_dir,
        uri=uri,
        experiment="exp",
        run_name=run_dir.name,
        flush_timeout_s=1 if how == "many" else 270,
        say=lambda text: print(text, flush=True),
    ) as tracker:
        tracker.params({"name": run_dir.name})
        for step in range(20_000 if how == "many" else 20):
            tracker.metrics({"a": float(step)}, step)
        if how == "hang":
            print("ready", flush=True)
            time.sleep(600)
        if how != "many":
            tracker.finish(RunStatus.DONE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
