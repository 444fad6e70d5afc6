"""Every model and server preset composes to a typed config, and to its command line."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from runner.config import Config, ServerKind, parse
from runner.plugins import register_schema
from runner.servers.argv import LaunchFacts, sglang_command
from runner.servers.endpoint import ModelFacts

CONF = Path(__file__).resolve().parent.parent / "conf"
MODELS = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
SERVERS = sorted(path.stem for path in (CONF / "server").glob("*.yaml"))
LARGE = ("deepseek_v3", "glm", "gpt_oss", "kimi_k25", "llama3", "minimax_m2", "qwen3")


def config(*overrides: str) -> Config:
    register_schema()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return parse(compose("config", overrides=["paths.outputs=/o", *overrides]))


def argv(config: Config) -> list[str]:
    facts = ModelFacts(
        model_path=config.model.id,
        context_length=config.model.context_length,
        trust_remote_code=config.model.trust_remote_code,
    )
    launch = LaunchFacts(port=30000, seed=7, folder=Path("/launch"))
    return sglang_command(config.server, facts, launch).argv


@pytest.mark.parametrize("model", MODELS)
def test_a_model_preset_composes_in_each_of_its_modes(model: str) -> None:
    for mode in config(f"model={model}").model.modes:
        composed = config(f"model={model}", f"mode={mode}")
        assert composed.model.name == model
        assert composed.sampling.max_new_tokens < composed.model.context_length


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_preset_composes(server: str) -> None:
    urls = ["server.urls=[http://127.0.0.1:1]"] if server == "external" else []
    assert config(f"server={server}", *urls).server.name == server


@pytest.mark.parametrize("model", LARGE)
def test_a_preset_says_that_it_is_unproven(model: str) -> None:
    assert "Unproven until run" in (CONF / "model" / f"{model}.yaml").read_text()


def test_only_the_model_whose_repository_has_code_of_its_own_trusts_it() -> None:
    trusting = [model for model in MODELS if config(f"model={model}").model.trust_remote_code]
    assert trusting == ["kimi_k25"]


def test_kimi_on_eight_gpus_has_its_documented_command_line() -> None:
    words = argv(config("model=kimi_k25", "server=sglang_tp8", "server.python=/venv/bin/python"))
    assert words == [
        *("/venv/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "moonshotai/Kimi-K2.5", "--host", "127.0.0.1", "--port", "30000"),
        *("--random-seed", "7", "--tp", "8"),
        *("--tool-call-parser", "kimi_k2", "--reasoning-parser", "kimi_k2"),
        "--trust-remote-code",
    ]


def test_the_servers_flags_win_over_the_models() -> None:
    words = argv(config("model=kimi_k25", "server=sglang", "+server.flags.tp=4"))
    assert words[words.index("--tp") + 1] == "4"
    assert words.count("--tp") == 1


def test_null_takes_one_of_the_models_flags_out() -> None:
    words = argv(config("model=kimi_k25", "server=sglang", "+server.flags.reasoning-parser=null"))
    assert "--reasoning-parser" not in words


def test_a_models_flags_are_for_sglang_only() -> None:
    composed = config("model=kimi_k25", "server=llamacpp")
    assert composed.server.kind is ServerKind.llamacpp
    assert "tool-call-parser" not in composed.server.flags


def test_dp8_is_eight_copies() -> None:
    words = argv(config("model=qwen3", "server=sglang_dp8"))
    assert words[words.index("--dp") + 1] == "8"
    assert words[words.index("--tp") + 1] == "1"
