"""What a sample is shown with: its text, its verdicts, and how all samples pass by once."""

from collections.abc import Iterator

import msgspec
import numpy as np

from runner.errors import MachineError
from runner.ledger import read_judgements, verdicts_missing
from runner.records import Judgement, Sample, TokenProfile
from runner.rundir import RunDir
from runner.view.picks import Candidate, candidate_of
from runner.view.sample_view import Decoder
from runner.view.status import read_settings


def judgement_of(sample: Sample, line: bytes | None) -> Judgement | None:
    """The verdicts on this very sample; those of an earlier try are not shown for it."""
    judgement = msgspec.json.decode(line, type=Judgement) if line else None
    return judgement if judgement is not None and judgement.try_ == sample.try_ else None


class _Head(msgspec.Struct):
    """The keys of a sample that choosing needs; its ids are passed over, which is quick."""

    sample_id: str
    category: str
    finish: str
    completion_tokens: int


def read_candidates(run: RunDir, verdict_set: str) -> Iterator[Candidate]:
    """All samples: from the verdicts alone, then those without one from the shards."""
    samples, unjudged = verdicts_missing(run, verdict_set)
    yield from map(candidate_of, read_judgements(run, verdict_set))
    decoder = msgspec.json.Decoder(_Head)
    for position in np.flatnonzero(unjudged):
        head = decoder.decode(samples.at(int(position)))
        yield Candidate(head.sample_id, head.category, head.finish, head.completion_tokens)


def read_profile(run: RunDir) -> TokenProfile:
    """tokenizer/profile.json. Raises MachineError."""
    try:
        return msgspec.json.decode(run.profile_json.read_bytes(), type=TokenProfile)
    except (OSError, msgspec.DecodeError) as error:
        raise MachineError(
            "The token profile of this run cannot be read.",
            where=str(run.profile_json),
            found=str(error),
            next_step="bring the run's tokenizer/ folder back; without it ids have no text",
        ) from error


def load_decoder(run: RunDir) -> Decoder:
    """The run's own tokenizer. Late: transformers takes seconds. Raises MachineError."""
    from runner.render import load_tokenizer

    trusted = read_settings(run).model.trust_remote_code
    return load_tokenizer(run.tokenizer, trust_remote_code=trusted)
