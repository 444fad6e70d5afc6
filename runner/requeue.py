"""Asking for samples again: which ones, whether that is allowed, and taking them out of the run.

Nothing in the shards is touched. A requeued sample is named in samples/superseded.jsonl; it then
counts no more, is owed again, and comes back under the same id with `try` + 1.

A greedy run gives the same answer again, so its samples are requeued only where the engine was at
fault: a check of severity reject failed (evidence that engine or pipeline altered the sample), or
the person who asks states it (`engine_fault`).
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from runner.errors import ConfigError
from runner.keying import MAX_TRY
from runner.ledger import account, fold, open_samples, read_judgements
from runner.records import Record, RunStatus, Sample
from runner.rundir import RunDir, RunState, Tokens
from runner.superseded import Superseded, supersede
from runner.view.findings import whole_set_error

FIELDS = tuple(
    field.encode_name
    for field in msgspec.structs.fields(Sample)
    if field.name not in ("input_ids", "output_ids")
)
"""What `where` may compare: every key of a sample but its ids."""


class Chosen(Record, frozen=True, kw_only=True):
    """A current sample that is to be asked for again. `engine_fault`: a check says so."""

    sample_id: str
    try_: int
    prompt_hash: str
    engine_fault: bool


def choose(
    run: RunDir, verdict_set: str, *, reason: str | None, where: Mapping[str, str]
) -> list[Chosen]:
    """The current samples with this failed check and these values, in the order of writing.

    Raises:
        ConfigError: there is no such key, or no sample with this reason; another one where the
            reason is found over the whole set.
    """
    unknown = [key for key in where if key not in FIELDS]
    if unknown:
        raise ConfigError(
            "A sample has no such key.",
            where="--where",
            found=", ".join(unknown),
            allowed=", ".join(FIELDS),
        )
    at_fault: dict[str, bool] = {}
    seen: Counter[str] = Counter()
    for judgement in read_judgements(run, verdict_set):
        failed = [v for v in judgement.verdicts.values() if v.reason]
        seen.update(v.reason for v in failed)
        if reason is None or any(v.reason == reason for v in failed):
            at_fault[judgement.sample_id] = any(v.severity == "reject" for v in failed)
    if reason is not None and not seen[reason]:
        raise whole_set_error(run, verdict_set, reason) or ConfigError(
            "No sample has this reason.",
            where="--reason",
            found=reason,
            allowed=", ".join(f"{name} ({n:,})" for name, n in seen.most_common()) or "none",
        )
    return list(_matching(run, at_fault, where, must_be_judged=reason is not None))


def _matching(
    run: RunDir, at_fault: Mapping[str, bool], where: Mapping[str, str], *, must_be_judged: bool
) -> Iterator[Chosen]:
    reader, current = open_samples(run)
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for line, is_current in zip(reader.lines(), current.tolist(), strict=False):
        if not is_current:
            continue
        raw = decoder.decode(line)
        sample_id = msgspec.json.decode(raw["sample_id"], type=str)
        if must_be_judged and sample_id not in at_fault:
            continue
        if all(_text(raw[key]) == wanted for key, wanted in where.items()):
            yield Chosen(
                sample_id=sample_id,
                try_=msgspec.json.decode(raw["try"], type=int),
                prompt_hash=msgspec.json.decode(raw["prompt_hash"], type=str),
                engine_fault=at_fault.get(sample_id, False),
            )


def _text(raw: msgspec.Raw) -> str:
    """A value as a person types it: a string without its quotes."""
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else bytes(raw).decode()


def check_allowed(state: RunState, chosen: list[Chosen], *, engine_fault: bool) -> None:
    """Raises ConfigError where asking again would give the same answer, or was done too often."""
    innocent = [one for one in chosen if not one.engine_fault]
    if state.identity.get("sampling.temperature") == 0 and innocent and not engine_fault:
        raise ConfigError(
            "This run is greedy: the same question gets the same answer.",
            where=f"{innocent[0].sample_id} and {len(innocent) - 1:,} more"
            if len(innocent) > 1
            else innocent[0].sample_id,
            found="no check of severity reject failed on them",
            allowed="greedy samples that the engine is at fault for",
            next_step="--engine-fault states that it was (a broken launch, say); it is recorded",
        )
    worn = [one.sample_id for one in chosen if one.try_ >= MAX_TRY]
    if worn:
        raise ConfigError(
            f"A sample can be asked for {MAX_TRY + 1} times.", where=", ".join(worn[:3])
        )


def requeue(
    run: RunDir, state: RunState, chosen: list[Chosen], *, why: str, max_attempts: int
) -> RunState:
    """Take the chosen samples out of a run, under its lock. Gives run.json as it is then."""
    now = time.time()
    supersede(
        run,
        [
            Superseded(
                sample_id=one.sample_id,
                try_=one.try_,
                prompt_hash=one.prompt_hash,
                reason=why,
                at=now,
            )
            for one in chosen
        ],
    )
    accounts = account(run, state.validator_set, max_attempts=max_attempts)
    whole = fold(run, state.validator_set).all()
    state = msgspec.structs.replace(
        state,
        status=RunStatus.INTERRUPTED,
        reason=f"{len(chosen):,} samples were requeued ({why}); the same command asks again",
        counts=accounts.counts,
        unplanned=accounts.unplanned,
        tokens=Tokens(prompt=whole.prompt_tokens, output=whole.output_tokens),
    )
    run.write(state)
    return state
