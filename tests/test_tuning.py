"""Trials: when one has shown enough, what the search says, and that nothing done is done again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from runner.config import Tuning
from runner.meter import Mark, Meter, Totals
from runner.plugins import search_seed, trials_left
from runner.rundir import append_line
from runner.tuning import (
    TRIALS_FILE,
    Trial,
    advice,
    best_of,
    end_tuning,
    keep_best,
    read_trials,
    shown,
    trial_of,
    uncertainty,
)
from tests.test_identity import config
from tests.test_meter import play
from tests.test_performance import finished, spent


def trial(name: str, speed: float | None, *overrides: str, **more: object) -> Trial:
    given = ["server=x", *overrides]
    return Trial(run_id=name, overrides=given, tokens_per_s=speed, **more)


def meter_after(seconds: float, *, answers: int, tokens: int) -> Meter:
    """Steady since 0 s, with so much since then."""
    meter = Meter(lambda: seconds)
    meter.began = meter.steady = Mark(at_s=0.0, totals=Totals())
    meter.totals = Totals(answers=answers, output_tokens=tokens)
    return meter


def test_a_trial_ends_after_its_time() -> None:
    tuning = Tuning(trial_s=60.0)
    assert shown(meter_after(59.0, answers=9, tokens=9), tuning, None, now_s=59.0) == ""
    assert shown(meter_after(61.0, answers=9, tokens=9), tuning, None, now_s=61.0) == (
        "measured for 61 s"
    )


def test_one_that_is_surely_slower_is_given_up_early() -> None:
    slow = meter_after(20.0, answers=400, tokens=20 * 500)
    why = shown(slow, Tuning(trial_s=60.0), 1000.0, now_s=20.0)
    assert why.startswith("given up after 20 s")


@pytest.mark.parametrize(
    ("seconds", "answers", "speed", "fastest"),
    [
        (10.0, 400, 500, 1000.0),  # too early
        (20.0, 10, 500, 1000.0),  # too few answers to be sure
        (20.0, 400, 680, 1000.0),  # within the doubt
        (20.0, 400, 500, None),  # the first trial
    ],
)
def test_one_that_may_still_win_goes_on(
    seconds: float, answers: int, speed: int, fastest: float | None
) -> None:
    meter = meter_after(seconds, answers=answers, tokens=round(seconds * speed))
    assert shown(meter, Tuning(trial_s=60.0), fastest, now_s=seconds) == ""


def test_one_that_never_gets_steady_ends_too() -> None:
    meter, _ = play(1, width=50)
    assert shown(meter, Tuning(trial_s=10.0), None, now_s=120.0) == ""
    assert shown(meter, Tuning(trial_s=10.0), None, now_s=161.0) == "no steady window came"


def test_after_its_last_request_it_ends_by_itself() -> None:
    assert shown(finished(), Tuning(trial_s=1.0), None, now_s=1e6) == ""


def test_the_best_is_the_fastest_that_did_not_fail() -> None:
    trials = [trial("a", 10.0), trial("b", None), trial("c", 30.0), trial("d", 20.0)]
    best = best_of(trials)
    assert best is not None
    assert best.run_id == "c"
    assert best_of([trial("b", None)]) is None


def test_the_advice_names_what_differs_and_how_sure_it_is() -> None:
    trials = [
        trial("a", 1000.0, "client.concurrency=64", uncertainty=0.02),
        trial("b", 800.0, "client.concurrency=32", uncertainty=0.02),
        trial("c", None, "client.concurrency=999", reason="out of memory"),
    ]
    assert advice(trials) == (
        "Best of 3 trials: client.concurrency=64 with 1,000 output tokens/s, give or take 2%; the "
        "next, client.concurrency=32, is 20% slower, clearly; 1 of 3 trials failed."
    )


def test_a_close_second_is_said_to_be_close() -> None:
    trials = [
        trial("a", 1000.0, "x=1", uncertainty=0.05),
        trial("b", 970.0, "x=2", uncertainty=0.05),
    ]
    assert "within the uncertainty" in advice(trials)


def test_when_all_failed_it_says_why() -> None:
    assert advice([trial("a", None, reason="out of memory\nmore")]) == (
        "No trial gave a speed (1 of 1 trials failed: out of memory)."
    )


def test_a_torn_line_is_a_trial_that_did_not_end(tmp_path: Path) -> None:
    append_line(tmp_path / TRIALS_FILE, trial("a", 1.0))
    with (tmp_path / TRIALS_FILE).open("ab") as file:
        file.write(b'{"run_id": "b", "overr')
    assert [one.run_id for one in read_trials(tmp_path)] == ["a"]


def test_the_last_line_of_a_run_counts(tmp_path: Path) -> None:
    append_line(tmp_path / TRIALS_FILE, trial("a", None))
    append_line(tmp_path / TRIALS_FILE, trial("a", 5.0))
    assert [one.tokens_per_s for one in read_trials(tmp_path)] == [5.0]


def test_a_search_fails_only_when_no_trial_gave_a_speed(tmp_path: Path) -> None:
    said: list[str] = []
    append_line(tmp_path / TRIALS_FILE, trial("a", None))
    assert end_tuning(tmp_path, said.append) == [1]
    append_line(tmp_path / TRIALS_FILE, trial("b", 5.0))
    assert end_tuning(tmp_path, said.append) == [0]
    assert "experiment=tuned" in said[-1]


def test_a_point_without_a_steady_window_failed_and_says_so() -> None:
    from runner.config import Cost
    from runner.gpuwatch import GpuWatch
    from runner.performance import measure

    good = measure(finished(), spent(), GpuWatch(), Cost(), now_s=120.0)
    assert trial_of("r", [], good, reason="").tokens_per_s == 10.0
    assert "too short" in trial_of("r", [], None, reason="").reason
    assert trial_of("r", [], None, reason="out of memory").reason == "out of memory"


def test_more_answers_make_a_speed_surer() -> None:
    assert uncertainty(10_000) < uncertainty(100) < uncertainty(0)


def test_the_best_server_becomes_a_preset_that_composes(tmp_path: Path) -> None:
    from hydra import compose, initialize_config_dir

    from runner.config import parse
    from tests.test_identity import CONF

    chosen = config(
        "server=sglang", "+server.flags.mem-fraction-static=0.84", "client.concurrency=96"
    )
    keep_best(tmp_path, chosen, trial("a", 5.0))
    preset = yaml.safe_load((tmp_path / "best" / "server" / "tuned.yaml").read_text())
    assert preset["flags"] == {"mem-fraction-static": 0.84}
    search = f"hydra.searchpath=[file://{tmp_path / 'best'}]"
    with initialize_config_dir(CONF, version_base="1.3"):
        composed = parse(
            compose("config", overrides=["paths.outputs=/o", "experiment=tuned", search])
        )
    assert composed.server.flags["mem-fraction-static"] == 0.84
    assert composed.server.name == "tuned"
    assert composed.client.concurrency == 96
    assert composed.server.restart.ladder == chosen.server.restart.ladder


@pytest.mark.parametrize("preset", ["experiment=tune_grid"])
def test_the_presets_compose_to_trials(preset: str) -> None:
    composed = config(preset, "server=sglang")
    assert composed.tuning.trial_s == 300
    assert composed.server.restart.max_restarts == 0
    assert composed.server.restart.ladder == []


def test_a_study_that_was_not_begun_owes_all_its_trials(tmp_path: Path) -> None:
    assert trials_left(12, str(tmp_path / "new" / "study.db"), "tune") == 12


def study(path: Path) -> Path:
    """A study of three trials, of which one was killed, beside another study."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table studies (study_id integer, study_name text)")
        database.execute("create table trials (study_id integer, state text)")
        database.execute("insert into studies values (1, 'tune'), (2, 'other')")
        rows = [(1, "COMPLETE"), (1, "FAIL"), (1, "RUNNING"), (2, "COMPLETE")]
        database.executemany("insert into trials values (?, ?)", rows)
    return path


def test_trials_that_ended_are_not_owed_and_one_that_was_killed_is(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    assert trials_left(12, str(path), "tune") == 10
    assert trials_left(1, str(path), "tune") == 0


def test_a_search_that_goes_on_does_not_begin_with_the_same_points(tmp_path: Path) -> None:
    assert search_seed(42, str(tmp_path / "none.db"), "tune") == 42
    assert search_seed(42, str(study(tmp_path / "study.db")), "tune") == 45
