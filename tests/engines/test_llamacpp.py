"""The llama.cpp engine against a real llama.cpp server: what `llamacpp` says of it is so."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import orjson
import pytest

from runner.engines.base import EngineFault, FaultKind
from runner.engines.llamacpp import LlamaCppEngine
from runner.engines.llamacpp_contract import parse_llamacpp, request_body
from runner.engines.opening import open_engine
from runner.engines.wire import Wire
from tests.engines.conftest import GGUF
from tests.engines.samples import PROMPT, At, fault_of, run, sampling

GREEDY = sampling(temperature=0.0, max_new_tokens=12)
ENDLESS = sampling(temperature=0.0, max_new_tokens=12, ignore_eos=True)
CONTEXT = 512


def with_engine(
    at: At, use: Callable[[LlamaCppEngine], Coroutine[Any, Any, Any]], *, vocab_size: int = 200
) -> Any:
    async def opened() -> Any:
        engine = open_engine("llamacpp", at, vocab_size=vocab_size, max_connections=8)
        try:
            return await use(engine)
        finally:
            await engine.close()

    return run(opened())


def ask(at: At, body: dict[str, Any]) -> tuple[int, Any]:
    """One raw request, for what the engine would never send."""

    async def asked() -> tuple[int, Any]:
        wire = Wire(at, timeout_s=None, max_connections=1)
        try:
            status, answer = await wire.post("/completion", body)
        finally:
            await wire.close()
        return status, orjson.loads(answer)

    return run(asked())


def test_the_limits_are_told(llama):
    info = with_engine(llama, lambda engine: engine.info())
    assert (info.context_length, info.max_input_tokens) == (CONTEXT, CONTEXT - 1)
    assert info.max_running == 2
    assert info.vocab_size > 100
    assert info.eog_ids


def test_the_info_shows_no_key(llama):
    assert "sesame" not in repr(with_engine(llama, lambda engine: engine.info()))


def test_ids_in_ids_out(llama):
    completion = with_engine(llama, lambda engine: engine.generate("r", PROMPT, ENDLESS))
    assert len(completion.output_ids) == completion.completion_tokens == 12
    assert (completion.finish, completion.finish_length) == ("length", 12)
    assert (completion.rid, completion.prompt_tokens) == ("r", len(PROMPT))


def test_greedy_is_the_same_alone_and_beside_others(llama):
    async def use(engine):
        alone = await engine.generate("a", PROMPT, ENDLESS)
        others = [engine.generate(str(i), [*PROMPT, 50 + i], ENDLESS) for i in range(3)]
        beside, *_ = await asyncio.gather(engine.generate("b", PROMPT, ENDLESS), *others)
        return alone, beside

    alone, beside = with_engine(llama, use)
    assert alone.output_ids == beside.output_ids


def test_two_samples_of_one_prompt_differ(llama):
    hot = sampling(temperature=3.0, max_new_tokens=30, ignore_eos=True)

    async def use(engine):
        return await asyncio.gather(*(engine.generate(str(i), PROMPT, hot) for i in range(2)))

    first, second = with_engine(llama, use)
    assert first.output_ids != second.output_ids


def test_nothing_is_taken_from_a_cache(llama):
    async def use(engine):
        await engine.generate("a", PROMPT, GREEDY)
        return await engine.generate("b", PROMPT, GREEDY)

    assert with_engine(llama, use).cached_tokens == 0


def test_the_bundled_models_own_stop_ids_are_eog(llama):
    config = orjson.loads((GGUF.parent / "generation_config.json").read_bytes())
    assert set(config["eos_token_id"]) <= set(eog_of(llama))


def eog_of(at: At) -> list[int]:
    return with_engine(at, lambda engine: engine.info()).eog_ids


@pytest.mark.parametrize("limit", [1, 5])
def test_the_end_token_is_in_the_output_even_at_the_limit(llama, limit):
    eog = eog_of(llama)[0]
    body = request_body(PROMPT, sampling(max_new_tokens=limit))
    status, answer = ask(llama, {**body, "logit_bias": [[eog, 1000.0]]})
    assert status == 200
    completion = parse_llamacpp(answer, rid="r", input_ids=PROMPT)
    assert (completion.output_ids, completion.finish) == ([eog], "stop")
    assert completion.matched_token == eog


def test_a_stop_id_that_is_no_eog_does_not_stop_it(llama):
    async def use(engine):
        free = await engine.generate("a", PROMPT, ENDLESS)
        stop = msgspec.structs.replace(ENDLESS, stop_token_ids=free.output_ids[:1])
        return free, await engine.generate("b", PROMPT, stop)

    free, stopped = with_engine(llama, use)
    assert stopped.output_ids == free.output_ids


def test_the_count_of_the_prompt_is_whole_with_a_cache(llama):
    body = {**request_body(PROMPT, GREEDY), "cache_prompt": True}
    for _ in range(3):  # slots are taken in turn, so the third finds the prompt in one
        _, answer = ask(llama, body)
    assert answer["timings"]["cache_n"] > 0
    assert answer["tokens_evaluated"] == len(PROMPT)


def test_the_end_of_the_context_shows_as_a_clamped_length(llama):
    long = [40] * (CONTEXT - 10)
    completion = with_engine(
        llama,
        lambda engine: engine.generate(
            "r", long, msgspec.structs.replace(ENDLESS, max_new_tokens=99)
        ),
    )
    assert completion.finish == "length"
    assert completion.finish_length < 20


def test_too_long_is_refused_by_its_reason(llama):
    fault = with_engine(llama, lambda engine: fault_of(engine.generate("r", [40] * 600, GREEDY)))
    assert (fault.kind, fault.reason) == (FaultKind.REFUSED, "too_long")


def test_an_id_out_of_the_real_vocabulary_is_refused_and_the_server_lives(llama):
    async def use(engine):
        fault = await fault_of(engine.generate("r", [10**6], GREEDY))
        return fault, await engine.generate("r2", PROMPT, GREEDY)

    fault, completion = with_engine(llama, use, vocab_size=10**7)
    assert fault.kind is FaultKind.REFUSED
    assert completion.output_ids


def test_a_wrong_key_is_denied_and_not_shown(llama):
    wrong = At(url=llama.url, api_key="wrong-key")
    fault = with_engine(wrong, lambda engine: fault_of(engine.generate("r", PROMPT, GREEDY)))
    assert (fault.kind, fault.reason) == (FaultKind.DENIED, "denied")
    assert "wrong-key" not in f"{fault}{fault.raw}{fault!r}"


def test_load_is_told(llama):
    async def use(engine):
        work = asyncio.create_task(
            engine.generate("r", PROMPT, msgspec.structs.replace(ENDLESS, max_new_tokens=400))
        )
        while not (load := await engine.load()).running:
            await asyncio.sleep(0.001)
            if work.done():
                work = asyncio.create_task(engine.generate("r", PROMPT, ENDLESS))
        await work
        return load

    load = with_engine(llama, use)
    assert (load.running, load.queued) == (1, 0)


def test_health(llama):
    assert with_engine(llama, lambda engine: engine.healthy())


SENT_UNDER_ANOTHER_NAME = {"max_tokens"}
INERT_WHILE_ITS_SAMPLER_IS_OFF = {
    "adaptive_decay",
    "dry_allowed_length",
    "dry_base",
    "mirostat_eta",
    "mirostat_tau",
    "xtc_threshold",
}
ABOUT_TEXT = {"chat_format", "generation_prompt", "reasoning_format", "reasoning_in_content"}
OF_THE_SERVER = {"speculative.types"}


def test_every_default_of_the_server_is_overridden(llama):
    async def use(engine):
        return (await engine.info()).raw["props"]["default_generation_settings"]["params"]

    defaults = set(with_engine(llama, use))
    known = SENT_UNDER_ANOTHER_NAME | INERT_WHILE_ITS_SAMPLER_IS_OFF | ABOUT_TEXT | OF_THE_SERVER
    assert defaults - set(request_body(PROMPT, GREEDY)) - known == set()


def test_the_server_says_that_it_used_what_was_sent(llama):
    sent = sampling(
        max_new_tokens=3,
        temperature=0.5,
        top_p=0.75,
        top_k=7,
        min_p=0.125,
        frequency_penalty=0.25,
        presence_penalty=0.5,
        repetition_penalty=1.25,
        ignore_eos=True,
    )
    body = request_body(PROMPT, sent)
    _, answer = ask(llama, body)
    used = answer["generation_settings"]
    shared = (set(used) & set(body)) - {"seed", "logit_bias"}  # -1 is told unsigned; bans are added
    assert {name: used[name] for name in shared} == {name: body[name] for name in shared}
    assert len(shared) > 20


def test_what_it_cannot_do_is_refused_unsent():
    nobody = At(url="http://127.0.0.1:9")
    asked = sampling(min_new_tokens=4)
    fault = with_engine(nobody, lambda engine: fault_of(engine.generate("r", PROMPT, asked)))
    assert fault.reason == "unsupported_sampling"


def test_a_server_that_dies_is_unreachable(llama_process):
    async def use(engine):
        endless = msgspec.structs.replace(ENDLESS, max_new_tokens=480)
        await engine.generate("warm", PROMPT, GREEDY)
        work = [
            asyncio.create_task(fault_of(engine.generate(str(i), PROMPT, endless)))
            for i in range(30)
        ]
        await asyncio.sleep(0.05)
        llama_process.kill()
        during = [
            fault.reason
            for fault in await asyncio.gather(*work, return_exceptions=True)
            if isinstance(fault, EngineFault)
        ]
        after = await fault_of(engine.generate("late", PROMPT, GREEDY))
        return during, after, await engine.healthy()

    during, after, healthy = with_engine(llama_process.at, use)
    assert during
    assert set(during) <= {"disconnected", "connect_failed", "cut_body"}
    assert (after.kind, after.reason) == (FaultKind.UNREACHABLE, "connect_failed")
    assert not healthy
