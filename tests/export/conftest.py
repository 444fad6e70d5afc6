"""Runs to export: of the bundled model (see tests/runs) and of every family."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner.export import Manifest, Policy, Request, RunInput, export
from runner.records import PlannedSample, TokenProfile
from runner.rundir import RunDir, replace_file
from runner.selection import PartRequest, PlanRequest
from tests.families.build import profile_named, tokenizer_named
from tests.runs.conftest import MAX_U64, append, make_run, runs
from tests.validators.corpus import Case
from tests.validators.make import ids_of, judge_of, prompt_of, rendered, sample_of

__all__ = ["make_run", "runs"]

Export = Callable[..., Manifest]


def given(run: RunDir, **changes: Any) -> RunInput:
    """A run as the command gives it to `export`."""
    profile = msgspec.json.decode(run.profile_json.read_bytes(), type=TokenProfile)
    return RunInput(
        run=run, name=run.path.name, model="toy", verdict_set="online", profile=profile
    )._replace(**changes)


@pytest.fixture
def exported(tmp_path: Path) -> Export:
    """Export runs into tmp_path/NAME with the given policy; the manifest."""

    def call(
        *runs: RunDir | RunInput,
        to: str = "pretokenized",
        out: str = "out",
        overwrite: bool = False,
        options: Any = None,
        **policy: Any,
    ) -> Manifest:
        inputs = [given(run) if isinstance(run, RunDir) else run for run in runs]
        request = Request(to=to, policy=Policy(**policy))
        if options is not None:
            request = msgspec.structs.replace(request, options=options)
        return export(inputs, tmp_path / out, request, overwrite=overwrite, say=lambda text: None)

    return call


def lines(path: Path) -> list[dict[str, Any]]:
    """All JSON lines of a file, or of a folder's files in their order; none of no folder."""
    files = [path] if path.suffix == ".jsonl" else sorted(path.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def tree(path: Path) -> dict[str, bytes]:
    """Every file under a folder with its bytes."""
    return {
        str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()
    }


def family_run(folder: Path, family: str, cases: Iterable[Case]) -> RunDir:
    """A run directory of a family's tokenizer; sample N-th answers its own prompt."""
    run = RunDir(folder)
    made = list(_made(family, cases))
    append(run.samples, (sample for sample, _, _ in made))
    append(run.verdicts("online"), (judgement for _, judgement, _ in made))
    append(run.prompts, (prompt for _, _, prompt in made), keying=lambda line: ("", 0))
    append(
        run.plan,
        (
            PlannedSample(
                sample_id=sample.sample_id,
                prompt=ordinal,
                prompt_hash=sample.prompt_hash,
                category="B4",
                row=ordinal,
                k=0,
                prompt_tokens=len(sample.input_ids),
            )
            for ordinal, (sample, _, _) in enumerate(made)
        ),
    )
    part = PartRequest(fingerprint="f", rows=len(made), count=None, n=1, threshold=MAX_U64)
    request = PlanRequest(seed=1, parts={"B4": part})
    replace_file(run.plan / "request.json", msgspec.json.encode(request))
    tokenizer_named(family).save(run.tokenizer)
    run.profile_json.write_bytes(msgspec.json.encode(profile_named(family)))
    return run


def _made(family: str, cases: Iterable[Case]) -> Iterator[tuple[Any, Any, Any]]:
    for row, case in enumerate(cases):
        mode = case.mode or next(iter(profile_named(family).modes))
        prompt = prompt_of(case.messages, tools=case.tools)
        prompt = msgspec.structs.replace(prompt, row=row, prompt_hash=f"{row + 1:032x}"[::-1])
        sample = sample_of(
            ids_of(family, case.output),
            input_ids=rendered(family, prompt, mode),
            finish="length" if case.cut else "stop",
            mode=mode,
            sample_id=f"B4-{row}-0",
            row=row,
            prompt_hash=prompt.prompt_hash,
        )
        yield sample, judge_of(family, mode).judge(sample, prompt), prompt
