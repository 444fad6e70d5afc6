"""`report/index.html`: one self-contained page that tells a run, made from its directory alone.

    run directory ── collect ──> ReportData ── render ──> HTML, its style, script and plots inside

It can be made of a live, finished or killed run, any number of times.
"""

from runner.report.collect import collect
from runner.report.data import ReportData
from runner.report.figures import FIGURES
from runner.report.page import render
from runner.rundir import RunDir, replace_file
from runner.view.sample_view import Decoder

__all__ = ["REPORT_NAME", "make_report"]

REPORT_NAME = "report/index.html"


def make_report(
    run: RunDir, *, verdict_set: str | None = None, decoder: Decoder | None = None
) -> ReportData:
    """Make the report of a run as it stands, with its figures beside it. `decoder` is its tokenizer
    where that is loaded already.

    Raises:
        MachineError, DamagedShard: the run's files cannot be read.
        OSError: it cannot be written.
    """
    data = collect(run, verdict_set=verdict_set, decoder=decoder)
    page = run.path / REPORT_NAME
    replace_file(page, render(data).encode())
    for name, draw in FIGURES.items():
        figure = draw(data)
        if figure:
            replace_file(page.with_name(name), figure.encode())
    return data
