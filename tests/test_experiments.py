"""Every experiment preset composes to a typed config and says what its name promises."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from runner.config import Config, SourceKind, parse
from runner.plugins import register_schema

CONF = Path(__file__).resolve().parent.parent / "conf"
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


def composed(*overrides: str) -> DictConfig:
    register_schema()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(
            "config", overrides=["paths.outputs=/o", *overrides], return_hydra_config=True
        )


def config(*overrides: str) -> Config:
    whole = composed(*overrides)
    plain = DictConfig({key: whole._get_node(key) for key in whole if key != "hydra"})
    return parse(plain)


def test_there_are_these() -> None:
    assert {"compare_sampling", "kimi_k25_eagle3", "smoke"} <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_composes_and_is_a_task_of_its_own(name: str) -> None:
    assert config(f"experiment={name}").task_name == name
    text = (CONF / "experiment" / f"{name}.yaml").read_text()
    assert text.startswith("# @package _global_\n# ")


def test_the_kimi_job_is_eighty_eight_thousand_prompts_on_eight_gpus() -> None:
    made = config("experiment=kimi_k25_eagle3")
    assert made.model.id == "moonshotai/Kimi-K2.5"
    assert made.source.kind is SourceKind.hub
    assert made.server.flags["tp"] == 8
    assert sorted(made.category.parts) == [f"B{n}" for n in range(1, 9)]
    counts = {name: part.hub.count for name, part in made.category.parts.items() if part.hub}
    # B8's rows are trajectories: its 450 rows give about 11,000 prompts, one for each step.
    assert sum(count or 0 for name, count in counts.items() if name != "B8") == 77_000
    assert made.gates["rejected"] == "<= 0.01"


def test_compare_sampling_is_a_sweep_without_being_asked() -> None:
    hydra = composed("experiment=compare_sampling").hydra
    assert str(hydra.mode).endswith("MULTIRUN")
    assert hydra.sweeper.params.sampling == "greedy,sampled"


def test_a_preset_can_be_overridden() -> None:
    made = config("experiment=kimi_k25_eagle3", "client.concurrency=9", "category.count=20")
    assert made.client.concurrency == 9
    assert made.category.count == 20
