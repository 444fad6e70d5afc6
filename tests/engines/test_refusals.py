"""What HTTP errors mean, on recorded bodies of both servers and on made-up ones."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engines.base import FaultKind
from runner.engines.refusals import error_message, fault_for_status
from tests.engines.fake_answers import recorded

RECORDED = {
    "apikey_missing_generate": ("denied", "denied"),
    "apikey_wrong_generate": ("denied", "denied"),
    "not_found": ("denied", "no_route"),
    "gen_get_method": ("denied", "no_route"),
    "gen_bad_json": ("refused", "bad_request"),
    "gen_bad_temperature": ("refused", "bad_request"),
    "gen_bad_top_k": ("refused", "bad_request"),
    "gen_bad_top_p": ("refused", "bad_request"),
    "gen_max_new_neg": ("refused", "bad_request"),
    "gen_empty_ids": ("refused", "bad_request"),
    "gen_float_ids": ("refused", "bad_request"),
    "gen_string_ids": ("refused", "bad_request"),
    "gen_unknown_sampling_param": ("refused", "bad_request"),
    "gen_max_tokens_alias": ("refused", "bad_request"),
    "skiptok_gen_min_new_tokens": ("refused", "bad_request"),
    "gen_too_long": ("refused", "too_long"),
    "gen_total_too_long": ("refused", "too_long"),
    "gen_input_8190": ("refused", "too_long"),
    "gen_dup_rid_inflight_second": ("unusable", "duplicate_rid"),
    "gen_queue_full_2": ("busy", "queue_full"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_error_has_its_kind_and_reason(name):
    exchange = recorded(name)
    fault = fault_for_status(exchange["status"], orjson.dumps(exchange["body"]).decode())
    assert (fault.kind, fault.reason) == RECORDED[name]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, FaultKind.DENIED),
        (400, FaultKind.REFUSED),
        (401, FaultKind.DENIED),
        (403, FaultKind.DENIED),
        (404, FaultKind.DENIED),
        (405, FaultKind.DENIED),
        (413, FaultKind.REFUSED),
        (418, FaultKind.UNUSABLE),
        (422, FaultKind.REFUSED),
        (429, FaultKind.BUSY),
        (499, FaultKind.UNUSABLE),
        (500, FaultKind.UNUSABLE),
        (502, FaultKind.UNREACHABLE),
        (503, FaultKind.BUSY),
        (504, FaultKind.UNUSABLE),
        (204, FaultKind.UNUSABLE),
    ],
)
def test_a_status_alone_decides_the_kind(status, kind):
    assert fault_for_status(status, "").kind is kind


@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "no"}}',
        '{"error": "no"}',
        '{"object": "error", "message": "no", "code": 400}',
        '{"detail": "no"}',
        "no\n",
    ],
)
def test_the_message_is_found_in_every_shape(body):
    assert error_message(body) == "no"


def test_llama_cpps_too_long_is_recognised():
    body = (
        '{"error":{"code":400,"message":"request (1480 tokens) exceeds the available context size'
        ' (1024 tokens), try increasing it","type":"exceed_context_size_error"}}'
    )
    assert fault_for_status(400, body).reason == "too_long"


def test_a_cancelled_request_is_an_abort_whatever_the_status():
    assert fault_for_status(499, '{"error": "cancelled"}').reason == "abort"


def test_the_fault_shows_status_and_message():
    fault = fault_for_status(400, '{"error": {"message": "top_k is wrong"}}')
    assert str(fault) == "refused/bad_request: HTTP 400: top_k is wrong"


@given(st.integers(100, 599), st.text())
def test_any_status_and_body_give_a_fault(status, text):
    assert fault_for_status(status, text).raw == text[: len(fault_for_status(status, text).raw)]
