"""The embedded server: flags without the package, and the real llama.cpp with the bundled model."""

import asyncio
import enum
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.config import Server, ServerKind
from runner.servers import llamacpp_main, ports
from runner.servers.base import ModelFacts, open_server
from runner.servers.launched import LaunchedServer
from runner.servers.llamacpp_main import BadFlag, convert, parse_flags, set_fields
from runner.servers.ready import ServerDied

GGUF = Path(llamacpp_main.__file__).parents[1] / "assets" / "tiny_reasoner" / "tiny_reasoner.gguf"
CONTEXT_LENGTH = 2048


class Quant(enum.IntEnum):
    GGML_TYPE_F16 = 1
    GGML_TYPE_Q8_0 = 8


class Params(SimpleNamespace):
    """The shape of xllamacpp's CommonParams, as far as flags go."""

    def __init__(self) -> None:
        super().__init__(
            n_ctx=0,
            warmup=True,
            rope=0.0,
            alias="",
            names=[],
            split=[0.0],
            cache_type_k=Quant.GGML_TYPE_F16,
            cpuparams=SimpleNamespace(n_threads=-1, poll=50),
            cpuparams_batch=SimpleNamespace(n_threads=-1),
            endpoint_metrics=False,
            ui=True,
            cache_ram_mib=8192,
        )


def given(*words: str) -> Params:
    params = Params()
    set_fields(params, parse_flags(list(words)))
    return params


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--a", "1", "--b", "--c-d", "x", "y"], {"a": ["1"], "b": ["true"], "c_d": ["x", "y"]}),
        (["--a=1=2"], {"a": ["1=2"]}),
        (["--a", "-1"], {"a": ["-1"]}),
        ([], {}),
    ],
)
def test_words_become_flags(words: list[str], flags: dict[str, list[str]]) -> None:
    assert parse_flags(words) == flags


def test_a_word_without_a_flag_is_refused() -> None:
    with pytest.raises(BadFlag, match=r"'model\.gguf'"):
        parse_flags(["model.gguf"])


def test_flags_take_the_type_of_their_field() -> None:
    params = given(
        *("--n_ctx", "512", "--warmup", "false", "--rope", "1e4", "--alias", "7"),
        *("--names", "a", "b", "--split", "1", "2", "--cache-type-k", "q8_0"),
    )
    assert params.n_ctx == 512
    assert params.warmup is False
    assert params.rope == 1e4
    assert params.alias == "7"
    assert params.names == ["a", "b"]
    assert params.split == [1.0, 2.0]
    assert params.cache_type_k == 8


@pytest.mark.parametrize("value", ["q8_0", "GGML_TYPE_Q8_0", "8"])
def test_an_enumeration_has_several_spellings(value: str) -> None:
    assert convert("f", [value], default=Quant.GGML_TYPE_F16) == 8


def test_threads_go_to_both_kinds_of_work_unless_said_otherwise() -> None:
    params = given("--n_threads_batch", "5", "--n_threads", "3")
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (3, 5)
    params = given("--n_threads", "3")
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (3, 3)


def test_a_nested_field_goes_by_a_dot() -> None:
    assert given("--cpuparams.poll", "0").cpuparams.poll == 0


def test_our_defaults_hold_unless_said_otherwise() -> None:
    assert (given().cache_ram_mib, given().endpoint_metrics, given().ui) == (0, True, False)
    assert given("--cache_ram_mib", "16").cache_ram_mib == 16


def test_our_own_flags_are_not_fields() -> None:
    given("--model", "m", "--host", "h", "--port", "1", "--slot_context", "5")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n_cxt", "5"], "unknown flag n_cxt; like it: n_ctx"),
        (["--cpuparams.pol", "5"], "unknown flag cpuparams.pol; like it: poll"),
        (["--nothing.x", "5"], "unknown flag nothing.x"),
        (["--n_ctx", "many"], "n_ctx expects int, not 'many'"),
        (["--n_ctx", "1", "2"], "n_ctx expects one value"),
        (["--warmup", "perhaps"], "warmup expects true or false"),
        (["--cache_type_k", "q9"], "cache_type_k allows GGML_TYPE_F16, GGML_TYPE_Q8_0"),
        (["--cpuparams", "5"], "cpuparams expects an object"),
    ],
)
def test_a_wrong_flag_says_what_is_allowed(words: list[str], message: str) -> None:
    with pytest.raises(BadFlag, match=message):
        given(*words)


def test_the_real_parameters_take_our_defaults() -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    params = xllamacpp.CommonParams()
    flags = parse_flags(["--cache_type_k", "q8_0", "--n_threads", "1", "--cpuparams.poll", "0"])
    set_fields(params, flags)
    assert params.cpuparams.n_threads == 1
    assert params.cache_type_k == 8
    assert params.cache_ram_mib == 0


def run_main(*words: str, python: tuple[str, ...] = ("-P",)) -> tuple[int, str]:
    """Exit code and our own last line; llama.cpp's lines come when its thread likes."""
    ended = subprocess.run(
        [sys.executable, *python, llamacpp_main.__file__, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    ours = [line for line in ended.stdout.splitlines() if line.startswith("llamacpp server:")]
    return ended.returncode, ours[-1]


def needs_model() -> tuple[str, ...]:
    pytest.importorskip("xllamacpp")
    return ("--model", str(GGUF), "--host", "127.0.0.1")


def test_a_missing_model_file_is_named() -> None:
    pytest.importorskip("xllamacpp")
    code, last = run_main("--model", "/no/m.gguf", "--host", "127.0.0.1", "--port", "0")
    assert (code, last) == (1, "llamacpp server: model file /no/m.gguf not found")


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / "m.gguf").write_text("not a model")
    code, last = run_main("--model", str(tmp_path / "m.gguf"), "--host", "127.0.0.1", "--port", "0")
    assert code == 1
    assert last.startswith("llamacpp server: could not start, see the lines above")


def test_a_taken_port_is_named() -> None:
    words = needs_model()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, last = run_main(*words, "--port", str(port))
    assert code == 1
    assert (
        last == f"llamacpp server: cannot listen on 127.0.0.1 port {port}: Address already in use"
    )


def test_a_forgotten_flag_is_named() -> None:
    code, last = run_main("--model", "m")
    assert (code, last) == (1, "llamacpp server: flag host expects a value and was not given")


def test_a_missing_package_is_named() -> None:
    words = ("--model", "m", "--host", "127.0.0.1", "--port", "0")
    code, last = run_main(*words, python=("-I", "-S"))
    assert code == 1
    assert "No module named 'xllamacpp'" in last


def test_slots_with_too_little_context_end_it() -> None:
    words = (*needs_model(), "--n_parallel", "2", "--n_ctx", "512", "--slot_context", "512")
    code, last = run_main(*words, "--port", str(ports.free_port("127.0.0.1")), "--n_threads", "1")
    assert code == 1
    assert "a slot holds 256 tokens of context, 512 are wanted" in last


def launch(tmp_path: Path, **settings: Any) -> LaunchedServer:
    flags = {"n_parallel": 3, "n_threads": 1} | settings.pop("flags", {})
    config = Server(name="llamacpp", kind=ServerKind.llamacpp, flags=flags, **settings)
    facts = ModelFacts(model_path="", gguf_path=str(GGUF), context_length=CONTEXT_LENGTH)
    server = open_server(config, facts, launches_dir=tmp_path, seed=7)
    assert isinstance(server, LaunchedServer)
    return server


def ask(url: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return json.load(answer)


def test_the_real_server_answers_and_ends_well_with_a_request_in_flight(tmp_path: Path) -> None:
    needs_model()

    async def run() -> None:
        async with launch(tmp_path) as server:
            url = server.endpoints[0].url
            slots = await asyncio.to_thread(ask, f"{url}/slots")
            assert [slot["n_ctx"] for slot in slots] == [CONTEXT_LENGTH] * 3
            body = {"prompt": [1, 2, 3], "n_predict": 4, "return_tokens": True}
            answer = await asyncio.to_thread(ask, f"{url}/completion", body)
            assert answer["tokens"]
            endless = {"prompt": [1, 2, 3], "n_predict": 1900, "ignore_eos": True}
            flying = asyncio.create_task(asyncio.to_thread(ask, f"{url}/completion", endless))
            while not any(s["is_processing"] for s in await asyncio.to_thread(ask, f"{url}/slots")):
                assert not flying.done()
            process = server.process
            assert process is not None
            await server.stop()
            assert (await process.exited).code == 0
            await asyncio.gather(flying, return_exceptions=True)

    asyncio.run(run())


def test_the_real_server_wants_its_key(tmp_path: Path) -> None:
    needs_model()

    async def run() -> None:
        async with launch(tmp_path, host="0.0.0.0") as server:
            (endpoint,) = server.endpoints
            with pytest.raises(urllib.error.HTTPError, match="401") as caught:
                await asyncio.to_thread(ask, f"{endpoint.url}/slots")
            caught.value.close()
            assert await asyncio.to_thread(ask, f"{endpoint.url}/slots", None, endpoint.api_key)
            assert server.process is not None
            words = Path(f"/proc/{server.process.pid}/cmdline").read_text()
            assert endpoint.api_key not in words

    asyncio.run(run())


def test_a_misspelt_flag_ends_in_a_readable_error(tmp_path: Path) -> None:
    needs_model()
    with pytest.raises(ServerDied, match="unknown flag n_cxt; like it: n_ctx") as caught:
        asyncio.run(launch(tmp_path, flags={"n_cxt": 5}).start())
    assert caught.value.cause == "unknown_flag"
    assert "server.flags" in caught.value.next_step


def test_the_key_is_not_in_our_own_environment() -> None:
    """The tests above rely on it."""
    assert llamacpp_main.API_KEY_ENV not in os.environ
