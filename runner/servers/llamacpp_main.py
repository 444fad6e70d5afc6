"""The embedded server: llama.cpp's own HTTP server, out of the `xllamacpp` package, as a process.

    python llamacpp_main.py --model FILE.gguf --host 127.0.0.1 --port 8080 [--n_parallel 4 ...]

Flags are the fields of xllamacpp's `CommonParams` under their own names (dashes or underscores; a
dot for a nested field, `--cpuparams.poll 0`), plus `n_threads` and `n_threads_batch` as llama.cpp
names them. Enumerations go by the end of their name: `--cache_type_k q8_0`. An API key is taken
from the environment, never from argv.

Context: `n_ctx` is llama.cpp's total, shared between its `n_parallel` slots. Who starts this says
with `--slot_context N` what one slot must hold; less than that ends the program, because answers
would be cut where nobody asked for it.

Ends with 0 on SIGTERM or SIGINT, with 1 and a readable last line when it cannot serve. Nothing of
this project is imported, so it also runs where only xllamacpp is installed.
"""

import contextlib
import difflib
import enum
import json
import os
import select
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

API_KEY_ENV = "RAWTOK_SERVER_API_KEY"
OWN_FLAGS = ("model", "host", "port", "slot_context")
ALIASES = {
    "n_threads": ("cpuparams.n_threads", "cpuparams_batch.n_threads"),
    "n_threads_batch": ("cpuparams_batch.n_threads",),
}
DEFAULTS = {
    "endpoint_metrics": ["true"],  # its counters tell a long prompt from a hang
    "ui": ["false"],
    "cache_ram_mib": ["0"],  # by default it may keep 8 GiB of old prompts in memory
}
"""Ours where llama.cpp's own default does not suit a batch job; any flag given wins."""
TRUE, FALSE = ("true", "1", "on"), ("false", "0", "off")


class BadFlag(ValueError):
    """A flag that is unknown, or whose value does not fit; the message says what is allowed."""


def parse_flags(words: list[str]) -> dict[str, list[str]]:
    """`--a 1 --b --c x y` as {"a": ["1"], "b": ["true"], "c": ["x", "y"]}."""
    flags: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            flags[name] = [value] if equals else []
        elif not name:
            raise BadFlag(f"unknown argument {word!r}: flags begin with --")
        else:
            flags[name].append(word)
    return {name: values or ["true"] for name, values in flags.items()}


def convert(name: str, values: list[str], *, default: Any) -> Any:
    """Words from the command line as the type that the field's default value has."""
    if isinstance(default, list):
        kind = type(default[0]) if default else str
        return [_scalar(name, value, kind) for value in values]
    if len(values) != 1:
        raise BadFlag(f"flag {name} expects one value, not {values}")
    if isinstance(default, bool | int | float | str):
        return _scalar(name, values[0], type(default))
    raise BadFlag(f"flag {name} expects an object; name one of its fields, as in {name}.FIELD")


def _scalar(name: str, value: str, kind: type[Any]) -> Any:
    if kind is bool:
        if value.lower() not in TRUE + FALSE:
            raise BadFlag(f"flag {name} expects true or false, not {value!r}")
        return value.lower() in TRUE
    if issubclass(kind, enum.IntEnum):
        return _member(name, value, kind)
    try:
        return kind(value)
    except ValueError:
        raise BadFlag(f"flag {name} expects {kind.__name__}, not {value!r}") from None


def _member(name: str, value: str, kind: type[enum.IntEnum]) -> int:
    """GGML_TYPE_Q8_0 by `q8_0`, `GGML_TYPE_Q8_0` or its number."""
    for member in kind:
        if value in (str(member.value), member.name) or member.name.endswith(f"_{value.upper()}"):
            return int(member)
    allowed = ", ".join(member.name for member in kind)
    raise BadFlag(f"flag {name} allows {allowed}; not {value!r}")


def field_names(params: Any) -> list[str]:
    return [name for name in dir(params) if not name.startswith("_")]


def set_field(params: Any, path: str, values: list[str]) -> None:
    """Set `a` or `a.b` on a parameter object. Raises BadFlag with the nearest known names."""
    *outer, name = path.split(".")
    owner = params
    for part in outer:
        owner = getattr(owner, part, None)
    if owner is None or name not in field_names(owner):
        alike = difflib.get_close_matches(name, field_names(owner or params))
        raise BadFlag(f"unknown flag {path}; like it: {', '.join(alike) or 'none'}")
    value = convert(path, values, default=getattr(owner, name))
    try:
        setattr(owner, name, value)
    except (TypeError, AttributeError, OverflowError) as error:
        raise BadFlag(f"flag {path} allows no {values}: {error}") from None


def set_fields(params: Any, flags: dict[str, list[str]]) -> None:
    """Apply all flags but our own; the general ones first, so that `n_threads_batch` wins."""
    merged = {**DEFAULTS, **{k: v for k, v in flags.items() if k not in OWN_FLAGS}}
    for name in sorted(merged, key=lambda known: known != "n_threads"):
        for path in ALIASES.get(name, (name,)):
            set_field(params, path, merged[name])


def leave(code: int) -> NoReturn:
    """End at once. Destroying a Server with a request in flight was seen to wait for ever."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fail(message: str) -> NoReturn:
    # llama.cpp's own thread may stand in the middle of a line of its log: ours begins a new one.
    sys.stdout.write(f"\nllamacpp server: {message}\n")
    leave(1)


def check_port(host: str, port: int) -> None:
    """llama.cpp only says "HTTP server error"; this says which port and why."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            fail(f"cannot listen on {host} port {port}: {error.strerror}")


def smallest_slot(address: str) -> int:
    """The context of the smallest slot, in tokens, as the running server tells it."""
    key = os.environ.get(API_KEY_ENV)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(f"{address}/slots", headers=headers)  # noqa: S310 - our own
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        return min(int(slot["n_ctx"]) for slot in json.load(answer))


@contextlib.contextmanager
def until_told_to_end() -> Iterator[int]:
    """A descriptor that becomes readable on SIGTERM or SIGINT, whichever thread it reaches."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    yield reading


def serve(flags: dict[str, list[str]]) -> NoReturn:
    try:
        import xllamacpp
    except ModuleNotFoundError:
        fail("No module named 'xllamacpp': install the `local` extra")
    host, port = flags["host"][0], convert("port", flags["port"], default=0)
    model = Path(flags["model"][0])
    if not model.is_file():
        fail(f"model file {model} not found")
    check_port(host, port)
    params = xllamacpp.CommonParams()
    params.model.path, params.hostnames, params.port = str(model), [host], port
    if key := os.environ.get(API_KEY_ENV):
        params.api_keys = [key]
    set_fields(params, flags)
    # While the weights load, Python runs no handlers: the default action must end us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        fail(f"could not start, see the lines above ({error})")
    with until_told_to_end() as told:
        wanted = convert("slot_context", flags.get("slot_context", ["0"]), default=0)
        held = smallest_slot(server.listening_address) if wanted else 0
        if held < wanted:
            fail(
                f"a slot holds {held} tokens of context, {wanted} are wanted: lower "
                "model.context_length, or raise server.flags.n_ctx if the model can hold more"
            )
        select.select([told], [], [])
    leave(0)


def main(words: list[str]) -> None:
    """Serve until told to end."""
    try:
        flags = parse_flags(words)
        missing = [name for name in OWN_FLAGS[:3] if name not in flags]
        if missing:
            raise BadFlag(f"flag {missing[0]} expects a value and was not given")
        serve(flags)
    except BadFlag as error:
        fail(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
