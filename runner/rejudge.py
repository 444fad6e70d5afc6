"""Judging the samples of a run again, from its directory alone, in parallel processes.

    index of samples -> chunks of current samples -> [processes: read, judge] -> verdicts/<set>/

Each process opens the run by itself, so only positions and finished lines travel. Samples are
never changed, a verdict set is replaced as a whole, and the set that the run's own counts follow
is left to the runner.
"""

import multiprocessing
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from runner.conclusion import conclude
from runner.config import SourceKind
from runner.errors import MachineError
from runner.ledger import open_samples, sample_keying
from runner.plugins import load_validators
from runner.promptfinder import PromptFinder
from runner.records import Expected, Judgement, Record, Sample, SetFinding, TokenProfile
from runner.render import load_tokenizer
from runner.rundir import RunDir, replace_file
from runner.shards import ShardReader, ShardWriter
from runner.stats import Stats
from runner.validate import Judge
from runner.world import Change, weight_versions
from runner.yamltext import YAMLError, load_yaml

CHUNK = 512
"""Samples that travel together: at 2,600 tokens each, half a second of work."""
AHEAD = 2
"""Chunks in hand for each process."""


class JudgeSettings(Record, frozen=True, kw_only=True):
    """What a process needs to know beside the run directory."""

    run: str
    validators: dict[str, Any]
    mode: str
    trust_remote_code: bool = False
    expected: dict[str, Expected] = {}
    weight_versions: list[str] = []


class Rejudged(Record, frozen=True, kw_only=True):
    """A set that was made. `tokens` counts output tokens."""

    samples: int
    tokens: int
    rejected: int
    findings: list[SetFinding]


def read_settings(run: RunDir, validators: Mapping[str, Any] | None = None) -> JudgeSettings:
    """From the run's own config.yaml; `validators` None takes those that the run was made with.

    Raises:
        MachineError: the file is not there or is not the config of a run.
    """
    try:
        plain = load_yaml(run.config_yaml.read_bytes())
        parts = plain["category"]["parts"]
        return JudgeSettings(
            run=str(run.path),
            validators=dict(plain["validators"] if validators is None else validators),
            mode=plain["mode"]["name"],
            trust_remote_code=bool(plain["model"].get("trust_remote_code", False)),
            expected={name: _expected(part, plain) for name, part in parts.items()},
            weight_versions=sorted(_weight_versions(run)),
        )
    except (OSError, YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise MachineError(
            "The config of this run cannot be read.",
            where=str(run.config_yaml),
            found=f"{type(error).__name__}: {error}",
            next_step="bring the file back; the runner wrote it when the run began",
        ) from error


def _expected(part: Any, config: Mapping[str, Any]) -> Expected:
    """As `runner.model.expected_of` says it of the typed config."""
    found = msgspec.convert((part or {}).get("expected") or {}, Expected)
    bundled = (config.get("source") or {}).get("kind") == SourceKind.bundled.value
    return msgspec.structs.replace(found, output_tokens=None) if bundled else found


def _weight_versions(run: RunDir) -> frozenset[str]:
    decoder = msgspec.json.Decoder(Change)
    accepted = [
        change
        for path in run.attempts.glob("*/accepted.jsonl")
        for change in decoder.decode_lines(path.read_bytes())
    ]
    world = run.read().world if run.run_json.is_file() else {}
    return weight_versions(world, accepted)


def open_judge(settings: JudgeSettings) -> Judge:
    """The judge of these settings, with the tokenizer and profile that the run keeps.

    Raises:
        ConfigError: a validator that cannot be made.
        MachineError: tokenizer or profile are missing.
    """
    run = RunDir(Path(settings.run))
    validators = load_validators(settings.validators)
    try:
        profile = msgspec.json.decode(run.profile_json.read_bytes(), type=TokenProfile)
        mode = profile.modes[settings.mode]
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise MachineError(
            "The token profile of this run cannot be read.",
            where=str(run.profile_json),
            found=f"{type(error).__name__}: {error}",
            next_step="start the run's own command once more: it writes the profile",
        ) from error
    tokenizer = load_tokenizer(run.tokenizer, trust_remote_code=settings.trust_remote_code)
    return Judge(
        validators,
        profile,
        mode,
        tokenizer=tokenizer,
        expected=settings.expected,
        weight_versions=frozenset(settings.weight_versions),
    )


def rejudge(
    settings: JudgeSettings,
    verdict_set: str,
    *,
    processes: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Rejudged:
    """Make a verdict set of all current samples. A set of that name is replaced.

    Raises:
        ConfigError: a validator that cannot be made.
        MachineError: tokenizer, profile or samples cannot be read, or a process was killed.
    """
    run = RunDir(Path(settings.run))
    judge = open_judge(settings)
    positions = current_positions(run)
    folder = run.verdicts(verdict_set)
    building = folder.with_name(f".{verdict_set}.new")
    shutil.rmtree(building, ignore_errors=True)
    stats = Stats()
    with ShardWriter(building, keying=sample_keying, fsync=False) as writer:
        done = 0
        for lines in _judged(settings, judge, positions, processes):
            for line in lines:
                writer.put(line)
                stats.add(msgspec.json.decode(line, type=Judgement))
            done += len(lines)
            progress(done, len(positions))
        writer.flush()
    replace_file(building / "validators.json", judge.describe())
    shutil.rmtree(folder, ignore_errors=True)
    building.rename(folder)
    whole = stats.all()
    return Rejudged(
        samples=whole.samples,
        tokens=whole.output_tokens,
        rejected=whole.rejected,
        findings=conclude(run, verdict_set, judge),
    )


def current_positions(run: RunDir) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Positions, in the index of samples, of the current line of each sample: 8 bytes each."""
    return np.flatnonzero(open_samples(run)[1])


def _judged(
    settings: JudgeSettings,
    judge: Judge,
    positions: "np.ndarray[Any, np.dtype[np.int64]]",
    processes: int,
) -> Iterator[list[bytes]]:
    """Verdict lines, chunk by chunk, in the order of the samples."""
    chunks = [positions[i : i + CHUNK].tolist() for i in range(0, len(positions), CHUNK)]
    if processes == 1 or len(chunks) < 2:
        worker = _Worker(RunDir(Path(settings.run)), judge)
        yield from (worker.judge(chunk) for chunk in chunks)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(processes, len(chunks)), mp_context=context, initializer=_open, initargs=(settings,)
    )
    waiting: deque[Future[list[bytes]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(pool.submit(_work, chunk))
            if len(waiting) >= processes * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise MachineError(
            "A judging process ended: killed, or out of memory.",
            where=settings.run,
            next_step="the same command with --processes 1",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


class _Worker:
    """What one process holds: the run, opened, and the judge."""

    def __init__(self, run: RunDir, judge: Judge) -> None:
        self._judge = judge
        self._samples = ShardReader(run.samples, keying=sample_keying)
        self._prompts = PromptFinder(run)
        self._decoder = msgspec.json.Decoder(Sample)
        self._encoder = msgspec.json.Encoder()

    def judge(self, positions: list[int]) -> list[bytes]:
        samples = [self._decoder.decode(self._samples.at(position)) for position in positions]
        prompts = self._prompts.find_all(samples)
        return [
            self._encoder.encode(self._judge.judge(sample, prompts.get(sample.sample_id)))
            for sample in samples
        ]


_worker: _Worker | None = None
"""Set once in each judging process, by its initializer; never in the parent."""


def _open(settings: JudgeSettings) -> None:
    global _worker  # the only way to hand a process its state
    _worker = _Worker(RunDir(Path(settings.run)), open_judge(settings))


def _work(positions: list[int]) -> list[bytes]:
    assert _worker is not None  # noqa: S101 - the initializer ran
    return _worker.judge(positions)
