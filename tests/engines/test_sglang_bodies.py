"""The request that SGLang gets, and what is read from its optional routes: pure functions."""

import pytest

from runner.engines.sglang import read_info, read_load, request_body
from runner.engines.wire import parse_or_none
from runner.records import NOT_TOLD
from tests.engines.fake_answers import SAMPLING_FIELDS, recorded
from tests.engines.samples import PROMPT, SAMPLING, sampling


def test_load_of_an_old_server_is_read():
    rows = [{"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 1, "num_tokens": 50}]
    load = read_load(rows)
    assert (load.running, load.queued, load.used_tokens) == (3, 1, 50)


def test_load_sums_the_ranks_and_shows_the_fullest():
    rank = recorded("loads_after_client_timeout")["body"]["loads"][0]
    load = read_load({"loads": [rank, {**rank, "token_usage": 0.5, "gen_throughput": 9.0}]})
    assert (load.running, load.token_usage, load.output_tokens_per_s) == (0, 0.5, 9.0)
    assert load.cache_hit_rate == 0.973


def test_a_count_that_one_rank_does_not_tell_is_not_told():
    load = read_load([{"num_reqs": 3, "num_waiting_reqs": 1}, {"num_reqs": 2}])
    assert (load.running, load.queued, load.used_tokens) == (5, NOT_TOLD, NOT_TOLD)


@pytest.mark.parametrize(("body", "parsed"), [(b"[1]", [1]), (b"<html>", None), (b"", None)])
def test_an_optional_route_that_answers_no_json_tells_nothing(body, parsed):
    assert parse_or_none(body) == parsed


@pytest.mark.parametrize("answer", [None, {}, [], {"loads": None}, {"loads": [3]}, [None]])
def test_load_that_is_not_told_is_none(answer):
    assert read_load(answer) is None


@pytest.mark.parametrize("junk", [None, 3, "x", [], [[]], {"data": [None]}, {"internal_states": 1}])
def test_junk_from_an_optional_route_is_no_error(junk):
    info = read_info({"server_info": junk, "model_info": junk, "models": junk})
    assert info.context_length == NOT_TOLD


def test_the_recorded_server_is_described():
    names = {
        "server_info": "get_server_info",
        "model_info": "get_model_info",
        "models": "get_v1_models",
    }
    info = read_info({name: recorded(file)["body"] for name, file in names.items()})
    assert (info.model, info.version, info.weight_version) == ("smollm2-135m", "0.5.23", "default")
    assert (info.context_length, info.max_input_tokens) == (8192, 8186)
    assert (info.max_total_tokens, info.max_running) == (65536, 4096)


def test_the_request_uses_only_fields_that_the_server_knows():
    body = request_body("r", PROMPT, SAMPLING)
    assert set(body["sampling_params"]) <= SAMPLING_FIELDS
    # A misspelt top-level field would be ignored without a word: these were honoured.
    honoured = {
        *recorded("gen_return_prompt_token_ids")["request"]["body"],
        *recorded("gen_rid_single")["request"]["body"],
        "stream",
    }
    assert set(body) == honoured


def test_the_request_is_what_it_is():
    assert request_body("r-1", [7, 8], sampling(stop_token_ids=[2, 3])) == {
        "rid": "r-1",
        "input_ids": [7, 8],
        "sampling_params": {
            "max_new_tokens": 32,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "repetition_penalty": 1.0,
            "min_new_tokens": 0,
            "ignore_eos": False,
            "stop_token_ids": [2, 3],
            "n": 1,
        },
        "stream": False,
        "return_prompt_token_ids": True,
    }
