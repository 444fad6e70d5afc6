"""From config to command line, as pure functions: what is started is a golden test away.

Flags from the config go to the server under its own names and are never renamed or interpreted,
but for those that the runner must own (address, model, key). Secrets are never in argv: llama.cpp
gets its key by the environment, SGLang by a file for its `--config` flag that is readable only by
this user and removed once the server is up.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.config import Server as ServerConfig
from runner.config.secrets import MASK, SECRET_NAME, masked
from runner.errors import ConfigError
from runner.records import Record
from runner.servers import llamacpp_main
from runner.servers.endpoint import ModelFacts

LLAMACPP_OWNED = {
    "model": "the model's gguf",
    "model.path": "the model's gguf",
    "host": "server.host",
    "hostnames": "server.host",
    "port": "server.port",
    "api_keys": f"the environment variable {llamacpp_main.API_KEY_ENV}",
}
SGLANG_OWNED = {
    "model": "model.id",
    "model_path": "model.id",
    "host": "server.host",
    "port": "server.port",
    "api_key": f"the environment variable {llamacpp_main.API_KEY_ENV}",
    "trust_remote_code": "model.trust_remote_code",
}


class LaunchFacts(Record, frozen=True, kw_only=True):
    """What is decided anew for each launch. `api_key` "" means none; `folder` is the launch's."""

    port: int
    seed: int
    folder: Path
    api_key: str = ""


class Command(Record, frozen=True, kw_only=True):
    """How to start a server: `env` is added to the runner's own environment, `secret_file` (a
    path and a text) is to be written before the start and removed after it."""

    argv: list[str]
    env: dict[str, str] = {}
    secret_file: tuple[Path, str] | None = None


def flag_words(flags: Mapping[str, Any]) -> list[str]:
    """`{"tp": 8, "enable_x": True, "y": False, "z": [1, 2]}` as `--tp 8 --enable-x --z 1 2`."""
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append("--" + name.lstrip("-").replace("_", "-"))
        if value is not True:
            words += [_word(item) for item in (value if isinstance(value, list) else [value])]
    return words


def llamacpp_command(config: ServerConfig, facts: ModelFacts, launch: LaunchFacts) -> Command:
    """llama.cpp as our own program. `n_ctx` is its total, shared between slots: unless the flags
    say otherwise, every one of `n_parallel` slots gets the model's whole context.

    Its fields have defaults that may be true, so here False is said rather than left out. It gets
    no seed: a fixed one would make every sample of a prompt the same.
    """
    _refuse_owned(config.flags, LLAMACPP_OWNED)
    if facts.gguf_path is None:
        raise ConfigError(
            "the embedded server (llama.cpp) needs a GGUF file, and this model has none",
            where="model",
            found=facts.model_path,
            next_step="choose server=sglang or server=external, or a model with a GGUF",
        )
    flags = {name.replace("-", "_"): value for name, value in config.flags.items()}
    slots = int(flags.setdefault("n_parallel", 1))
    if flags.get("n_ctx") is None:
        flags |= {"n_ctx": slots * facts.context_length, "slot_context": facts.context_length}
    words = [
        word
        for name, value in flags.items()
        if value is not None
        for word in (f"--{name}", *map(_word, value if isinstance(value, list) else [value]))
    ]
    address = ["--host", config.host, "--port", str(launch.port)]
    env = {llamacpp_main.API_KEY_ENV: launch.api_key} if launch.api_key else {}
    # By its file: it needs nothing of this project, so it runs under any interpreter.
    ours = [config.python or sys.executable, "-P", llamacpp_main.__file__]
    argv = [*(config.command or ours), "--model", facts.gguf_path, *address, *words]
    return Command(argv=argv, env={**config.env, **env})


def sglang_command(config: ServerConfig, facts: ModelFacts, launch: LaunchFacts) -> Command:
    """SGLang's own launcher. `server.command` replaces the interpreter and its module only."""
    _refuse_owned(config.flags, SGLANG_OWNED)
    flags = {name.lstrip("-").replace("-", "_"): value for name, value in config.flags.items()}
    secret = {name: flags.pop(name) for name in list(flags) if SECRET_NAME.search(name)}
    if launch.api_key:
        secret["api_key"] = launch.api_key
    argv = [
        *(config.command or [config.python or sys.executable, "-m", "sglang.launch_server"]),
        *("--model-path", facts.model_path),
        *(("--revision", facts.revision) if facts.revision else ()),
        *("--host", config.host, "--port", str(launch.port)),
        *flag_words({"random_seed": launch.seed, **flags}),
        *(("--trust-remote-code",) if facts.trust_remote_code else ()),
    ]
    if not secret:
        return Command(argv=argv, env=dict(config.env))
    file = _secret_file(secret, flags=flags, folder=launch.folder)
    return Command(argv=[*argv, "--config", str(file[0])], env=dict(config.env), secret_file=file)


def launch_seed(seed: int, launch: int) -> int:
    """The random seed of one launch: 31 bits, another one for each launch of a run."""
    digest = hashlib.sha256(f"{seed}/{launch}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def masked_argv(argv: Sequence[str], *, secrets: Sequence[str] = ()) -> list[str]:
    """argv as it may be shown: known secrets, and what follows a flag with a secret's name."""
    shown: list[str] = []
    for word in argv:
        after_secret = bool(shown) and bool(SECRET_NAME.search(shown[-1].partition("=")[0]))
        name, equals, _ = word.partition("=")
        if after_secret and shown[-1].startswith("--") and "=" not in shown[-1]:
            word = MASK
        elif equals and name.startswith("-") and SECRET_NAME.search(name):
            word = f"{name}={MASK}"
        for secret in filter(None, secrets):
            word = word.replace(secret, MASK)
        shown.append(word)
    return shown


def masked_env(env: Mapping[str, str]) -> dict[str, str]:
    return masked(env)


def _secret_file(
    secret: dict[str, Any], *, flags: Mapping[str, Any], folder: Path
) -> tuple[Path, str]:
    if "config" in flags:
        raise ConfigError(
            "SGLang takes one --config file, and the runner needs it to pass the API key",
            where="server.flags.config",
            found=str(flags["config"]),
            next_step="write what is in that file as server.flags, or set server.host=127.0.0.1",
        )
    # JSON is YAML.
    named = {name.replace("_", "-"): value for name, value in secret.items()}
    return folder.absolute() / "secrets.yaml", json.dumps(named)


def _word(value: Any) -> str:
    if isinstance(value, bool | dict):
        return json.dumps(value)
    return str(value)


def _refuse_owned(flags: Mapping[str, Any], owned: Mapping[str, str]) -> None:
    for name in flags:
        setting = owned.get(name.lstrip("-").replace("-", "_"))
        if setting is not None:
            raise ConfigError(
                f"the server flag {name} is set by the runner",
                where=f"server.flags.{name}",
                found=MASK if SECRET_NAME.search(name) else repr(flags[name]),
                next_step=f"set {setting} instead",
            )
