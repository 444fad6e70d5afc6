"""A search of four trials over a real SGLang: two server settings, two numbers in flight."""

from pathlib import Path

import pytest
import yaml

from runner.tuning import best_of, read_trials
from tests.e2e.conftest import Outputs, prompt_file
from tests.sglang.conftest import REAL, START_S

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]


def test_a_grid_of_four_names_its_best_and_leaves_a_preset(
    outputs: Outputs, tmp_path: Path
) -> None:
    space = tmp_path / "conf" / "experiment" / "four.yaml"
    space.parent.mkdir(parents=True)
    params = {"+server.flags.max-running-requests": "1,4", "client.concurrency": "1,4"}
    sweeper = {"sweeper": {"params": {**params, "+server.flags.mem-fraction-static": "0.5"}}}
    preset = yaml.safe_dump({"defaults": ["tune_grid", "_self_"], "hydra": sweeper})
    space.write_text(f"# @package _global_\n{preset}")
    rows = prompt_file(tmp_path / "rows.jsonl", 400)
    ended = outputs.run(
        *(*REAL, "experiment=four", f"hydra.searchpath=[file://{space.parent.parent}]"),
        *(
            "tuning.trial_s=3",
            "source=file",
            f"source.path={rows}",
            "sampling.max_new_tokens=24",
            "canary.count=2",
        ),
        timeout_s=3 * START_S,
    )
    assert ended.code == 0, ended.text
    folder = outputs.path / ".tuning" / "tune_grid"
    trials = read_trials(folder)
    assert len(trials) == 4
    assert all(trial.tokens_per_s for trial in trials), trials
    best = best_of(trials)
    assert best is not None
    assert (folder / "advice.txt").read_text().startswith("Best of 4 trials: ")
    kept = yaml.safe_load((folder / "best" / "server" / "tuned.yaml").read_text())
    assert f"server.flags.max-running-requests={kept['flags']['max-running-requests']}" in " ".join(
        best.overrides
    )
