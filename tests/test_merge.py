"""Parts of one run into one: every sample once, anything doubtful refused with nothing written."""

from pathlib import Path

import msgspec
import pytest
import yaml

from runner.errors import ConfigError, MachineError
from runner.failures import read_failures
from runner.keying import sample_keying
from runner.ledger import (
    account,
    get_sample,
    read_plan,
    read_samples,
    supersede_other_prompts,
)
from runner.merge import merge
from runner.promptfinder import PromptFinder
from runner.records import Counts, RunStatus, Sample
from runner.rundir import RunDir
from runner.shards import verify
from tests.runkit import MOST, Kit, failure, judgement, planned, sample

ROWS = [planned(n) for n in range(12)]
IDENTITY = {"seed": 42, "prompts": {"B4": {"sha256": "x"}}}


def part(
    folder: Path, index: int, of: int, *, made: list[Sample] | None = None, own: list | None = None
) -> Kit:
    """Part `index` of a run whose rows go round by their number."""
    kit = Kit(folder / f"m-B4-0000000{of}.p{index}of{of}")
    own = [one for one in ROWS if one.row % of == index] if own is None else own
    kit.plan([])
    kit.plan(one for one in own)
    _renumber(kit, own)
    made = [sample(one) for one in own] if made is None else made
    kit.samples(made)
    kit.judge(judgement(one) for one in made)
    (kit.run.verdicts("online") / "validators.json").write_text("{}")
    config = {"partition": {"index": index, "of": of}, "seed": 42}
    kit.run.config_yaml.write_text(yaml.safe_dump(config))
    kit.run.provenance_json.write_text("{}")
    kit.run.tokenizer.mkdir()
    kit.run.attempts.mkdir()
    kit.state(identity=IDENTITY, world={"template": "t"})
    return kit


def _renumber(kit: Kit, own: list) -> None:
    """Prompts by their place in this part's own file, as a plan writer numbers them."""
    import shutil

    shutil.rmtree(kit.run.plan)
    shutil.rmtree(kit.run.prompts)
    kit.plan(msgspec.structs.replace(one, prompt=place) for place, one in enumerate(own))


def runs(*kits: Kit) -> list[RunDir]:
    return [kit.run for kit in kits]


def test_partitions_become_the_run_that_one_process_would_have_made(tmp_path: Path) -> None:
    kits = [part(tmp_path, index, 3) for index in range(3)]
    kits[1].fail(failure(ROWS[1]))
    merged = merge(runs(*kits), None, max_attempts=MOST)
    assert merged.path == tmp_path / "m-B4-00000003"
    run = RunDir(merged.path)
    assert merged.state.counts == Counts(planned=12, ok=12)
    assert merged.state.status is RunStatus.DONE
    assert sorted(one.row for one in read_plan(run)) == list(range(12))
    finder = PromptFinder(run)
    for one in read_samples(run):
        assert one == sample(ROWS[one.row])
        prompt = finder.find(one)
        assert prompt is not None
        assert prompt.row == one.row
    assert "partition" not in yaml.safe_load(run.config_yaml.read_text())
    assert len(list((run.path / "merged").iterdir())) == 3
    assert verify(run.samples, full=True).ok
    assert [kit.run.run_json.is_file() for kit in kits] == [True] * 3


def test_exact_duplicates_are_folded(tmp_path: Path) -> None:
    one, other = part(tmp_path / "a", 0, 1), part(tmp_path / "b", 0, 1)
    merged = merge(runs(one, other), tmp_path / "into", max_attempts=MOST)
    assert (merged.folded, merged.state.counts) == (12, Counts(planned=12, ok=12))
    made = RunDir(merged.path)
    assert verify(made.plan, full=True, keying=sample_keying).records == 12
    assert verify(made.prompts).records == 12


def test_failures_of_copies_count_once_and_a_torn_line_harms_no_other(tmp_path: Path) -> None:
    some = [sample(one) for one in ROWS if one.row not in (3, 5)]
    one, other = (part(tmp_path / name, 0, 1, made=some) for name in ("a", "b"))
    for kit in (one, other):
        kit.fail(failure(ROWS[5], requests=1), failure(ROWS[3], requests=MOST - 1))
    with one.run.failures.open("ab") as file:
        file.write(b'{"sample_id":"B4-5-0","rea')
    merged = merge(runs(one, other), tmp_path / "into", max_attempts=MOST)
    found = {key: sum_.requests for key, sum_ in read_failures(RunDir(merged.path)).items()}
    assert found == {"B4-5-0": 1, "B4-3-0": MOST - 1}


def test_a_prompt_that_was_changed_and_accepted_is_the_one_that_counts(tmp_path: Path) -> None:
    kits = [part(tmp_path, index, 2) for index in range(2)]
    new = planned(4, version=1)
    kits[0].plan([msgspec.structs.replace(new, prompt=6)])
    supersede_other_prompts(kits[0].run)
    again = sample(new, try_=1)
    kits[0].samples([again])
    kits[0].judge([judgement(again)])
    merged = RunDir(merge(runs(*kits), None, max_attempts=MOST).path)
    assert {p.prompt_hash for p in read_plan(merged) if p.row == 4} == {new.prompt_hash}
    accounts = account(merged, "online", max_attempts=MOST)
    assert (accounts.counts, accounts.unplanned) == (Counts(planned=12, ok=12), 0)
    prompt = PromptFinder(merged).find(again)
    assert prompt is not None
    assert prompt.prompt_hash == new.prompt_hash


def test_two_answers_of_one_sample_are_refused_and_listed(tmp_path: Path) -> None:
    changed = [sample(one, launch=2 if one.row == 4 else 1) for one in ROWS]
    one, other = part(tmp_path / "a", 0, 1), part(tmp_path / "b", 0, 1, made=changed)
    with pytest.raises(MachineError, match="B4-4-0"):
        merge(runs(one, other), tmp_path / "into", max_attempts=MOST)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_two_prompts_of_one_sample_are_refused(tmp_path: Path) -> None:
    changed = [planned(one.row, version=int(one.row == 4)) for one in ROWS]
    one, other = part(tmp_path / "a", 0, 1), part(tmp_path / "b", 0, 1, own=changed)
    with pytest.raises(MachineError, match="two prompts"):
        merge(runs(one, other), tmp_path / "into", max_attempts=MOST)


def test_a_missing_partition_is_named(tmp_path: Path) -> None:
    kits = [part(tmp_path, index, 3) for index in (0, 2)]
    with pytest.raises(ConfigError, match="0 of 3, 2 of 3"):
        merge(runs(*kits), None, max_attempts=MOST)


@pytest.mark.parametrize("other", [{"identity": {"seed": 7}}, {"world": {"template": "u"}}])
def test_runs_of_another_identity_or_world_are_refused(tmp_path: Path, other: dict) -> None:
    kits = [part(tmp_path, index, 2) for index in range(2)]
    kits[1].state(**{"identity": IDENTITY, "world": {"template": "t"}, **other})
    with pytest.raises(ConfigError, match="not parts of one run"):
        merge(runs(*kits), None, max_attempts=MOST)


def test_a_taken_place_is_left_alone(tmp_path: Path) -> None:
    kits = [part(tmp_path, index, 2) for index in range(2)]
    (tmp_path / "m-B4-00000002").mkdir()
    with pytest.raises(ConfigError, match="taken"):
        merge(runs(*kits), None, max_attempts=MOST)


def test_a_requeued_sample_stays_superseded(tmp_path: Path) -> None:
    from tests.test_ledger import drop

    kits = [part(tmp_path, index, 2) for index in range(2)]
    drop(kits[0], 4)
    again = sample(ROWS[4], try_=1)
    kits[0].samples([again])
    kits[0].judge([judgement(again)])
    merged = merge(runs(*kits), None, max_attempts=MOST)
    accounts = account(RunDir(merged.path), "online", max_attempts=MOST)
    assert (accounts.counts, accounts.superseded) == (Counts(planned=12, ok=12), 1)
    assert get_sample(RunDir(merged.path), "B4-4-0") == again
