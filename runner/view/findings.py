"""Asked for single samples by a reason that is found over the whole set: what to answer."""

from runner.conclusion import read_findings
from runner.errors import ConfigError
from runner.rundir import RunDir, reference_of

EXAMPLES = 3
"""Sample ids that the error names."""


def whole_set_error(
    run: RunDir, verdict_set: str, reason: str, *, option: str = "--reason"
) -> ConfigError | None:
    """Why no sample has this REASON or VALIDATOR.REASON, where it was found over the whole set;
    else None."""
    found = [
        one
        for one in read_findings(run, verdict_set)
        if reason in (one.reason, f"{one.validator}.{one.reason}")
    ]
    if not found:
        return None
    base, name = "python -m runner.runs", reference_of(run)
    ids = " ".join(f"--id {one}" for one in _ids([one.examples for one in found]))
    some = f"; some of its samples: {base} decode {name} {ids}" if ids else ""
    categories = ", ".join(f"{one.category} ({one.samples:,} samples)" for one in found)
    return ConfigError(
        "This reason is found over the whole set: no single sample carries it.",
        where=option,
        found=f"{reason} in {categories}",
        next_step=f"{base} show {name} lists it{some}",
    )


def _ids(examples: list[list[str]]) -> list[str]:
    """The first ones of the first category that has some."""
    return next((ids[:EXAMPLES] for ids in examples if ids), [])
