"""What is found when all samples are there: the set-level checks, then the gates."""

from collections.abc import Callable, Mapping

import msgspec

from runner.gates import Gate, measure
from runner.ledger import read_judgements
from runner.records import SetFinding
from runner.rundir import RunDir, replace_file
from runner.stats import Stats
from runner.validate import Judge

SET_FILE = "set.json"
"""In the folder of a verdict set: what its set-level validators found."""


def conclude(run: RunDir, verdict_set: str, judge: Judge) -> list[SetFinding]:
    """Run the set-level validators over all judgements of a set and keep what they find."""
    found = judge.conclude(lambda: read_judgements(run, verdict_set))
    content = msgspec.json.format(msgspec.json.encode(found), indent=2)
    replace_file(run.verdicts(verdict_set) / SET_FILE, content)
    return found


def read_findings(run: RunDir, verdict_set: str) -> list[SetFinding]:
    """What was found when the set was concluded; [] for one that never was."""
    path = run.verdicts(verdict_set) / SET_FILE
    return msgspec.json.decode(path.read_bytes(), type=list[SetFinding]) if path.is_file() else []


def is_concluded(run: RunDir, verdict_set: str) -> bool:
    """Whether the set-level checks of a set were ever done; they come when it has all samples."""
    return (run.verdicts(verdict_set) / SET_FILE).is_file()


def check(
    limits: Mapping[str, str],
    stats: Stats,
    findings: list[SetFinding],
    *,
    say: Callable[[str], None],
) -> list[Gate]:
    """Measure every gate and tell of those that are not passed."""
    for finding in findings:
        share = f" ({finding.share:.1%})" if finding.samples else ""
        detail = f": {finding.detail}" if finding.detail else ""
        say(f"{finding.category} {finding.reason} {finding.samples:,} samples{share}{detail}")
    gates = measure(limits, stats, findings)
    for gate in gates:
        if not gate.passed:
            word = "gate failed" if gate.failed else "gate not met (only warns)"
            value = "not measured" if gate.measured is None else f"{gate.measured:.4g}"
            say(f"{word}: {gate.name} is {value}, limit {gate.limit}")
    return gates
