"""From a run directory to a report's data. The run may be live, finished, or killed half-way."""

import time
from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from runner.conclusion import read_findings
from runner.errors import MachineError
from runner.ledger import read_judgements, sample_keying
from runner.records import Judgement, Kind, Sample, TokenProfile
from runner.report.attempts import flat_yaml, last_server_log, read_attempts, settings_of, tail
from runner.report.choosing import choose_samples
from runner.report.data import SEVERITIES, Finding, ReportData, Shown, Text
from runner.report.series import read_timeline
from runner.report.vocabulary import Vocabulary, read_vocabulary
from runner.rundir import RunDir
from runner.shards import ShardReader
from runner.view.facts import read_facts, verdict_set_of
from runner.view.picks import Pick
from runner.view.reading import judgement_of, load_decoder, read_profile
from runner.view.sample_view import Decoder, Piece, SampleView, Stretch, clip, view_of

STRETCH_CHARS = 6_000
"""Characters shown of one stretch of a sample, head and tail."""
OUTPUT_CHARS = 24_000
"""Characters shown of a whole output."""
STRETCHES_MAX = 60
"""Stretches shown of an output: a broken one may consist of thousands."""
LOG_TAIL_BYTES = 12_000


def collect(
    run: RunDir, *, verdict_set: str | None = None, decoder: Decoder | None = None
) -> ReportData:
    """Read everything. `decoder` None: the run's own tokenizer is loaded. Raises MachineError,
    DamagedShard."""
    name = verdict_set_of(run, verdict_set)
    chosen = choose_samples(read_judgements(run, name))
    timeline = read_timeline(run.metrics)
    settings = dict(flat_yaml(run.config_yaml))
    log = last_server_log(run)
    try:
        samples, note = list(show(run, name, chosen.picks, decoder)), ""
    except MachineError as error:  # no tokenizer yet, or none that can be loaded here
        samples, note = [], str(error)
    return ReportData(
        facts=read_facts(run, verdict_set=name, stats=chosen.stats),
        stats=chosen.stats,
        findings=read_findings(run, name),
        examples=chosen.examples,
        samples=samples,
        vocabulary=_vocabulary(run, name),
        note=note,
        timeline=timeline,
        attempts=read_attempts(run, timeline),
        settings=settings,
        provenance={k: v for k, v in settings_of(run.path).items() if k not in settings},
        log_tail=tail(log, size=LOG_TAIL_BYTES) if log else "",
        most_output_tokens=_whole_number(settings.get("sampling.max_new_tokens", "")),
        made_at=time.time(),
    )


def _whole_number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _vocabulary(run: RunDir, verdict_set: str) -> Vocabulary | None:
    try:
        ids = read_profile(run).vocab_padded
    except MachineError:
        return None
    found = read_vocabulary(run, verdict_set, ids=ids)
    return found if found.tokens else None


def show(
    run: RunDir, verdict_set: str, picks: list[Pick], decoder: Decoder | None = None
) -> Iterable[Shown]:
    """Decode the picked samples that are in the shards. Raises MachineError."""
    if not picks:
        return
    profile = read_profile(run)
    decoder = load_decoder(run) if decoder is None else decoder
    samples = ShardReader(run.samples, keying=sample_keying)
    verdicts = ShardReader(run.verdicts(verdict_set), keying=sample_keying)
    for pick in picks:
        line = samples.get(pick.sample_id)
        if line is not None:
            sample = msgspec.json.decode(line, type=Sample)
            judgement = judgement_of(sample, verdicts.get(pick.sample_id))
            yield shown(sample, pick, judgement, profile, decoder)


def shown(
    sample: Sample,
    pick: Pick,
    judgement: Judgement | None,
    profile: TokenProfile,
    decoder: Decoder,
) -> Shown:
    """One sample as the page has it."""
    view = view_of(sample, profile, decoder)
    return Shown(
        sample_id=sample.sample_id,
        category=sample.category,
        why=pick.why,
        ending=view.ending,
        tokens=_tokens(view),
        findings=_findings(judgement),
        prompt=[_prompt_text(view)] if view.prompt else [],
        output=output_texts(view.output),
    )


def _tokens(view: SampleView) -> dict[str, int]:
    lengths = view.lengths
    named = {
        "prompt": len(view.sample.input_ids),
        "reasoning": lengths.reasoning,
        "answer": lengths.answer,
        "tool call": lengths.tool_call,
        "special": lengths.special,
    }
    return {name: count for name, count in named.items() if count}


def _findings(judgement: Judgement | None) -> list[Finding]:
    if judgement is None:
        return []
    found = [
        Finding(one.severity or "error", name, one.reason or "broke", one.detail)
        for name, one in judgement.verdicts.items()
        if one.outcome in ("fail", "error")
    ]
    return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.validator))


def _prompt_text(view: SampleView) -> Text:
    pieces = [Piece(one.text, special=one.kind is Kind.SPECIAL) for one in view.prompt]
    return Text(Kind.PROMPT, len(view.sample.input_ids), clip(pieces, STRETCH_CHARS))


def output_texts(stretches: Sequence[Stretch]) -> list[Text]:
    """The output with neighbouring special tokens as one, its size bounded."""
    runs: list[list[Stretch]] = []
    for special, group in groupby(stretches, key=lambda one: one.kind is Kind.SPECIAL):
        found = list(group)
        runs += [found] if special else [[one] for one in found]
    half = STRETCHES_MAX // 2
    left_out = len(runs) - 2 * half
    shown = [*runs[:half], *runs[-half:]] if left_out > 0 else runs
    chars = min(STRETCH_CHARS, OUTPUT_CHARS // max(1, len(shown)))
    texts = [_text(run, chars) for run in shown]
    if left_out > 0:
        gap = Piece(f" … {left_out:,} stretches left out … ", gap=True)
        texts.insert(half, Text(Kind.SPECIAL, 0, [gap]))
    return texts


def _text(run: Sequence[Stretch], chars: int) -> Text:
    pieces = [Piece(one.text, special=one.kind is Kind.SPECIAL) for one in run]
    return Text(run[0].kind, run[-1].end - run[0].start, clip(pieces, chars))
