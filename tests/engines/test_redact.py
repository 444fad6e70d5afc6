"""No secret survives in what is kept of a server's own description."""

import orjson
import pytest

from runner.engines.redact import REDACTED, redacted
from tests.engines.fake_answers import recorded


def test_the_recorded_server_info_keeps_no_key():
    body = recorded("apikey_ok_server_info")["body"]
    assert orjson.dumps(body).count(b"secret") == 3
    assert b"secret" not in orjson.dumps(redacted(body))


def test_everything_else_in_the_recorded_server_info_stays():
    body = recorded("apikey_ok_server_info")["body"]
    clean = redacted(body)
    assert {name for name in body if clean[name] != body[name]} == {
        "api_key",
        "launch_command",
        "internal_states",
    }
    assert clean["launch_command"].endswith(f"--random-seed 7 --api-key {REDACTED}")


@pytest.mark.parametrize(
    "name", ["api_key", "admin_api_key", "apikey", "ssl_keyfile_password", "hf_token", "api_keys"]
)
def test_a_value_under_a_secret_name_is_replaced(name):
    assert redacted({name: "hunter22"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["max_total_tokens", "tokenizer_path", "stop_token_ids", "keys"])
def test_an_ordinary_name_keeps_its_value(name):
    assert redacted({name: "hunter22"}) == {name: "hunter22"}


def test_a_known_secret_is_removed_wherever_it_occurs():
    said = redacted([{"argv": ["--x", "abcd1234"]}], secrets=frozenset(["abcd1234"]))
    assert said == [{"argv": ["--x", REDACTED]}]


def test_a_secret_of_one_place_is_removed_from_the_others():
    said = redacted({"a": {"api_key": "abcd1234"}, "b": "key is abcd1234."})
    assert said == {"a": {"api_key": REDACTED}, "b": f"key is {REDACTED}."}


def test_an_unset_key_is_shown_as_unset():
    assert redacted({"api_key": None, "admin_api_key": ""}) == {
        "api_key": None,
        "admin_api_key": "",
    }


@pytest.mark.parametrize("flag", ["--api-key abc", "--admin-api-key=abc", "--hf-token abc"])
def test_a_flag_loses_its_value_even_when_it_is_short(flag):
    assert "abc" not in redacted(f"x {flag} --port 1")
    assert redacted(f"x {flag} --port 1").endswith(" --port 1")


def test_the_value_that_was_given_is_not_changed():
    body = {"api_key": "abcd1234"}
    redacted(body)
    assert body == {"api_key": "abcd1234"}
