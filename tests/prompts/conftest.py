import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from runner.config import Config, parse
from runner.model import RunModel
from runner.plan import make_plan
from runner.plansummary import PlanSummary
from runner.plugins import register_schema
from runner.preflight import limits_of
from runner.render import Tokenizer
from runner.resolve import Resolved
from tests.prompts import toys

_CACHE = tempfile.TemporaryDirectory(prefix="rawtok-hf-")
os.environ["HF_MODULES_CACHE"] = _CACHE.name  # transformers and datasets are imported later
os.environ["HF_DATASETS_CACHE"] = f"{_CACHE.name}/datasets"

CONF = str(Path(__file__).resolve().parents[2] / "conf")


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Config]:
    """A config composed from conf/ with overrides, its outputs in the test's folder."""

    def make(*overrides: str) -> Config:
        register_schema()
        with initialize_config_dir(CONF, version_base="1.3"):
            chosen = [f"paths.outputs={tmp_path}/outputs", "tracking=none", *overrides]
            return parse(compose("config", overrides=chosen))

    return make


@pytest.fixture
def planned(config: Callable[..., Config]) -> Callable[..., tuple[Resolved, PlanSummary]]:
    """Make the plan of a config with the bundled model."""

    def make(*overrides: str) -> tuple[Resolved, PlanSummary]:
        return plan_of(config(*overrides))

    return make


def plan_of(chosen: Config, **changes: Any) -> tuple[Resolved, PlanSummary]:
    resolved = Resolved(chosen, [])
    model = RunModel(chosen, resolved.model)
    try:
        summary = make_plan(
            resolved.run,
            chosen,
            resolved.parts,
            render=changes.get("render", model.ahead),
            limits=limits_of(chosen),
            exclusion=resolved.exclusion,
        )
    finally:
        model.close()
    return resolved, summary


@pytest.fixture(scope="session")
def toy_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("toys")
    return {
        "bundled": toys.BUNDLED,
        "qwen": toys.write_qwen_shaped(base / "qwen"),
        "kimi": toys.write_kimi_shaped(base / "kimi"),
    }


@pytest.fixture(scope="session", params=["bundled", "qwen", "kimi"])
def tokenizer(request: pytest.FixtureRequest, toy_folders: dict[str, Path]) -> Tokenizer:
    """Fast and Kimi-shaped, fast and Qwen-shaped, slow and Kimi-shaped."""
    return toys.load(toy_folders[request.param])
