"""What tracking is told at the end of a run."""

import json
from pathlib import Path

import pytest

from runner.mirror import final_figures, log_end, verdict_table
from runner.report.choosing import choose_samples
from runner.report.collect import collect
from runner.rundir import RunDir
from runner.tracking import open_tracker
from tests.report.conftest import usual
from tests.runs.conftest import MIXED, MakeRun, Spec, failing, make_run

__all__ = ["make_run", "usual"]


def told(run: RunDir) -> list[dict[str, object]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def end(run: RunDir, said: list[str]) -> None:
    stats = choose_samples(spec.judgement() for spec in MIXED if spec.state == "done").stats
    with open_tracker(
        kind="none", run_dir=run.path, uri="", experiment="e", run_name="r", say=said.append
    ) as tracker:
        log_end(tracker, run, run.read(), stats, decoder=None, say=said.append)
        tracker.finish(run.read().status)


def test_report_figures_tables_and_data_set_are_told(usual: RunDir) -> None:
    said: list[str] = []
    end(usual, said)
    events = told(usual)
    paths = {e["path"] for e in events if e["event"] == "artifact"}
    assert {"report/index.html", "report/lengths.svg", "report/time.svg", "run.json"} <= paths
    assert "attempts/0002/server_tail.log" in paths
    assert {e["name"] for e in events if e["event"] == "table"} == {"samples.json", "verdicts.json"}
    (dataset,) = [e for e in events if e["event"] == "dataset"]
    assert dataset["source"] == str(usual.samples)
    assert all((usual.path / str(path)).is_file() for path in paths)
    assert any("report/index.html" in line for line in said)


def test_a_report_that_cannot_be_written_is_said_and_ends_nothing(usual: RunDir) -> None:
    (usual.path / "report").write_text("a file where the folder belongs")
    said: list[str] = []
    end(usual, said)
    assert any("the report was not made" in line for line in said)
    assert told(usual)[-1]["event"] == "status"


def test_the_matrix_has_a_row_for_each_reason_and_category(make_run: MakeRun) -> None:
    specs = [
        Spec(row, category=f"B{row % 2 + 1}", verdicts={"v": failing("odd")}) for row in range(6)
    ]
    table = verdict_table(collect(make_run(specs)))
    assert table["category"] == ["B1", "B2"]
    assert table["count"] == [3, 3]
    assert table["share"] == [1.0, 1.0]


@pytest.mark.parametrize("categories", [1, 8, 40])
def test_the_final_metrics_keep_below_sixty_keys(categories: int, tmp_path: Path) -> None:
    judgements = [Spec(n, category=f"C{n:02d}").judgement() for n in range(categories)]
    figures = dict(final_figures(choose_samples(judgements).stats))
    assert len(figures) <= 36
    assert figures["final/all/samples"] == categories
