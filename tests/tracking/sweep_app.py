"""A tiny Hydra program with our callback: `sweep_app.py -m n=1,2 ...`; a job with `n=13` raises."""

import json
import os
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

CONFIG = {
    "n": 1,
    "tracking": {"kind": "mlflow", "uri": None, "experiment": "exp"},
    "paths": {"outputs": "${oc.env:OUTPUTS,outputs}"},
    "hydra": {
        "callbacks": {"sweep_parent": {"_target_": "runner.callbacks.SweepParent"}},
        "sweep": {"dir": "${paths.outputs}/sweep", "subdir": "${hydra.job.num}"},
        "output_subdir": None,
    },
}


@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(config: DictConfig) -> None:
    if config.n == 13:
        raise ValueError("this job breaks")
    job = HydraConfig.get()
    print("parent", os.environ.get("RAWTOK_SWEEP_PARENT_RUN_ID", "none"), flush=True)
    line = {
        "job": job.job.num,
        "run_dir": f"run-{config.n}",
        "exit_code": 3 if config.n == 3 else 0,
        "status": "gate_failed" if config.n == 3 else "done",
        "mlflow_run_id": f"id{config.n}",
        "overrides": list(job.overrides.task),
        "metrics": {"ok": float(config.n), "rate": None},
    }
    with (Path(job.sweep.dir) / "jobs.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    ConfigStore.instance().store("config", OmegaConf.create(CONFIG))
    main()
