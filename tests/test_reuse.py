"""Samples of a run with a smaller max_new_tokens: those that stopped by themselves come over."""

from pathlib import Path

import pytest

from runner.errors import ConfigError
from runner.records import Prompt, Sample
from runner.reuse import GROWN, check_reusable, others_of, take_over
from tests.runkit import Kit, planned, sample
from tests.test_identity import config

PROMPTS = {"B4": {"sha256": "x"}}


def identity(most: int, **more: object) -> dict:
    return {GROWN: most, "seed": 1, "prompts": PROMPTS, **more}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Kit, Kit]:
    """A short run with three samples, one of them cut, and a longer one that owes four."""
    short, long = Kit(tmp_path / "short"), Kit(tmp_path / "long")
    rows = [planned(n) for n in range(4)]
    short.plan(rows[:3])
    short.samples([sample(rows[0]), sample(rows[1], finish="length"), sample(rows[2])])
    short.state(identity=identity(100))
    long.plan([*rows[:2], planned(2, version=1), rows[3]])
    long.state(identity=identity(200))
    return short, long


def test_stopped_ones_come_over_as_they_are_and_cut_ones_are_owed(two: tuple[Kit, Kit]) -> None:
    _, long = two
    taken: list[tuple[Sample, Prompt]] = []
    settings = config("resume.reuse=[short]")
    (told,) = take_over(
        long.run, settings, long.run.read(), lambda one, prompt: taken.append((one, prompt))
    )
    assert [one for one, _ in taken] == [sample(planned(0))]  # 1 was cut, 2 has another prompt
    assert taken[0][1].row == 0
    assert (told.samples, told.cut, told.run_id) == (1, 1, "short")


def test_what_was_taken_is_not_taken_twice(two: tuple[Kit, Kit]) -> None:
    _, long = two
    long.samples([sample(planned(0))])
    settings = config("resume.reuse=[short]")
    (told,) = take_over(long.run, settings, long.run.read(), lambda _one, _prompt: None)
    assert told.samples == 0


@pytest.mark.parametrize(
    "other", [identity(300), identity(100, seed=2), {**identity(100), "prompts": {"B9": {}}}]
)
def test_a_run_that_differs_in_more_is_refused(two: tuple[Kit, Kit], other: dict) -> None:
    short, long = two
    short.state(identity=other)
    with pytest.raises(ConfigError, match="cannot be reused"):
        check_reusable(long.run, short.run, long.run.read())


def test_another_world_is_refused(two: tuple[Kit, Kit]) -> None:
    short, long = two
    short.state(identity=identity(100), world={"template": "a"})
    state = long.state(identity=identity(200), world={"template": "b"})
    with pytest.raises(ConfigError, match="template"):
        check_reusable(long.run, short.run, state)


def test_a_run_that_is_not_there_is_named(two: tuple[Kit, Kit]) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        others_of(["nowhere"], two[1].run)
