"""One run of several with one identity: the parts of a partitioned run, or copies that went apart.

Exact duplicates are folded; anything else that is there twice is refused and listed, and then
nothing was written. The new directory is built beside its place and renamed when it is whole. Lines
of samples, with the run ids, attempts and launches that they tell of, are copied as they are;
merged/ keeps what each part said of itself.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from runner.errors import ConfigError, MachineError
from runner.keying import try_pairs
from runner.ledger import account, fold, read_plan, sample_keying
from runner.plansummary import PlanSummary, read_summary, write_summary
from runner.records import Record, RunStatus
from runner.rundir import RunDir, RunState, Tokens, append_lines, replace_file
from runner.selection import PlanRequest, keep_selection, read_request
from runner.shards import ShardReader, ShardWriter
from runner.superseded import list_superseded
from runner.world import Change, changes, table
from runner.yamltext import dump_yaml, load_yaml

LISTED = 20
"""Conflicts that are listed by name; the rest is only counted."""
BACKLOG_BYTES = 64 * 2**20


class Part(Record, frozen=True, kw_only=True):
    """One of the runs that become one."""

    run: RunDir
    state: RunState
    request: PlanRequest
    config: dict[str, Any]

    @property
    def partition(self) -> tuple[int, int]:
        """(index, of); (0, 1) for a whole run."""
        told = self.config.get("partition") or {}
        return int(told.get("index", 0)), int(told.get("of", 1))


class Merged(Record, frozen=True, kw_only=True):
    """What came of it."""

    path: Path
    state: RunState
    folded: int
    """Samples that were there twice, byte for byte."""


def merge(runs: Sequence[RunDir], target: Path | None, *, max_attempts: int) -> Merged:
    """Make one run of several; `target` None: where the unpartitioned command would look for it.

    Raises:
        ConfigError: they are not parts of one run, or the place is taken.
        MachineError: one of them is being worked on or damaged, or the same id has two answers.
    """
    with ExitStack() as locks:
        for run in runs:
            locks.enter_context(run.locked())
        parts = [_open(run) for run in runs]
        _check_one_run(parts)
        path = target or parts[0].run.path.with_name(parts[0].run.path.name.partition(".p")[0])
        if path.exists():
            raise ConfigError(
                "The place for the merged run is taken.",
                where="--into",
                found=str(path),
                next_step="give another folder with --into, or move that one away",
            )
        new = RunDir(path.with_name(f".{path.name}.merging"))
        shutil.rmtree(new.path, ignore_errors=True)
        try:
            folded = _build(parts, new, path.name, max_attempts=max_attempts)
            new.path.rename(path)
        finally:
            shutil.rmtree(new.path, ignore_errors=True)
    return Merged(path=path, state=RunDir(path).read(), folded=folded)


def _open(run: RunDir) -> Part:
    request = read_request(run)
    if request is None:
        raise ConfigError("This run has no whole plan.", where=str(run.path))
    config = load_yaml(run.config_yaml.read_bytes())
    return Part(run=run, state=run.read(), request=request, config=config)


def _check_one_run(parts: Sequence[Part]) -> None:
    """One identity, one world, all partitions."""
    first = parts[0]
    for part in parts[1:]:
        differ = [*_differences(first.state.identity, part.state.identity)]
        differ += changes(first.state.world, part.state.world)
        if differ:
            raise ConfigError(
                "These are not parts of one run.\n" + table(differ),
                where=str(part.run.path),
                found=f"another run than {first.run.path.name}",
                allowed="runs of one identity and one world",
            )
    there = sorted({part.partition for part in parts})
    whole = [(index, there[0][1]) for index in range(there[0][1])]
    if there != whole:
        raise ConfigError(
            "Parts of the run are missing, or are of different partitions.",
            where="RUN ...",
            found=", ".join(f"{index} of {of}" for index, of in there),
            allowed=", ".join(f"{index} of {of}" for index, of in whole),
        )


def _differences(was: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    for name in sorted(set(was) | set(now)):
        one, other = was.get(name), now.get(name)
        if one != other:
            yield Change(name=name, was=_json(one), now=_json(other))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode() if value is not None else ""


def _build(parts: Sequence[Part], new: RunDir, name: str, *, max_attempts: int) -> int:
    new.path.mkdir(parents=True)
    _merge_plans(parts, new)
    folded = _merge_lines([part.run.samples for part in parts], new.samples, fold=False)
    append_lines(new.superseded, [one for part in parts for one in list_superseded(part.run)])
    _merge_verdicts(parts, new)
    _merge_failures([part.run for part in parts], new)
    shutil.copytree(parts[0].run.tokenizer, new.tokenizer)
    shutil.copy2(parts[0].run.provenance_json, new.provenance_json)
    config = {key: value for key, value in parts[0].config.items() if key != "partition"}
    replace_file(new.config_yaml, dump_yaml(config).encode())
    for number, part in enumerate(parts):
        kept = new.path / "merged" / f"{number:02d}-{part.run.path.name}"
        kept.mkdir(parents=True)
        shutil.copytree(part.run.attempts, kept / "attempts")
        shutil.copy2(part.run.run_json, kept / "run.json")
    new.write(_state(parts, new, name, max_attempts=max_attempts))
    return folded


def _merge_failures(runs: Sequence[RunDir], new: RunDir) -> None:
    """Each line once: copies have those from before they went apart in common. A line that a crash
    tore is ended here, so that it takes no other one with it."""
    seen: set[bytes] = set()
    with new.failures.open("wb") as out:
        for run in runs:
            for line in run.failures.read_bytes().splitlines() if run.failures.is_file() else []:
                if line not in seen:
                    seen.add(line)
                    out.write(line + b"\n")


def _merge_plans(parts: Sequence[Part], new: RunDir) -> None:
    """plan/ and prompts/: each sample once, as its part plans it now; each prompt with its new
    place."""
    seen: dict[str, str] = {}
    stored = 0
    with (
        ShardWriter(new.plan, keying=sample_keying) as plan,
        ShardWriter(new.prompts, keying=lambda _line: ("", 0)) as prompts,
    ):
        for part in parts:
            source = ShardReader(part.run.prompts, keying=lambda _line: ("", 0))
            places: dict[int, int] = {}
            for one in read_plan(part.run):
                if one.sample_id in seen:
                    if seen[one.sample_id] != one.prompt_hash:
                        raise _conflict([one.sample_id], "has two prompts")
                    continue
                seen[one.sample_id] = one.prompt_hash
                if one.prompt >= 0 and one.prompt not in places:
                    prompts.put(source.at(one.prompt))
                    places[one.prompt], stored = stored, stored + 1
                moved = msgspec.structs.replace(one, prompt=places.get(one.prompt, -1))
                plan.put(msgspec.json.encode(moved))
    request = _widest([part.request for part in parts])
    replace_file(new.plan / "request.json", msgspec.json.encode(request))
    write_summary(new, _sum_summaries([read_summary(part.run) for part in parts]))
    keep_selection(new)


def _widest(requests: Sequence[PlanRequest]) -> PlanRequest:
    """Every part as the one that takes most of it asks for it."""
    widest = {
        name: max(
            (request.parts[name] for request in requests if name in request.parts),
            key=lambda one: (one.threshold, one.n),
        )
        for request in requests
        for name in request.parts
    }
    return msgspec.structs.replace(requests[0], parts=widest)


def _sum_summaries(summaries: Iterable[PlanSummary]) -> PlanSummary:
    whole = PlanSummary()
    for summary in summaries:
        for name, part in summary.parts.items():
            whole.part(name).add(part)
    return whole


def _merge_verdicts(parts: Sequence[Part], new: RunDir) -> None:
    """The sets that every part has, judged by the same validators; others can be made again."""
    names = set.intersection(
        *({path.name for path in (p.run.path / "verdicts").glob("[!.]*")} for p in parts)
    )
    for name in sorted(names):
        folders = [part.run.verdicts(name) for part in parts]
        described = {(folder / "validators.json").read_bytes() for folder in folders}
        if len(described) == 1:
            _merge_lines(folders, new.verdicts(name), fold=True)
            replace_file(new.verdicts(name) / "validators.json", described.pop())


def _merge_lines(folders: Sequence[Path], target: Path, *, fold: bool) -> int:
    """Copy all lines; the same line twice is written once. `fold`: one of each id and try, whatever
    else it says. Gives how many were left out.

    Raises:
        MachineError: two different lines of one id and try.
    """
    readers = [ShardReader(folder, keying=sample_keying) for folder in folders]
    pairs = [try_pairs(reader.index()) for reader in readers]
    values, counts = np.unique(np.concatenate(pairs), return_counts=True)
    suspects = set(values[counts > 1].tolist())
    first: dict[int, bytes] = {}
    conflicts: list[str] = []
    left_out = 0
    with ShardWriter(target, keying=sample_keying) as writer:
        for reader, own in zip(readers, pairs, strict=True):
            for line, pair in zip(reader.lines(), own.tolist(), strict=True):
                if pair in suspects:
                    before = first.setdefault(pair, line)
                    if before is not line:
                        left_out += 1
                        if before != line and not fold:
                            conflicts.append(sample_keying(line)[0])
                        continue
                writer.put(line)
                if writer.backlog_bytes > BACKLOG_BYTES:
                    writer.flush()
    if conflicts:
        raise _conflict(conflicts, "has two answers")
    return left_out


def _conflict(ids: Sequence[str], what: str) -> MachineError:
    more = f", and {len(ids) - LISTED:,} more" if len(ids) > LISTED else ""
    return MachineError(
        f"These runs cannot be merged: the same sample {what}.",
        where=", ".join(ids[:LISTED]) + more,
        found=f"{len(ids):,} ids that are not the same in all of them",
        allowed="exact duplicates",
        next_step="requeue or keep them in one of the runs only; nothing was written",
    )


def _state(parts: Sequence[Part], new: RunDir, name: str, *, max_attempts: int) -> RunState:
    first = parts[0].state
    accounts = account(new, first.validator_set, max_attempts=max_attempts)
    whole = fold(new, first.validator_set).all()
    done = not accounts.counts.pending
    return msgspec.structs.replace(
        first,
        run_id=name,
        status=RunStatus.DONE if done else RunStatus.INTERRUPTED,
        reason=f"merged of {len(parts)} runs",
        counts=accounts.counts,
        unplanned=accounts.unplanned,
        tokens=Tokens(prompt=whole.prompt_tokens, output=whole.output_tokens),
        generate_s=sum(part.state.generate_s for part in parts),
        generate_tokens=sum(part.state.generate_tokens for part in parts),
        gates={},
        attempts=max(part.state.attempts for part in parts),
        launches=max(part.state.launches for part in parts),
        created_at=min(part.state.created_at for part in parts),
        mlflow_run_id="",
    )
