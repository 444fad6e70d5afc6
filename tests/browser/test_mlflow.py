"""MLflow's own pages of a real sweep, in a real browser: the run, its parent, the comparison."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.tracking import compare_url
from tests.browser.pages import Page

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 300.0
OF_MLFLOW = ("users/current", "ResizeObserver loop", "favicon")
"""What MLflow's own pages complain of, whatever is in them."""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of two real runs of the bundled model, one parent above them."""
    outputs = tmp_path_factory.mktemp("sweep") / "outputs"
    overrides = ["sampling=greedy,sampled", "category.count=4", f"paths.outputs={outputs}"]
    done = subprocess.run(
        [sys.executable, "-m", "runner", "-m", *overrides],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compare: " in done.stderr
    return outputs


@pytest.fixture(scope="module")
def server(sweep: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--workers", "1", "--backend-store-uri", f"sqlite:///{sweep / 'mlflow.db'}"]
    with (sweep / "server.log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            cwd=sweep,
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
            start_new_session=True,
        )
    try:
        wait_for(uri)
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for(uri: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(f"{uri}/health", timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "the MLflow server did not start"
            time.sleep(0.5)


def told(sweep: Path, pattern: str) -> dict[str, str]:
    return json.loads(next(sweep.glob(pattern)).read_text())


def see(page: Page, url: str, *texts: str) -> None:
    """Open a page of MLflow and wait until it shows all of the texts, without errors of ours."""
    page.errors()
    page.open("about:blank")
    page.open(url, width=1920, height=1200)
    deadline = time.monotonic() + WAIT_S
    while missing := [t for t in texts if t not in page.script("return document.body.innerText")]:
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)
    assert [e for e in page.errors() if not any(known in e for known in OF_MLFLOW)] == []


def test_the_page_of_a_run(sweep: Path, server: str, page: Page) -> None:
    run = told(sweep, "default/*greedy*/tracking.json")
    url = f"{server}/#/experiments/{run['experiment_id']}/runs/{run['mlflow_run_id']}"
    see(page, url, "sampling=greedy", "Finished", "flagged_share", "sampling.temperature", "digest")
    page.shot("mlflow-run", whole=False)


def test_the_report_among_the_artifacts(sweep: Path, server: str, page: Page) -> None:
    run = told(sweep, "default/*greedy*/tracking.json")
    base = f"{server}/#/experiments/{run['experiment_id']}/runs/{run['mlflow_run_id']}"
    see(page, f"{base}/artifacts/report/index.html", "report/index.html", "verdicts.json")
    deadline = time.monotonic() + WAIT_S
    while not page.script("return document.querySelector('iframe') !== null"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    page.driver.switch_to.frame(page.driver.find_element("tag name", "iframe"))
    try:
        assert "Worth a look" in page.script("return document.body.innerText")
    finally:
        page.driver.switch_to.default_content()
    page.shot("mlflow-report", whole=False)


def test_the_page_of_the_parent(sweep: Path, server: str, page: Page) -> None:
    parent = told(sweep, ".invocations/*/*/mlflow_parent.json")
    url = f"{server}/#/experiments/{parent['experiment_id']}/runs/{parent['mlflow_run_id']}"
    see(page, url, "sweep sampling=greedy,sampled", "jobs_failed", "sampling=sampled", "Finished")
    page.shot("mlflow-parent", whole=False)


def test_the_comparison(sweep: Path, server: str, page: Page) -> None:
    parent = told(sweep, ".invocations/*/*/mlflow_parent.json")
    lines = next(sweep.glob(".invocations/*/*/jobs.jsonl")).read_text().splitlines()
    ids = [json.loads(line)["mlflow_run_id"] for line in lines]
    url = compare_url(server, experiment_id=parent["experiment_id"], mlflow_run_ids=ids)
    see(page, url, "Comparing 2 Runs", "sampling=greedy", "sampling=sampled", "name.sampling")
    page.shot("mlflow-compare", whole=False)
