"""Tracking: local files are the truth, MLflow mirrors them, and it can never harm a run.

    the run ── one line per event ──> metrics.jsonl ── sink thread, or `sync` ──> MLflow
                                                └─ tracking.json: how far, and which MLflow run

Everything that MLflow is told is first a line in `metrics.jsonl` (see `events`). A thread reads
the file from the last offset that was sent and sends what it finds; `sync` is the same loop run to
its end after the run. MLflow may be down, slow or gone for the whole run. Sending an event twice
changes nothing, so the offset may lag. `mlflow` is imported in that thread only, on its first use.
"""

from runner.tracking.address import compare_url, default_uri, run_url
from runner.tracking.journal import read_from
from runner.tracking.syncing import SyncReport, sync
from runner.tracking.tracker import MlflowTracker, NullTracker, Tracker, open_tracker

__all__ = [
    "MlflowTracker",
    "NullTracker",
    "SyncReport",
    "Tracker",
    "compare_url",
    "default_uri",
    "open_tracker",
    "read_from",
    "run_url",
    "sync",
]
