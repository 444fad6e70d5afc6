"""Every recorded answer that a client can meet, and every JSON value, has one defined outcome."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.base import RAW_LIMIT_BYTES, EngineFault, FaultKind
from runner.engines.contract import check_prompt, parse_sglang, split_matched
from runner.engines.llamacpp_contract import parse_llamacpp
from runner.records import NOT_TOLD
from tests.engines.fake_answers import ANSWER_FAULTS, Scenario, answer_for, recorded, spoiled

USABLE = {
    # name: (finish, matched_token, matched_text, finish_length, echo)
    "gen_stop_eos": ("stop", 2, "", NOT_TOLD, "absent"),
    "gen_eos_exactly_at_max": ("stop", 2, "", NOT_TOLD, "absent"),
    "gen_after_flush": ("stop", 2, "", NOT_TOLD, "absent"),
    "gen_stop_token_ids": ("stop", 282, "", NOT_TOLD, "absent"),
    "gen_stop_string": ("stop", NOT_TOLD, "France", NOT_TOLD, "absent"),
    "gen_length": ("length", NOT_TOLD, "", 4, "absent"),
    "gen_max_new_1": ("length", NOT_TOLD, "", 1, "absent"),
    "gen_min_new_tokens": ("length", NOT_TOLD, "", 16, "absent"),
    "gen_ignore_eos": ("length", NOT_TOLD, "", 12, "absent"),
    "gen_top_k_0": ("length", NOT_TOLD, "", 4, "absent"),
    "gen_unknown_top_level": ("length", NOT_TOLD, "", 4, "absent"),
    "gen_rid_single": ("length", NOT_TOLD, "", 3, "absent"),
    "gen_dup_rid_inflight_first": ("length", NOT_TOLD, "", 24, "absent"),
    "gen_queue_full_0": ("length", NOT_TOLD, "", 30, "absent"),
    "gen_return_prompt_token_ids": ("length", NOT_TOLD, "", 4, "same"),
    "apikey_ok_generate": ("length", NOT_TOLD, "", 2, "absent"),
    "sigterm_inflight": ("length", NOT_TOLD, "", 120, "absent"),
    "sigterm_new_request_1s_after": ("length", NOT_TOLD, "", 2, "absent"),
    "skiptok_gen_eos_default": ("stop", 2, "", NOT_TOLD, "absent"),
    "skiptok_gen_stop_token_ids": ("stop", 2, "", NOT_TOLD, "absent"),
    "skiptok_gen_length": ("length", NOT_TOLD, "", 4, "absent"),
}

UNUSABLE = {
    "gen_aborted_by_rid": "abort",
    "gen_aborted_by_all": "abort",
    "gen_n2": "not_object",
    "gen_batch_of_one": "not_object",
    "gen_empty_batch_item": "not_object",
    "gen_max_new_0": "no_output",
}


def parse_recorded(name: str) -> Any:
    exchange = recorded(name)
    body, sent = exchange["body"], exchange["request"]["body"]["input_ids"]
    rid = body["meta_info"]["id"] if isinstance(body, dict) else "mine"
    return parse_sglang(body, rid=rid, input_ids=sent)


@pytest.mark.parametrize("name", USABLE)
def test_a_recorded_answer_becomes_a_completion(name):
    completion = parse_recorded(name)
    told = (
        completion.finish,
        completion.matched_token,
        completion.matched_text,
        completion.finish_length,
        completion.prompt_echo,
    )
    assert told == USABLE[name]


@pytest.mark.parametrize("name", USABLE)
def test_a_recorded_answer_keeps_its_ids_and_counts(name):
    completion, body = parse_recorded(name), recorded(name)["body"]
    assert completion.output_ids == body["output_ids"]
    assert completion.completion_tokens == len(body["output_ids"])
    assert completion.prompt_tokens == body["meta_info"]["prompt_tokens"]
    assert completion.cached_tokens == body["meta_info"]["cached_tokens"]
    assert completion.retractions == 0
    assert completion.weight_version == "default"


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_recorded_answer_that_is_no_data_is_a_fault(name):
    with pytest.raises(EngineFault) as caught:
        parse_recorded(name)
    assert (caught.value.kind, caught.value.reason) == (FaultKind.UNUSABLE, UNUSABLE[name])


def good() -> dict[str, Any]:
    output = ([50, 51, 52, 2], {"type": "stop", "matched": 2})
    return answer_for("r-1", [40, 41, 42], output)


def parse(answer: object) -> Any:
    return parse_sglang(answer, rid="r-1", input_ids=[40, 41, 42])


def outcome(answer: object) -> FaultKind | None:
    """None for a completion, else the kind of the fault; anything else escapes."""
    try:
        parse(answer)
    except EngineFault as fault:
        return fault.kind
    return None


SPOILED = {
    "abort_200": "abort",
    "wrong_rid": "wrong_rid",
    "wrong_echo": "echo_differs",
    "wrong_prompt_count": "prompt_count",
    "wrong_completion_count": "completion_count",
    "missing_output_ids": "missing_ids",
    "missing_meta": "missing_meta",
    "finish_null": "finish_null",
    "no_output": "no_output",
}


@pytest.mark.parametrize("kind", ANSWER_FAULTS)
def test_each_fault_of_an_answer_is_refused_or_left_to_the_validators(kind):
    answer = spoiled(good(), kind, Scenario())
    if kind not in SPOILED:
        assert parse(answer).output_ids == answer["output_ids"]
        return
    with pytest.raises(EngineFault) as caught:
        parse(answer)
    assert caught.value.reason == SPOILED[kind]


def test_a_nan_stop_is_kept_as_the_text_that_the_server_gave():
    completion = parse(spoiled(good(), "nan_stop", Scenario()))
    assert (completion.finish, completion.matched_token) == ("stop", NOT_TOLD)
    assert completion.matched_text == "NaN happened"


def test_a_clamped_length_is_kept():
    completion = parse(spoiled(good(), "clamped_length", Scenario()))
    assert (completion.finish, completion.finish_length) == ("length", 2)


def test_an_echo_that_differs_names_the_position():
    answer = good()
    answer["prompt_token_ids"] = [40, 99, 42]
    with pytest.raises(EngineFault, match="first difference at position 1"):
        parse(answer)


def test_an_echo_that_is_longer_names_the_position():
    answer = good()
    answer["prompt_token_ids"] = [40, 41, 42, 43]
    with pytest.raises(EngineFault, match="4 ids for 3, the first difference at position 3"):
        parse(answer)


@pytest.mark.parametrize("bad", [True, 1.0, "5", None, 2**31, -(2**31) - 1, [5]])
def test_an_output_id_that_is_no_integer_of_32_bits_is_a_fault(bad):
    answer = good()
    answer["output_ids"][0] = bad
    with pytest.raises(EngineFault) as caught:
        parse(answer)
    assert caught.value.reason == "bad_ids"


def test_an_id_out_of_the_vocabulary_is_left_to_the_validators():
    answer = good()
    answer["output_ids"][0] = 10**9
    assert parse(answer).output_ids[0] == 10**9


@pytest.mark.parametrize("finish", ["stop", {}, {"type": "tool"}, {"type": None}, 3, [], {"x": 1}])
def test_an_unknown_finish_is_a_fault(finish):
    answer = good()
    answer["meta_info"]["finish_reason"] = finish
    with pytest.raises(EngineFault) as caught:
        parse(answer)
    assert caught.value.reason == "finish_unknown"


@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens"])
@pytest.mark.parametrize("value", [None, "4", 4.0, True, -1])
def test_a_count_that_is_missing_or_no_integer_is_a_fault(name, value):
    answer = good()
    answer["meta_info"][name] = value
    with pytest.raises(EngineFault) as caught:
        parse(answer)
    assert caught.value.reason == name.replace("tokens", "count")


def test_more_cached_than_prompt_tokens_is_no_fault():
    answer = good()
    answer["meta_info"]["cached_tokens"] = 999
    assert parse(answer).cached_tokens == 999


def test_weights_that_were_exchanged_while_it_was_made_are_told_together():
    answer = good()
    answer["meta_info"]["weight_versions"] = [{"version": "a"}, {"version": "b"}, {"x": 1}]
    answer["meta_info"]["weight_version"] = "b"
    assert parse(answer).weight_version == "a+b"
    answer["meta_info"]["weight_versions"] = "nonsense"
    assert parse(answer).weight_version == "b"


@pytest.mark.parametrize("name", ["cached_tokens", "num_retractions", "weight_version"])
def test_what_an_older_server_does_not_tell_is_not_told(name):
    answer = good()
    del answer["meta_info"][name]
    completion = parse(answer)
    told = {
        "cached_tokens": completion.cached_tokens,
        "num_retractions": completion.retractions,
        "weight_version": completion.weight_version,
    }
    assert told[name] in (NOT_TOLD, "")


@pytest.mark.parametrize(
    ("matched", "split"),
    [
        (7, (7, "")),
        ("NaN happened", (NOT_TOLD, "NaN happened")),
        (None, (NOT_TOLD, "")),
        (True, (NOT_TOLD, "true")),
        ([7], (NOT_TOLD, "[7]")),
        (2**40, (NOT_TOLD, str(2**40))),
        ("x" * 1000, (NOT_TOLD, "x" * 200)),
    ],
)
def test_matched_is_an_id_or_a_text(matched, split):
    assert split_matched(matched) == split


def test_a_fault_keeps_a_bounded_beginning_and_end_of_the_answer():
    answer = spoiled(good(), "wrong_rid", Scenario())
    answer["text"] = "é" * 10_000
    with pytest.raises(EngineFault) as caught:
        parse(answer)
    raw = caught.value.raw
    assert len(raw.encode()) <= RAW_LIMIT_BYTES
    assert raw.startswith('{"text":"')
    assert raw.endswith(orjson.dumps(answer).decode()[-50:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
FIELDS = ["output_ids", "meta_info", "prompt_token_ids", "tokens", "stop_type", "timings"]
META = ["id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens"]


@given(JSON)
def test_no_json_value_raises_anything_but_a_fault(value):
    for parse_any in (parse_sglang, parse_llamacpp):
        with pytest.raises(EngineFault):
            parse_any(value, rid="r", input_ids=[1])


@given(st.sampled_from(FIELDS), JSON)
def test_no_value_of_a_field_raises_anything_but_a_fault(field, value):
    assert outcome({**good(), field: value}) in (None, FaultKind.UNUSABLE)


@given(st.sampled_from(META), JSON)
def test_no_value_of_a_meta_field_raises_anything_but_a_fault(field, value):
    answer = good()
    answer["meta_info"][field] = value
    assert outcome(answer) in (None, FaultKind.UNUSABLE)


@given(JSON)
def test_no_finish_reason_raises_anything_but_a_fault(value):
    answer = good()
    answer["meta_info"]["finish_reason"] = {"type": "stop", "matched": value}
    assert parse(answer).finish == "stop"
    answer["meta_info"]["finish_reason"] = {"type": "length", "length": value}
    assert parse(answer).finish == "length"


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1), st.lists(st.integers(0, 99)))
def test_a_consistent_answer_gives_its_ids_back(output_ids, input_ids):
    answer = answer_for("r", input_ids, (output_ids, {"type": "stop", "matched": 2}))
    completion = parse_sglang(answer, rid="r", input_ids=input_ids)
    assert completion.output_ids == output_ids
    assert completion.prompt_echo == "same"


@pytest.mark.parametrize("bad", [100, -1, 2**70, 1.0, True, None])
def test_a_prompt_that_would_kill_the_server_is_refused(bad):
    with pytest.raises(EngineFault) as caught:
        check_prompt([0, 99, bad], vocab_size=100)
    assert (caught.value.kind, caught.value.reason) == (FaultKind.REFUSED, "bad_input_id")
    assert "position 2" in caught.value.detail


def test_an_empty_prompt_is_refused():
    with pytest.raises(EngineFault) as caught:
        check_prompt([], vocab_size=100)
    assert caught.value.reason == "empty_prompt"


def test_the_whole_vocabulary_may_be_sent():
    check_prompt([0, 99], vocab_size=100)


def test_an_undeclared_reason_cannot_be_raised():
    with pytest.raises(ValueError, match="undeclared"):
        EngineFault(FaultKind.UNUSABLE, "whatever")
