"""Finished samples, joined with their verdicts by a policy, as what trainers read.

    runs -> survey (verdicts, plan, index: one row of numbers a sample) -> lay out (files, order)
         -> deal out (shuffled: lines to heaps on disk, one for each file)
         -> parts, each written whole -> left_out.jsonl, manifest.json

Nothing but run directories is read. The same runs and the same policy give the same bytes; a killed
export goes on behind its last whole file; every current sample is exported or named in
left_out.jsonl. What the formats hold: docs/export.md.
"""

from runner.export.exporting import Request, export
from runner.export.formats import Options
from runner.export.manifest import Manifest
from runner.export.policy import Policy
from runner.export.sources import RunInput
from runner.export.table import FORMATS

__all__ = ["FORMATS", "Manifest", "Options", "Policy", "Request", "RunInput", "export"]
