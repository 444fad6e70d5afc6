"""Hydra's hook around a sweep: makes the parent run before the jobs and ends it after them.

Hydra swallows what a callback raises, and does not call `on_multirun_end` when a job raised
(1.3.8). So nothing that must happen is done here, and the end is also registered with `atexit`.

    hydra:
      callbacks:
        sweep_parent:
          _target_: runner.callbacks.SweepParent
"""

import atexit
import copy
import os
import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from runner.tracking import default_uri
from runner.tracking.address import normal_uri
from runner.tracking.state import Target
from runner.tracking.sweep import (
    OVERRIDES_ENV,
    PARENT_ENV,
    SWEEP_DIR_ENV,
    close_parent,
    open_parent,
    sweep_key,
)


class SweepParent(Callback):  # type: ignore[misc] # hydra has no types here
    """One MLflow run above the jobs of a sweep. Does nothing when tracking is off."""

    def __init__(self) -> None:
        self._open: tuple[Path, str] | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Makes (or finds) the parent and tells its id to the jobs."""
        os.environ.pop(PARENT_ENV, None)
        overrides = list(config.hydra.overrides.task)
        os.environ[OVERRIDES_ENV] = "\n".join(overrides)
        settings = resolved(config)
        sweep_dir = Path(settings["sweep_dir"]).absolute()
        os.environ[SWEEP_DIR_ENV] = str(sweep_dir)
        # The Optuna sweeper writes there at its end, also when no trial was left to do.
        sweep_dir.mkdir(parents=True, exist_ok=True)
        if settings["kind"] != "mlflow":
            return
        uri = normal_uri(settings["uri"] or default_uri(Path(settings["outputs"])))
        target = Target(uri=uri, experiment=settings["experiment"], run_name=settings["name"])
        key = sweep_key(overrides, outputs=settings["outputs"])
        parent = open_parent(sweep_dir, target, key=key, say=say)
        if parent:
            os.environ[PARENT_ENV] = parent
            self._open = sweep_dir, uri
            atexit.register(self.finish)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """All jobs returned."""
        self.finish()

    def finish(self) -> None:
        """Ends the parent, once, however often it is called."""
        if self._open is None:
            return
        (sweep_dir, uri), self._open = self._open, None
        os.environ.pop(PARENT_ENV, None)
        close_parent(sweep_dir, uri=uri, say=say)


def resolved(config: DictConfig) -> dict[str, str]:
    """What is needed of the composed config, as plain strings.

    `${hydra:...}` can be resolved only once Hydra has published its config, which it has not yet
    when a sweep starts: it is published for the moment, as a copy.
    """
    published = HydraConfig.instance()
    before, published.cfg = published.cfg, None
    whole = copy.deepcopy(config)
    try:
        published.set_config(whole)
        kind = whole.tracking.kind
        sweep_dir = str(whole.hydra.sweep.dir)
        # `${now:...}` is resolved once: the jobs take it over from the sweep's own config.
        OmegaConf.get_cache(config)["now"] = OmegaConf.get_cache(whole)["now"]
        return {
            "kind": str(getattr(kind, "value", kind)),
            "uri": str(whole.tracking.get("uri") or ""),
            "experiment": str(whole.tracking.experiment),
            "outputs": str(Path(str(whole.paths.outputs)).absolute()),
            "sweep_dir": sweep_dir,
            "name": " ".join(["sweep", *whole.hydra.overrides.task])[:200],
        }
    finally:
        published.cfg = before


def say(text: str) -> None:
    """A line for the person at the terminal; results go to standard output, this does not."""
    sys.stderr.write(text + "\n")
