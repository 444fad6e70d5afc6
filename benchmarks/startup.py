"""How long it takes until work begins, and from one job of a sweep to the next.

    python -m benchmarks.startup [--jobs 5]

Wall-clock seconds on the bundled model with its embedded server, one prompt a job. "Job to job" is
from one run's beginning to that of the next on the server that both share, so it holds a whole job:
composing its config, rendering, one answer, checks, shards, report. The same jobs as processes of
their own, one after another, are what it is compared with. Nothing is tracked but in the last line,
whose sweep is told to MLflow's local database. CPU seconds hardly depend on what else runs.
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


def job_to_job_s(outputs: Path, task: str) -> float:
    """From the beginning of one run of a task to that of the next, the middle of all."""
    runs = [run for run in find_runs(outputs) if run.path.parent.name == task]
    begun = sorted(run.read().created_at for run in runs)
    return median(later - earlier for earlier, later in pairwise(begun))


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
        sweep = ["-m", *one, f"seed={','.join(map(str, range(100, 100 + jobs)))}"]
        cpu_before_s = cpu_now_s()
        whole = timed(*sweep, "task_name=sweep")
        print(f"{f'a sweep of {jobs} such runs':<34}{whole:>8.2f} s")
        further_cpu_s = (cpu_now_s() - cpu_before_s - alone_cpu_s) / (jobs - 1)
        gap = job_to_job_s(Path(folder), "sweep")
        print(f"{'from job to job on one server':<34}{gap:>8.2f} s")
        print(f"{'that is, of a run on its own':<34}{gap / median(alone):>8.2f}")
        print(f"{'CPU of a run on its own':<34}{alone_cpu_s:>8.2f} s, its server included")
        print(f"{'CPU of one more job':<34}{further_cpu_s:>8.2f} s, its server included")
        timed(*sweep, "task_name=tracked", "tracking=mlflow")
        print(f"{'from job to job with MLflow':<34}{job_to_job_s(Path(folder), 'tracked'):>8.2f} s")


if __name__ == "__main__":
    main()
