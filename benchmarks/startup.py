"""How long it takes until work begins, and from one job of a sweep to the next.

    python -m benchmarks.startup [--jobs 5]

Wall-clock seconds on the bundled model with its embedded server, one prompt a job, no tracking.
"Job to job" is from one run's beginning to that of the next on the server that both share, so it
holds a whole job: rendering, one answer, checks, shards, report. The same jobs as processes of
their own, one after another, are what it is compared with.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from runner.rundir import find_runs

ROOT = Path(__file__).resolve().parent.parent


def timed(*overrides: str) -> float:
    """Seconds of one command. Ends the program when it fails."""
    command = [sys.executable, "-m", "runner", *overrides]
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return time.monotonic() - start


def cpu_now_s() -> float:
    """CPU seconds of all ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=5)
    jobs = arguments.parse_args().jobs
    with tempfile.TemporaryDirectory() as folder:
        one = ["tracking=none", "category.count=1", "canary.count=1", f"paths.outputs={folder}"]
        print(f"{'--cfg job':<34}{timed('--cfg', 'job'):>8.2f} s")
        cpu_before_s = cpu_now_s()
        alone = [timed(*one, f"task_name=alone{n}", f"seed={n}") for n in range(min(3, jobs))]
        alone_cpu_s = (cpu_now_s() - cpu_before_s) / len(alone)
        print(f"{'a run of one prompt':<34}{median(alone):>8.2f} s")
        seeds = ",".join(map(str, range(100, 100 + jobs)))
        cpu_before_s = cpu_now_s()
        whole = timed("-m", *one, "task_name=sweep", f"seed={seeds}")
        print(f"{f'a sweep of {jobs} such runs':<34}{whole:>8.2f} s")
        begun = sorted(
            run.read().created_at
            for run in find_runs(Path(folder))
            if run.path.parent.name == "sweep"
        )
        further_cpu_s = (cpu_now_s() - cpu_before_s - alone_cpu_s) / (jobs - 1)
        gap = median(later - earlier for earlier, later in pairwise(begun))
        print(f"{'from job to job on one server':<34}{gap:>8.2f} s")
        print(f"{'that is, of a run on its own':<34}{gap / median(alone):>8.2f}")
        print(f"{'CPU of a run on its own':<34}{alone_cpu_s:>8.2f} s, its server included")
        print(f"{'CPU of one more job':<34}{further_cpu_s:>8.2f} s, its server included")


if __name__ == "__main__":
    main()
