"""One export from its beginning to its manifest."""

import hashlib
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

import runner
from runner.errors import ConfigError, MachineError
from runner.export.dealing import Dealer
from runner.export.folder import ExportFolder, State
from runner.export.formats import Finished, Format, Options, PartFile
from runner.export.item import Reader
from runner.export.layout import lay_out
from runner.export.leftout import left_out_by_policy, read_left_out, write_left_out
from runner.export.manifest import (
    EXPORT_SCHEMA,
    CategoryTotals,
    Counts,
    Manifest,
    PartState,
    RunEntry,
    by_category,
    file_entry,
    summed_notes,
    total,
)
from runner.export.policy import Policy
from runner.export.rows import Survey, survey
from runner.export.sources import RunInput, Source, check_one_tokenizer, open_sources
from runner.export.table import FORMATS
from runner.export.writing import Say, refusals, write_parts
from runner.records import Record
from runner.shards.layout import blame


@dataclass(frozen=True)
class _Job:
    """One export: where it goes, what it reads, what was found, and how it is written."""

    folder: ExportFolder
    sources: list[Source]
    found: Survey
    form: Format
    request: "Request"
    digest: str


class Request(Record, frozen=True, kw_only=True):
    """What is asked for: a format of `FORMATS`, the policy, and settings of single formats."""

    to: str = "pretokenized"
    policy: Policy = Policy()
    options: Options = Options()


def export(
    runs: list[RunInput], out: Path, request: Request, *, overwrite: bool = False, say: Say = print
) -> Manifest:
    """Export the current samples of some runs into a folder; goes on where a killed one stopped,
    and does nothing where it is whole. `overwrite` takes away another export that is there.

    Raises:
        ConfigError: the policy, the runs or the folder do not fit.
        MachineError, DamagedShard: a run cannot be read or the folder cannot be written.
    """
    sources = open_sources(runs)
    form = FORMATS[request.to](request.options, sources)
    if form.holds_ids:
        check_one_tokenizer(sources)
    found = survey(sources, request.policy)
    digest = _digest(found, runs, request)
    folder = ExportFolder(out.resolve())
    with blame(folder.path, "write an export"), folder.held():
        if overwrite and folder.digest() != digest:
            folder.clear()
        _check_same(folder, digest)
        manifest = folder.read_manifest()
        if manifest is None:
            job = _Job(folder, sources, found, form, request, digest)
            manifest = _conclude(job, _write_parts(job, say))
        shutil.rmtree(folder.work)
    return manifest


def _digest(found: Survey, runs: list[RunInput], request: Request) -> str:
    """A hash of all that the bytes of the export depend on."""
    digest = hashlib.sha256(found.rows.tobytes())
    names = found.names
    for part in (
        [EXPORT_SCHEMA, runner.__version__, request],
        [[given.name, given.model, given.verdict_set, given.identity] for given in runs],
        [given.profile for given in runs],
        [table.values() for table in (names.categories, names.flags, names.left_out)],
    ):
        digest.update(msgspec.json.encode(part))
    return digest.hexdigest()


def _check_same(folder: ExportFolder, digest: str) -> None:
    """Refuse to mix two exports in one folder."""
    before = folder.digest()
    if before not in ("", digest):
        raise ConfigError(
            "The folder holds another export: of other samples, or by another policy.",
            where=f"--out {folder.path}",
            next_step="take another folder, or --overwrite to replace it",
        )
    if not before:
        folder.write_state(State(digest=digest))


def _write_parts(job: _Job, say: Say) -> list[PartState]:
    policy, form = job.request.policy, job.form
    if not form.ordered:
        policy = msgspec.structs.replace(policy, shuffle=False)
    parts = lay_out(job.found.rows, policy, bytes_per_token=form.bytes_per_token)
    dealer = Dealer(job.sources, job.found.rows, job.folder.dealt)
    reader = Reader(job.sources, job.found, dealer)
    return write_parts(job.folder, parts, reader, form, digest=job.digest, dealer=dealer, say=say)


def _conclude(job: _Job, states: list[PartState]) -> Manifest:
    """Write what is made from all parts, and last the manifest."""
    left_out = _write_left_out(job, states)
    written = [state for state in states if state.bytes]
    finished = _finish(job, written)
    made = [str(path.relative_to(job.folder.path)) for path in finished.files]
    manifest = Manifest(
        format=job.form.name,
        runner_version=runner.__version__,
        digest=job.digest,
        policy=job.request.policy,
        options=job.request.options,
        runs=[_run_entry(source, job.found) for source in job.sources],
        counts=_counts(job.found, written, left_out),
        splits=_splits(written, job.request.policy),
        categories=by_category(written),
        left_out=left_out,
        notes=summed_notes(written),
        summary=finished.summary,
        words=finished.words,
        parts=[file_entry(state) for state in written],
        files=[*(state.file for state in written), *made, job.folder.left_out.name],
    )
    job.folder.write_manifest(manifest)
    return manifest


def _splits(written: list[PartState], policy: Policy) -> dict[str, CategoryTotals]:
    return {
        split: total(t for s in written if s.split == split for t in s.categories.values())
        for split in policy.split
    }


def _write_left_out(job: _Job, states: list[PartState]) -> dict[str, dict[str, int]]:
    unfinished = job.folder.work / "left_out"
    refused = (read_left_out(refusals(job.folder, state.file)) for state in states)
    lines = chain(left_out_by_policy(job.sources, job.found), *refused)
    counts = write_left_out(unfinished, lines)
    unfinished.replace(job.folder.left_out)
    return counts


def _finish(job: _Job, written: list[PartState]) -> Finished:
    parts: dict[str, list[PartFile]] = {}
    for state in written:
        path = job.folder.path / state.file
        parts.setdefault(state.split, []).append(PartFile(path, state.sha256))
    return job.form.finish(job.folder.path, parts, summed_notes(written))


def _run_entry(source: Source, found: Survey) -> RunEntry:
    given = source.given
    return RunEntry(
        run_id=given.name,
        model=given.model,
        verdict_set=given.verdict_set,
        samples=int((found.rows["run"] == source.ordinal).sum()),
        tokenizer_sha256=given.profile.tokenizer_sha256,
        template_sha256=given.profile.template_sha256,
        identity=given.identity,
    )


def _counts(found: Survey, written: list[PartState], left_out: dict[str, dict[str, int]]) -> Counts:
    counts = Counts(
        samples=len(found.rows),
        exported=sum(file_entry(state).samples for state in written),
        left_out=sum(sum(reasons.values()) for reasons in left_out.values()),
    )
    if not counts.balanced:
        raise MachineError(
            "The accounting of the export does not come out even; nothing was published.",
            found=f"{counts.samples:,} samples, {counts.exported:,} exported, "
            f"{counts.left_out:,} left out",
            next_step="this is a fault of the program; please report it",
        )
    return counts
