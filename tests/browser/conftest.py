"""Chromium, and the report of a real run directory in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.report import REPORT_NAME, make_report
from tests.browser.pages import CHROMIUM, DRIVER, Page, chromium
from tests.report.conftest import make_run, usual
from tests.runs.conftest import MakeRun, Spec, failing

__all__ = ["make_run", "usual"]

MARK = pytest.mark.browser


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(str(item.fspath)).parent.name == "browser":
            item.add_marker(MARK)


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests. Missing programs fail: a skipped test proves nothing."""
    assert CHROMIUM, "no chromium: apt-get install -y chromium chromium-driver"
    assert DRIVER, "no chromedriver: apt-get install -y chromium-driver"
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


def report_of(run: object) -> str:
    make_report(run)  # type: ignore[arg-type]
    return (run.path / REPORT_NAME).as_uri()  # type: ignore[attr-defined]


HOSTILE = (
    "<script>document.title='owned'</script></pre></details>"
    "<img src=x onerror=\"document.title='owned'\">\x1b[2J\u202eevil\u202c"
)


@pytest.fixture
def hostile(make_run: MakeRun) -> str:
    """The address of a report whose texts are hostile wherever a text can be."""
    specs = [
        Spec(
            row,
            category=f"B{row % 8 + 1}",
            output=f"Thinking {HOSTILE}</think>{HOSTILE * (row + 1)}<|im_end|>",
            question=HOSTILE,
            verdicts={"v": failing("odd", detail=HOSTILE)},
        )
        for row in range(16)
    ]
    return report_of(make_run(specs, reason=HOSTILE, names={"model": HOSTILE}))
