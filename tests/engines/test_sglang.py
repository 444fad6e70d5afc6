"""The SGLang engine over real sockets, against the fake server with each of its faults."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runner.engines.base import FaultKind
from runner.engines.opening import ENGINES, open_engine
from runner.engines.sglang import SglangEngine
from runner.errors import ConfigError
from runner.records import NOT_TOLD
from tests.engines.fake_answers import Fault, Scenario
from tests.engines.samples import PROMPT, SAMPLING, At, fault_of, run, sampling
from tests.fake_sglang import FAULTS, FakeSglang

VOCABULARY = 1024


def with_fake(
    use: Callable[[SglangEngine, FakeSglang], Coroutine[Any, Any, Any]],
    *faults: Fault,
    timeout_s: float | None = None,
    **scenario: Any,
) -> Any:
    async def opened() -> Any:
        async with FakeSglang(Scenario(faults=list(faults), **scenario)) as fake:
            engine = open_engine(
                "sglang",
                fake,
                vocab_size=VOCABULARY,
                timeout_s=timeout_s,
                max_connections=16,
            )
            try:
                return await use(engine, fake)
            finally:
                await engine.close()

    return run(opened())


def completion_after(*faults: Fault, **scenario: Any) -> Any:
    return with_fake(lambda e, _: e.generate("r", PROMPT, SAMPLING), *faults, **scenario)


def fault_after(*faults: Fault, **scenario: Any) -> Any:
    return with_fake(lambda e, _: fault_of(e.generate("r", PROMPT, SAMPLING)), *faults, **scenario)


USABLE = {
    "slow",
    "nan_stop",
    "clamped_length",
    "missing_echo",
    "unknown_fields",
    "single_id",
    "padded_ids",
    "out_of_vocabulary",
    "lost_think_close",
    "stop_in_middle",
    "retracted",
    "other_weights",
}
FAULTY = {
    "abort_200": ("unusable", "abort"),
    "wrong_rid": ("unusable", "wrong_rid"),
    "wrong_echo": ("unusable", "echo_differs"),
    "wrong_prompt_count": ("unusable", "prompt_count"),
    "wrong_completion_count": ("unusable", "completion_count"),
    "missing_output_ids": ("unusable", "missing_ids"),
    "missing_meta": ("unusable", "missing_meta"),
    "finish_null": ("unusable", "finish_null"),
    "no_output": ("unusable", "no_output"),
    "truncated_json": ("unusable", "not_json"),
    "not_http": ("unusable", "bad_http"),
    "error_object": ("refused", "bad_request"),
    "error_text": ("refused", "bad_request"),
    "error_flat": ("refused", "bad_request"),
    "error_detail": ("refused", "bad_request"),
    "busy": ("busy", "queue_full"),
    "rate_limited": ("busy", "rate_limited"),
    "die": ("unreachable", "disconnected"),
    "close_early": ("unreachable", "disconnected"),
    "reset_in_body": ("unreachable", "cut_body"),
    "html_error": ("unreachable", "bad_gateway"),
}


def test_every_fault_of_the_fake_is_expected_here():
    assert {*USABLE, *FAULTY, "hang"} == FAULTS


@pytest.mark.parametrize("kind", sorted(USABLE))
def test_what_validators_can_judge_is_a_completion(kind):
    completion = completion_after(Fault(kind, delay_s=0.05), think_close_id=5)
    assert completion.completion_tokens == len(completion.output_ids) > 0


@pytest.mark.parametrize("kind", sorted(FAULTY))
def test_what_is_no_answer_is_a_fault(kind):
    fault = fault_after(Fault(kind))
    assert (fault.kind, fault.reason) == FAULTY[kind]


def test_a_good_answer_is_proven_against_the_echo():
    completion = completion_after()
    assert (completion.finish, completion.prompt_echo) == ("stop", "same")
    assert completion.matched_token == completion.output_ids[-1] == 2


def test_without_an_echo_the_answer_says_so():
    assert completion_after(Fault("missing_echo")).prompt_echo == "absent"


def test_a_hanging_server_ends_in_the_time_out_that_was_set():
    fault = fault_after(Fault("hang"), timeout_s=0.2)
    assert (fault.kind, fault.reason) == (FaultKind.UNUSABLE, "timeout")


def test_a_request_that_is_cancelled_ends_at_once():
    async def use(engine, _):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.generate("r", PROMPT, SAMPLING), 0.1)

    with_fake(use, Fault("hang"))


def test_a_server_that_is_not_there_is_unreachable():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    async def use():
        engine = SglangEngine(At(url), vocab_size=VOCABULARY, max_connections=1)
        try:
            return await fault_of(engine.generate("r", PROMPT, SAMPLING)), await engine.healthy()
        finally:
            await engine.close()

    fault, healthy = run(use())
    assert (fault.kind, fault.reason) == (FaultKind.UNREACHABLE, "connect_failed")
    assert not healthy


def test_a_dead_server_that_comes_back_is_reached_again():
    async def use(engine, fake):
        await fault_of(engine.generate("a", PROMPT, SAMPLING))
        await fake.kill()
        gone = await fault_of(engine.generate("b", PROMPT, SAMPLING))
        fake.faults = []
        await fake.revive()
        return gone, await engine.generate("c", PROMPT, SAMPLING)

    gone, completion = with_fake(use, Fault("die"))
    assert gone.kind is FaultKind.UNREACHABLE
    assert completion.finish == "stop"


@pytest.mark.parametrize("bad", [VOCABULARY, -1])
def test_a_bad_id_is_never_sent(bad):
    async def use(engine, fake):
        fault = await fault_of(engine.generate("r", [1, bad], SAMPLING))
        return fault, fake.stats["requests"]

    fault, requests = with_fake(use)
    assert (fault.kind, fault.reason, requests) == (FaultKind.REFUSED, "bad_input_id", 0)


def test_an_engine_that_checks_too_little_kills_the_server():
    # The reason for the check: the fake dies as the real one does.
    fault = fault_after(vocab_size=PROMPT[-1])
    assert fault.kind is FaultKind.UNREACHABLE


@pytest.mark.parametrize("size", [8187, 8190, 9000])
def test_a_prompt_that_is_too_long_is_refused(size):
    asked = sampling(max_new_tokens=1)
    fault = with_fake(lambda e, _: fault_of(e.generate("r", [40] * size, asked)))
    assert (fault.kind, fault.reason) == (FaultKind.REFUSED, "too_long")


def test_the_longest_prompt_is_answered():
    asked = sampling(max_new_tokens=6)
    completion = with_fake(lambda e, _: e.generate("r", [40] * 8186, asked))
    assert completion.prompt_tokens == 8186


def test_a_rid_that_is_still_running_is_asked_again_later():
    async def use(engine, _):
        first = asyncio.create_task(engine.generate("same", PROMPT, SAMPLING))
        await asyncio.sleep(0.05)
        fault = await fault_of(engine.generate("same", PROMPT, SAMPLING))
        await first
        return fault

    fault = with_fake(use, latency_s=0.2)
    assert (fault.kind, fault.reason) == (FaultKind.UNUSABLE, "duplicate_rid")


@pytest.mark.parametrize("order", [{"rid": "r"}, {"abort_all": True}])
def test_a_request_that_somebody_aborts_is_no_data(order):
    async def use(engine, fake):
        asked = asyncio.create_task(fault_of(engine.generate("r", PROMPT, SAMPLING)))
        while not fake.stats["most_running"]:
            await asyncio.sleep(0.005)
        await engine._wire.post("/abort_request", order)
        return await asked

    fault = with_fake(use, latency_s=20.0)
    assert (fault.kind, fault.reason) == (FaultKind.UNUSABLE, "abort")


def test_a_full_queue_is_busy():
    async def use(engine, _):
        asked = [engine.generate(str(i), PROMPT, SAMPLING) for i in range(4)]
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = with_fake(use, latency_s=0.1, max_running=1, max_queued=1)
    reasons = [getattr(answer, "reason", "ok") for answer in answers]
    assert sorted(reasons) == ["ok", "ok", "queue_full", "queue_full"]


def test_many_requests_at_once_get_their_own_answers():
    async def use(engine, _):
        prompts = [[40 + i, 50] for i in range(60)]
        asked = [engine.generate(f"B1-{i}-0", p, SAMPLING) for i, p in enumerate(prompts)]
        return await asyncio.gather(*asked)

    completions = with_fake(use, latency_s=0.01)
    assert [c.rid for c in completions] == [f"B1-{i}-0" for i in range(60)]


@pytest.mark.parametrize("key", ["", "wrong-key-1"])
def test_a_missing_or_wrong_key_is_denied_and_never_shown(key):
    async def use(_, fake):
        engine = SglangEngine(At(fake.url, key), vocab_size=VOCABULARY, max_connections=1)
        try:
            return await fault_of(engine.generate("r", PROMPT, SAMPLING))
        finally:
            await engine.close()

    fault = with_fake(use, api_key="right-key-1")
    assert (fault.kind, fault.reason) == (FaultKind.DENIED, "denied")
    assert "wrong-key-1" not in f"{fault}{fault!r}{fault.raw}"


def test_the_right_key_is_accepted_and_never_shown():
    async def use(engine, _):
        await engine.generate("r", PROMPT, SAMPLING)
        return repr(await engine.info()) + repr(engine) + repr(engine._wire)

    assert "right-key-1" not in with_fake(use, api_key="right-key-1")


def test_a_server_without_the_route_is_denied():
    fault = fault_after(missing_routes=["/generate"])
    assert (fault.kind, fault.reason) == (FaultKind.DENIED, "no_route")


def test_a_trailing_slash_in_the_url_is_no_other_url():
    async def use(_, fake):
        engine = SglangEngine(At(fake.url + "/"), vocab_size=VOCABULARY, max_connections=1)
        try:
            return await engine.generate("r", PROMPT, SAMPLING)
        finally:
            await engine.close()

    assert with_fake(use).finish == "stop"


def test_the_info_tells_the_limits():
    info = with_fake(lambda engine, _: engine.info(), context_length=4096, kv_tokens=9999)
    assert (info.context_length, info.max_input_tokens) == (4096, 4090)
    assert (info.max_total_tokens, info.max_running) == (9999, 4096)
    assert (info.version, info.weight_version) == ("0.5.23", "default")


def test_old_names_of_the_routes_are_asked_too():
    gone = ["/server_info", "/model_info"]
    info = with_fake(lambda engine, _: engine.info(), missing_routes=gone)
    assert info.version == "0.5.23"


def test_a_server_without_any_optional_route_is_no_error():
    gone = [
        "/server_info",
        "/get_server_info",
        "/model_info",
        "/get_model_info",
        "/v1/models",
        "/v1/loads",
        "/health",
    ]

    async def use(engine, _):
        return await engine.info(), await engine.load(), await engine.healthy()

    info, load, healthy = with_fake(use, missing_routes=gone)
    assert (info.version, info.context_length, info.raw) == ("", NOT_TOLD, {})
    assert load is None
    assert healthy


def test_load_shows_what_runs_and_waits():
    async def use(engine, _):
        asked = [asyncio.create_task(engine.generate(str(i), PROMPT, SAMPLING)) for i in range(3)]
        await asyncio.sleep(0.1)
        load = await engine.load()
        await asyncio.gather(*asked)
        return load

    load = with_fake(use, latency_s=0.4, max_running=2, max_queued=9)
    assert (load.running, load.queued) == (2, 1)


def test_a_server_that_is_not_ready_is_not_healthy():
    assert not with_fake(lambda engine, _: engine.healthy(), ready_after_s=60.0)


def test_an_unknown_kind_of_engine_names_those_that_exist():
    with pytest.raises(ConfigError, match="llamacpp, sglang"):
        open_engine("vllm", At("http://127.0.0.1:1"), vocab_size=1, max_connections=1)


def test_the_table_names_each_engine_by_its_kind():
    assert {kind: engine.kind for kind, engine in ENGINES.items()} == {
        "sglang": "sglang",
        "llamacpp": "llamacpp",
    }
