"""llama.cpp's bodies, on answers as a real server gave them (xllamacpp 2026.10.11549)."""

import msgspec
import pytest

from runner.engines.base import EngineFault, FaultKind
from runner.engines.llamacpp_contract import (
    check_sampling,
    parse_llamacpp,
    read_eog_ids,
    read_info,
    read_load,
    read_metric,
    request_body,
)
from runner.records import NOT_TOLD
from tests.engines.samples import sampling

EOS = {
    "tokens": [282, 4649, 314, 7042, 30, 2],
    "tokens_predicted": 6,
    "tokens_evaluated": 3,
    "truncated": False,
    "stop_type": "eos",
    "stopping_word": "",
    "timings": {"cache_n": 2, "prompt_n": 1, "predicted_n": 6},
}
LIMIT = {**EOS, "tokens": [60, 23], "tokens_predicted": 2, "stop_type": "limit"}


def parse(answer):
    return parse_llamacpp(answer, rid="r", input_ids=[1, 2, 3])


def test_an_eos_stop_matches_the_last_id():
    completion = parse(EOS)
    assert (completion.finish, completion.matched_token) == ("stop", 2)
    assert completion.output_ids == EOS["tokens"]
    assert completion.finish_length == NOT_TOLD


def test_a_limit_tells_the_length_that_it_had():
    completion = parse(LIMIT)
    assert (completion.finish, completion.finish_length) == ("length", 2)
    assert completion.matched_token == NOT_TOLD


def test_a_cached_prompt_is_counted_whole():
    assert parse(EOS).cached_tokens == 2


def test_the_server_does_not_echo():
    completion = parse(EOS)
    assert (completion.rid, completion.prompt_echo) == ("r", "absent")


def test_a_stop_word_that_nobody_sent_is_kept_for_the_validators():
    completion = parse({**EOS, "stop_type": "word", "stopping_word": "toile"})
    assert (completion.matched_token, completion.matched_text) == (NOT_TOLD, "toile")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stop_type": "none"}, "finish_null"),
        ({"stop_type": None}, "finish_null"),
        ({"stop_type": "magic"}, "finish_unknown"),
        ({"stop_type": ["eos"]}, "finish_unknown"),
        ({"tokens": []}, "no_output"),
        ({"tokens": None}, "missing_ids"),
        ({"tokens": [1.5]}, "bad_ids"),
        ({"tokens_predicted": 7}, "completion_count"),
        ({"tokens_evaluated": 4}, "prompt_count"),
    ],
)
def test_an_answer_that_contradicts_itself_is_a_fault(change, reason):
    with pytest.raises(EngineFault) as caught:
        parse({**EOS, **change})
    assert (caught.value.kind, caught.value.reason) == (FaultKind.UNUSABLE, reason)


def test_without_return_tokens_the_empty_list_is_a_fault():
    with pytest.raises(EngineFault):
        parse({**EOS, "tokens": []})


def test_every_field_of_the_sampling_parameters_is_used():
    changed = {
        "max_new_tokens": 77,
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 9,
        "min_p": 0.125,
        "frequency_penalty": 0.3,
        "presence_penalty": 0.4,
        "repetition_penalty": 1.2,
        "ignore_eos": True,
    }
    # No stop ids in llama.cpp, and a minimum is refused before the body is made.
    assert set(changed) | {"stop_token_ids", "min_new_tokens"} == set(
        msgspec.structs.asdict(sampling())
    )
    body = request_body([5], sampling(**changed))
    assert body["n_predict"] == 77
    assert body["repeat_penalty"] == 1.2
    same_name = set(changed) - {"max_new_tokens", "repetition_penalty"}
    assert {name: body[name] for name in same_name} == {name: changed[name] for name in same_name}


def test_all_of_the_vocabulary_is_top_k_0():
    assert request_body([5], sampling(top_k=-1))["top_k"] == 0


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 0.1}, {"presence_penalty": 0.1}, {"repetition_penalty": 1.1}]
)
def test_a_penalty_looks_back_over_everything(penalty):
    body = request_body([5, 6], sampling(max_new_tokens=10, **penalty))
    assert body["repeat_last_n"] == 12


def test_without_a_penalty_nothing_looks_back():
    assert request_body([5, 6], sampling())["repeat_last_n"] == 0


@pytest.mark.parametrize("change", [{"min_new_tokens": 1}, {"max_new_tokens": 0}])
def test_what_the_server_cannot_do_is_refused(change):
    with pytest.raises(EngineFault) as caught:
        check_sampling(sampling(**change))
    assert (caught.value.kind, caught.value.reason) == (FaultKind.REFUSED, "unsupported_sampling")


def test_the_eog_ids_are_read_from_the_bans():
    bans = [{"bias": None, "token": 4}, {"bias": None, "token": 0}]
    assert read_eog_ids({"generation_settings": {"logit_bias": bans}}) == [0, 4]


@pytest.mark.parametrize("answer", [None, {}, {"generation_settings": {}}, [1]])
def test_eog_ids_that_are_not_told_are_none(answer):
    assert read_eog_ids(answer) is None


def test_a_server_that_tells_nothing_gives_an_info_without_limits():
    info = read_info({}, eog_ids=None)
    assert (info.context_length, info.max_running, info.vocab_size) == (NOT_TOLD,) * 3


def test_load_counts_the_busy_slots_and_their_tokens():
    busy = {
        "is_processing": True,
        "n_prompt_tokens_processed": 30,
        "next_token": [{"n_decoded": 5}],
    }
    idle = {"is_processing": False, "n_prompt_tokens_processed": 99}
    load = read_load([busy, idle, busy], "llamacpp:requests_deferred 3\n")
    assert (load.running, load.queued, load.used_tokens) == (2, 3, 70)


@pytest.mark.parametrize("slots", [None, {}, [], {"error": "x"}])
def test_no_slots_no_load(slots):
    assert read_load(slots, "") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a:b 2.5\n", 2.5),
        ("# HELP a:b x\na:b 1e3", 1000.0),
        ("a:bc 1", None),
        ("a:b nan", None),
        ("a:b what", None),
        ("", None),
    ],
)
def test_one_metric_of_a_prometheus_text(text, value):
    assert read_metric(text, "a:b") == value
