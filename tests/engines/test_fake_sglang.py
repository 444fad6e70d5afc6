"""The fake server itself: same seed, same content; it dies, drains and refuses as the real one."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engines.fake_answers import (
    ANSWER_FAULTS,
    Fault,
    Scenario,
    answer_for,
    k_of,
    output_for,
    recorded,
    refusal,
    spoiled,
)
from tests.fake_sglang import checked

ROOT = Path(__file__).parents[2]
THINKING = Scenario(think_close_id=5, seed=3)


def body(rid: str = "B1-7-0", **sampling: Any) -> dict[str, Any]:
    return {"rid": rid, "input_ids": [40, 41], "sampling_params": sampling}


class Process:
    """The fake as a process of its own."""

    def __init__(self, *argv: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fake_sglang", *argv],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def ask(self, path: str, sent: object = None, *, key: str = "") -> tuple[int, Any]:
        data = None if sent is None else json.dumps(sent).encode()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def scenario(**fields: Any) -> str:
    return msgspec.json.encode(Scenario(**fields)).decode()


def test_two_processes_give_equal_content_and_one_counts_it():
    with (
        Process("--scenario", scenario(seed=9)) as one,
        Process("--scenario", scenario(seed=9)) as two,
    ):
        first, second = one.ask("/generate", body()), two.ask("/generate", body())
        assert first[1]["output_ids"] == second[1]["output_ids"]
        stats = one.ask("/fake/stats")[1]
        assert (stats["requests"], stats["answered"]) == (1, 1)


def test_a_bad_id_kills_the_process_as_it_kills_the_real_one():
    with Process() as fake:
        with pytest.raises((OSError, urllib.error.URLError)):
            fake.ask("/generate", {"input_ids": [10**6]})
        assert fake.process.wait(10) == -signal.SIGKILL


def test_sigterm_drains_and_ends_with_0():
    with Process() as fake:
        fake.process.terminate()
        assert fake.process.wait(10) == 0


def test_sigterm_lets_what_runs_finish():
    with Process("--scenario", scenario(latency_s=0.6)) as fake, ThreadPoolExecutor() as threads:
        running = threads.submit(fake.ask, "/generate", body())
        while not fake.ask("/fake/stats")[1]["running"]:
            time.sleep(0.01)
        fake.process.terminate()
        assert running.result()[0] == 200
        assert fake.process.wait(10) == 0


def test_a_scenario_can_ignore_sigterm():
    with Process("--scenario", scenario(ignore_sigterm=True)) as fake:
        fake.process.terminate()
        assert fake.ask("/health")[0] == 200


def test_flags_of_the_real_server_are_taken():
    with Process("--model-path", "x", "--api-key", "k-1", "--port", "0", "--tp-size", "8") as fake:
        assert fake.ask("/generate", body())[0] == 401
        assert fake.ask("/generate", body(), key="k-1")[0] == 200
        assert fake.ask("/health")[0] == 200


def test_faults_can_be_changed_while_it_runs():
    with Process("--scenario", scenario(faults=[Fault("busy")])) as fake:
        assert fake.ask("/generate", body())[0] == 503
        fake.ask("/fake/faults", [])
        assert fake.ask("/generate", body())[0] == 200
        assert fake.ask("/fake/stats")[1]["faults"] == {"busy": 1}


def test_an_unknown_fault_is_refused_by_name():
    with pytest.raises(ValueError, match="no fault 'bussy'"):
        checked([Fault("bussy")])


@pytest.mark.parametrize(
    ("rid", "k"),
    [
        ("B4-9539-0", 0),
        ("B4-9539-3", 3),
        ("B4.src-9539-12.t2", 12),
        ("B4-9539-3#2", 3),
        ("B4-9539-3.1.7", 3),
        ("B4-9539-3.1a2b", 3),
        ("B4.swe-bench-2-9539-3.ff", 3),
        ("canary", 0),
        ("0d9f7a60-1234-4123-8abc-0123456789ab", 0),
    ],
)
def test_k_is_read_from_a_sample_id(rid, k):
    assert k_of(rid) == k


def test_output_depends_on_seed_prompt_and_k_only():
    base = output_for(THINKING, [40, 41], 1, {})
    assert base == output_for(THINKING, [40, 41], 1, {"top_p": 0.5})
    assert base != output_for(THINKING, [40, 41], 2, {})
    assert base != output_for(THINKING, [40, 42], 1, {})
    assert base != output_for(msgspec.structs.replace(THINKING, seed=4), [40, 41], 1, {})


def test_greedy_samples_of_one_prompt_are_equal():
    cold = {"temperature": 0}
    assert output_for(THINKING, [40], 1, cold) == output_for(THINKING, [40], 2, cold)


@pytest.mark.parametrize("prompt", range(20))
def test_an_answer_closes_its_thinking_once_and_stops_once(prompt):
    ids, finish = output_for(THINKING, [40, prompt], 0, {})
    assert ids.count(5) == 1
    assert ids.count(2) == 1
    assert (ids[-1], finish) == (2, {"type": "stop", "matched": 2})
    assert 0 < ids.index(5) < len(ids) - 1
    assert all(value < THINKING.vocab_assigned for value in ids)


def test_a_limit_below_the_length_cuts_it():
    ids, finish = output_for(THINKING, [40], 0, {"max_new_tokens": 3})
    assert (len(ids), finish) == (3, {"type": "length", "length": 3})


@pytest.mark.parametrize(
    "fields", [{"over_length_rate": 1.0}, {"min_output": 50, "max_output": 50}]
)
def test_some_answers_never_stop(fields):
    never = Scenario(**fields)
    ids, finish = output_for(never, [40], 0, {"max_new_tokens": 40})
    assert (len(ids), finish["type"]) == (40, "length")


def test_an_answer_has_the_fields_of_a_recorded_one():
    mine = answer_for("r", [1], ([2], {"type": "stop", "matched": 2}))
    real = recorded("gen_return_prompt_token_ids")["body"]
    assert set(mine) == set(real)
    assert set(mine["meta_info"]) == set(real["meta_info"])


@pytest.mark.parametrize("kind", ANSWER_FAULTS)
def test_each_fault_changes_the_answer_and_not_the_original(kind):
    good = answer_for("r", [40], ([40, 5, 41, 2], {"type": "stop", "matched": 2}))
    before = json.dumps(good)
    assert spoiled(good, kind, THINKING) != json.loads(before)
    assert json.dumps(good) == before


def strikes(fault: Fault, *, rid: str = "r", ids: tuple[int, ...] = (1,)) -> list[int]:
    return [n for n in range(1, 101) if fault.strikes(n, rid, list(ids), seed=0)]


def test_a_fault_strikes_by_number_range_rate_prompt_or_rid():
    assert strikes(Fault("busy", at=[3, 7])) == [3, 7]
    assert strikes(Fault("busy", first=10, last=12)) == [10, 11, 12]
    assert 20 < len(strikes(Fault("busy", rate=0.3))) < 40
    assert strikes(Fault("busy", rate=0.0)) == []
    assert strikes(Fault("busy", with_id=9)) == []
    assert len(strikes(Fault("busy", with_id=1))) == 100
    assert strikes(Fault("busy", with_rid="B1-")) == []


REFUSED = [
    "gen_too_long",
    "gen_total_too_long",
    "gen_input_8190",
    "gen_empty_ids",
    "gen_bad_top_p",
    "gen_max_new_neg",
    "gen_unknown_sampling_param",
    "gen_max_tokens_alias",
]


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_in_the_words_of_the_real_server(name):
    exchange = recorded(name)
    sent = exchange["request"]["body"]
    sent["input_ids"] = [40] * sent.get("trimmed_from", len(sent["input_ids"]))
    mine = refusal(Scenario(), sent)["error"]
    real = exchange["body"]["error"]
    if isinstance(real, str):
        assert mine[:20] == real[:20]
    else:
        assert real["message"].startswith(mine["message"])


@pytest.mark.parametrize("name", ["gen_length", "gen_stop_eos", "gen_ignore_eos", "gen_top_k_0"])
def test_it_accepts_what_the_real_server_accepts(name):
    assert refusal(Scenario(), recorded(name)["request"]["body"]) is None
