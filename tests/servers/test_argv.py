"""What is started, word by word."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import Server, ServerKind
from runner.errors import ConfigError
from runner.servers import llamacpp_main
from runner.servers.argv import (
    LaunchFacts,
    flag_words,
    launch_seed,
    llamacpp_command,
    masked_argv,
    masked_env,
    sglang_command,
)
from runner.servers.endpoint import ModelFacts

LAUNCH = LaunchFacts(port=8123, seed=77, folder=Path("/run/launches/01"))
KEYED = LaunchFacts(port=8123, seed=77, folder=Path("/run/launches/01"), api_key="sesame")
FACTS = ModelFacts(model_path="org/model", context_length=2048, gguf_path="/models/m.gguf")


def server(kind: ServerKind, **settings: Any) -> Server:
    return Server(name="s", kind=kind, **settings)


def test_sglang_in_its_own_environment() -> None:
    config = server(
        ServerKind.sglang,
        python="/venv/bin/python",
        flags={
            "tp": 8,
            "mem-fraction-static": 0.85,
            "enable_metrics": True,
            "disable_radix_cache": False,
            "kv_cache_dtype": None,
            "cuda_graph_bs": [1, 2, 4],
            "json_model_override_args": {"rope_scaling": None},
        },
        env={"NCCL_DEBUG": "WARN"},
    )
    command = sglang_command(config, FACTS, LAUNCH)
    assert command.argv == [
        *("/venv/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "org/model"),
        *("--host", "127.0.0.1", "--port", "8123"),
        *("--random-seed", "77"),
        *("--tp", "8"),
        *("--mem-fraction-static", "0.85"),
        "--enable-metrics",
        *("--cuda-graph-bs", "1", "2", "4"),
        *("--json-model-override-args", '{"rope_scaling": null}'),
    ]
    assert command.env == {"NCCL_DEBUG": "WARN"}
    assert command.secret_file is None


def test_sglang_gets_the_pinned_revision_and_remote_code_only_on_demand() -> None:
    facts = ModelFacts(
        model_path="org/model", context_length=8, trust_remote_code=True, revision="abc123"
    )
    argv = sglang_command(server(ServerKind.sglang), facts, LAUNCH).argv
    assert argv[3:7] == ["--model-path", "org/model", "--revision", "abc123"]
    assert argv[-1] == "--trust-remote-code"


def test_a_command_of_the_users_own_replaces_the_interpreter_only() -> None:
    config = server(ServerKind.sglang, command=["docker", "run", "image"])
    argv = sglang_command(config, FACTS, LAUNCH).argv
    assert argv[:5] == ["docker", "run", "image", "--model-path", "org/model"]


def test_a_seed_of_the_users_own_wins() -> None:
    config = server(ServerKind.sglang, flags={"random-seed": 5})
    argv = sglang_command(config, FACTS, LAUNCH).argv
    assert argv[-2:] == ["--random-seed", "5"]
    assert argv.count("--random-seed") == 1


def test_sglangs_key_goes_by_file() -> None:
    command = sglang_command(server(ServerKind.sglang), FACTS, KEYED)
    assert command.argv[-2:] == ["--config", "/run/launches/01/secrets.yaml"]
    assert command.secret_file == (
        Path("/run/launches/01/secrets.yaml"),
        '{"api-key": "sesame"}',
    )
    assert "sesame" not in " ".join(command.argv)


def test_secret_flags_of_sglang_go_by_file_too() -> None:
    config = server(ServerKind.sglang, flags={"admin_api_key": "hush", "tp": 2})
    command = sglang_command(config, FACTS, LAUNCH)
    assert command.secret_file is not None
    assert json.loads(command.secret_file[1]) == {"admin-api-key": "hush"}
    assert "hush" not in " ".join(command.argv)


def test_a_config_file_of_the_users_own_and_a_key_exclude_each_other() -> None:
    config = server(ServerKind.sglang, flags={"config": "mine.yaml"})
    assert "--config" in sglang_command(config, FACTS, LAUNCH).argv
    with pytest.raises(ConfigError, match=r"server\.flags\.config"):
        sglang_command(config, FACTS, KEYED)


def test_llamacpp_gives_every_slot_the_whole_context() -> None:
    config = server(ServerKind.llamacpp, flags={"n_parallel": 4, "n-threads": 2, "warmup": False})
    command = llamacpp_command(config, FACTS, LAUNCH)
    assert command.argv == [
        *(sys.executable, "-P", llamacpp_main.__file__),
        *("--model", "/models/m.gguf"),
        *("--host", "127.0.0.1", "--port", "8123"),
        *("--n_parallel", "4"),
        *("--n_threads", "2"),
        *("--warmup", "false"),
        *("--n_ctx", "8192"),
        *("--slot_context", "2048"),
    ]
    assert command.env == {}


def test_llamacpp_has_one_slot_by_default() -> None:
    argv = llamacpp_command(server(ServerKind.llamacpp), FACTS, LAUNCH).argv
    assert argv[-6:] == ["--n_parallel", "1", "--n_ctx", "2048", "--slot_context", "2048"]


def test_llamacpps_context_in_the_flags_is_taken_as_it_is() -> None:
    config = server(ServerKind.llamacpp, flags={"n_ctx": 512, "n_parallel": 4})
    argv = llamacpp_command(config, FACTS, LAUNCH).argv
    assert argv[-4:] == ["--n_ctx", "512", "--n_parallel", "4"]


def test_llamacpps_key_goes_by_environment() -> None:
    config = server(ServerKind.llamacpp, env={"A": "b"})
    command = llamacpp_command(config, FACTS, KEYED)
    assert command.env == {"A": "b", llamacpp_main.API_KEY_ENV: "sesame"}
    assert "sesame" not in " ".join(command.argv)


def test_llamacpp_without_a_gguf_is_a_config_error() -> None:
    facts = ModelFacts(model_path="org/model", context_length=8)
    with pytest.raises(ConfigError, match="GGUF"):
        llamacpp_command(server(ServerKind.llamacpp), facts, LAUNCH)


@pytest.mark.parametrize("name", ["port", "host", "--model-path", "model_path", "api_key", "model"])
def test_flags_that_the_runner_owns_are_refused_in_sglang(name: str) -> None:
    with pytest.raises(ConfigError, match="set by the runner") as caught:
        sglang_command(server(ServerKind.sglang, flags={name: "hush"}), FACTS, LAUNCH)
    assert ("hush" in str(caught.value)) == ("key" not in name)


@pytest.mark.parametrize("name", ["port", "hostnames", "model.path", "api_keys"])
def test_flags_that_the_runner_owns_are_refused_in_llamacpp(name: str) -> None:
    with pytest.raises(ConfigError, match="set by the runner"):
        llamacpp_command(server(ServerKind.llamacpp, flags={name: 1}), FACTS, LAUNCH)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["s", "--api-key", "x1"], ["s", "--api-key", "***"]),
        (["s", "--api-key=x1"], ["s", "--api-key=***"]),
        (["s", "--hf_token", "x1", "--tp", "2"], ["s", "--hf_token", "***", "--tp", "2"]),
        (["s", "--tokenizer", "t"], ["s", "--tokenizer", "t"]),
        (["s", "--max-total-tokens", "9"], ["s", "--max-total-tokens", "9"]),
        (["s", "--url", "http://sesame@h"], ["s", "--url", "http://***@h"]),
        (["s", "--chat-template", "token"], ["s", "--chat-template", "token"]),
    ],
)
def test_argv_is_shown_without_secrets(argv: list[str], shown: list[str]) -> None:
    assert masked_argv(argv, secrets=["sesame", ""]) == shown


def test_env_is_shown_without_secrets() -> None:
    env = {"HF_TOKEN": "a", "OPENAI_API_KEY": "b", "KEYBOARD": "c", "MY_PASSWORD": "d"}
    assert masked_env(env) == {
        "HF_TOKEN": "***",
        "OPENAI_API_KEY": "***",
        "KEYBOARD": "c",
        "MY_PASSWORD": "***",
    }


def test_a_launch_seed_is_pinned() -> None:
    """Recorded in run directories: it must not change between releases."""
    assert launch_seed(7, 1) == 1776908988


@given(st.integers(), st.integers(1, 10_000))
def test_launch_seeds_fit_into_31_bits(seed: int, launch: int) -> None:
    assert 0 <= launch_seed(seed, launch) < 2**31
    assert launch_seed(seed, launch) == launch_seed(seed, launch)


def test_each_launch_has_another_seed() -> None:
    assert len({launch_seed(7, launch) for launch in range(1000)}) == 1000


@given(
    st.dictionaries(
        st.sampled_from(["tp", "mem_fraction", "enable-x", "a_b_c", "z", "kv-cache_dtype"]),
        st.none() | st.booleans() | st.integers() | st.lists(st.integers(), max_size=3),
    )
)
def test_flag_words_say_every_set_flag_once(flags: dict[str, Any]) -> None:
    words = flag_words(flags)
    said = [word for word in words if word.startswith("--")]
    expected = [
        "--" + k.replace("_", "-") for k, v in flags.items() if v is not None and v is not False
    ]
    assert said == expected
