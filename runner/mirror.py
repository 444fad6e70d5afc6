"""What tracking is told of a run at its start and at its end; the curves between are `monitor`'s.

Params are the identity (MLflow can never change one). Everything that another attempt may change
is a tag; each attempt's whole settings are artifacts. What is big or has many keys is a file or a
table: the report, the plots, the matrix of validator, reason and category.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from runner.config import flatten
from runner.errors import RunnerError
from runner.identity import KeyClass, class_of, digest_of
from runner.monitor import figures_of_now
from runner.performance import figures, read_performance
from runner.report import REPORT_NAME, make_report
from runner.report.attempts import last_server_log, read_json, tail
from runner.report.data import ReportData, Shown
from runner.report.figures import FIGURES
from runner.resolve import Resolved
from runner.rundir import RunDir, RunState, replace_file
from runner.stats import Stats
from runner.tracking import Tracker
from runner.view.sample_view import Decoder

SETTING_TAGS = (
    "category.count",
    "category.n",
    "category.total",
    "budget.output_tokens",
    "source.path",
    "server.name",
    "server.flags.*",
    "client.concurrency",
    "client.retry.max_attempts",
    "canary.count",
    "gates.*",
)
"""Settings of the last attempt by which people look for runs; all of them are in its artifact."""
CATEGORY_FIGURES_MAX = 8
"""Categories with final figures of their own: about 60 metric keys are what MLflow's pages bear.
All categories are in the table."""
TEXT_CHARS = 4_000
LOG_TAIL_BYTES = 200_000


def log_start(tracker: Tracker, resolved: Resolved, state: RunState, folder: Path) -> None:
    """Identity as params, this attempt as tags, its settings (in `folder`) as artifacts."""
    flat = dict(flatten(resolved.config))
    identity = {key: value for key, value in flat.items() if class_of(key) is KeyClass.IDENTITY}
    names = {f"name.{key}": value for key, value in resolved.names.items()}
    tracker.params({key: _plain(value) for key, value in (identity | names).items()})
    provenance = read_json(folder / "provenance.json")
    tracker.tags(
        {
            **resolved.names,
            "run_id": state.run_id,
            "digest": digest_of(state.identity),
            "attempt": str(state.attempts),
            "host": state.host,
            "overrides": " ".join(resolved.overrides),
            "tags": ",".join(resolved.config.tags),
            "run_dir": str(resolved.run.path),
            **dict(_origin_tags(provenance)),
            **{key: str(_plain(value)) for key, value in flat.items() if _is_setting(key, value)},
        }
    )
    for name in ("config.yaml", "overrides.txt", "provenance.json"):
        tracker.artifact(folder / name, f"attempts/{folder.name}")


def _is_setting(key: str, value: Any) -> bool:
    return value is not None and any(fnmatchcase(key, pattern) for pattern in SETTING_TAGS)


def _origin_tags(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Code, versions and machine, as far as they are known."""
    git = _mapping(provenance.get("git"))
    if git:
        yield "git", f"{git.get('commit', '')}{'-dirty' if git.get('dirty') else ''}"
    for name, version in _mapping(provenance.get("packages")).items():
        yield f"version.{name}", str(version)
    server = _mapping(provenance.get("server"))
    if server:
        yield "version.server", str(server.get("version", ""))
        gpus = server.get("gpus")
        names = sorted({str(gpu.get("name", "")) for gpu in gpus}) if gpus else []
        yield "gpu", f"{len(gpus)} x {', '.join(names)}" if gpus else "none"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: Any) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def log_end(
    tracker: Tracker,
    run: RunDir,
    state: RunState,
    stats: Stats | None,
    *,
    decoder: Decoder | None,
    say: Callable[[str], None],
) -> None:
    """The report, and everything final. run.json must tell how the run ended. Never raises for a
    report that cannot be made: it is said, and `runs report` makes it later."""
    if stats is not None:
        whole = stats.all()
        tracker.metrics(figures_of_now(state.counts, whole), step=whole.output_tokens)
        tracker.metrics(dict(final_figures(stats)), step=whole.output_tokens)
        if state.tokens_per_s is not None:  # of the whole bulk, as every command tells it
            tracker.metrics({"tokens_per_s": state.tokens_per_s}, step=whole.output_tokens)
        if (performance := read_performance(state.performance)) is not None:
            tracker.metrics(figures(performance), step=whole.output_tokens)
    tracker.tags(dict(_origin_tags(read_json(run.provenance_json))))
    manifest = run.samples / "manifest.json"
    if manifest.is_file():
        digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
        tracker.dataset(name=state.run_id, source=str(run.samples), digest=digest)
    _log_report(tracker, run, decoder, say)
    _log_server_tail(tracker, run, run.attempt(state.attempts))
    for path in (run.config_yaml, run.provenance_json, manifest, run.run_json):
        if path.is_file():
            tracker.artifact(path)


def _log_report(
    tracker: Tracker, run: RunDir, decoder: Decoder | None, say: Callable[[str], None]
) -> None:
    if not (run.path / "verdicts").is_dir():
        return  # a plan alone is nothing to report on
    try:
        data = make_report(run, decoder=decoder)
        tables = {"samples.json": sample_table(data.samples), "verdicts.json": verdict_table(data)}
        figures = [path for name in FIGURES if (path := run.path / "report" / name).is_file()]
    except (RunnerError, OSError) as error:
        say(f"the report was not made ({error}); later: python -m runner.runs report {run.path}")
        return
    for path in (run.path / REPORT_NAME, *figures):
        tracker.artifact(path, "report")
    for name, columns in tables.items():
        tracker.table(name, columns)
    say(f"report: {run.path / REPORT_NAME}")


def _log_server_tail(tracker: Tracker, run: RunDir, folder: Path) -> None:
    log = last_server_log(run)
    text = tail(log, size=LOG_TAIL_BYTES) if log else ""
    if text:
        replace_file(folder / "server_tail.log", text.encode())
        tracker.artifact(folder / "server_tail.log", f"attempts/{folder.name}")


def final_figures(stats: Stats) -> Iterator[tuple[str, float]]:
    """Final metrics of the first categories and of all, four each."""
    named = sorted(stats.categories.items())[:CATEGORY_FIGURES_MAX]
    for name, one in [*named, ("all", stats.all())]:
        samples = max(1, one.samples)
        yield f"final/{name}/samples", one.samples
        yield f"final/{name}/truncated_share", one.finish["length"] / samples
        yield f"final/{name}/rejected_share", one.rejected / samples
        yield f"final/{name}/mean_output_tokens", one.output_tokens / samples


def verdict_table(data: ReportData) -> dict[str, list[Any]]:
    """validator x reason x category: one row for each that occurred, with its share."""
    rows = [
        (category, validator, reason, severity, times, one.samples, times / one.samples)
        for category, one in sorted(data.stats.categories.items())
        for (validator, reason, severity), times in sorted(one.reasons.items())
    ]
    names = ("category", "validator", "reason", "severity", "count", "samples", "share")
    return _columns(names, rows)


def sample_table(samples: list[Shown]) -> dict[str, list[Any]]:
    """The report's samples as a table."""
    rows = [
        (
            one.sample_id,
            one.category,
            one.ending.text,
            "; ".join(one.why),
            one.tokens.get("reasoning", 0),
            one.tokens.get("answer", 0) + one.tokens.get("tool call", 0),
            ", ".join(f"{f.severity} {f.validator}/{f.reason}" for f in one.findings),
            _output(one),
        )
        for one in samples
    ]
    names = ("sample_id", "category", "ending", "chosen", "reasoning", "answer", "verdicts", "text")
    return _columns(names, rows)


def _output(one: Shown) -> str:
    text = "".join(piece.text for part in one.output for piece in part.pieces)
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]} …"


def _columns(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
