"""Which addresses are allowed, and where they point."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from runner.errors import ConfigError
from runner.tracking import compare_url, default_uri, run_url
from runner.tracking.address import mount_type, normal_uri, sqlite_path


def test_the_default_is_an_absolute_database_beside_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_uri(Path("outputs")) == f"sqlite:///{tmp_path}/outputs/mlflow.db"


def test_a_relative_database_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert normal_uri("sqlite:///x.db") == f"sqlite:///{tmp_path}/x.db"


@pytest.mark.parametrize(
    "uri", ["http://h:5000", "postgresql+psycopg2://u:p@h/db", "databricks://profile"]
)
def test_an_address_that_mlflow_knows_stays(uri: str) -> None:
    assert normal_uri(uri) == uri


def test_a_trailing_slash_is_no_other_server() -> None:
    assert normal_uri("http://h:5000/") == "http://h:5000"


@pytest.mark.parametrize("uri", ["", "localhost:5000", "./mlruns", "file:///x", "ftp://h"])
def test_an_impossible_address_is_refused_with_what_is_allowed(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"tracking\.uri(.|\n)*allowed(.|\n)*http://"):
        normal_uri(uri)


def test_a_refused_address_tells_no_password() -> None:
    with pytest.raises(ConfigError) as caught:
        normal_uri("ftp://me:hush@h")
    assert "hush" not in str(caught.value)


def test_only_sqlite_has_a_file() -> None:
    assert sqlite_path("sqlite:////a/b.db") == Path("/a/b.db")
    assert sqlite_path("http://h") is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/a", "ext4"), ("/net/x/y", "nfs4"), ("/network", "ext4"), ("/net/x/tmp/z", "tmpfs")],
)
def test_the_innermost_mount_counts(path: str, kind: str) -> None:
    mounts = [("/", "ext4"), ("/net/x", "nfs4"), ("/net/x/tmp", "tmpfs")]
    assert mount_type(Path(path), mounts) == kind


def test_a_run_has_a_page_only_at_a_server() -> None:
    ids = {"experiment_id": "1", "mlflow_run_id": "abc"}
    assert run_url("http://u:p@h:5000", **ids) == "http://***@h:5000/#/experiments/1/runs/abc"
    assert run_url("sqlite:////a/b.db", **ids) == ""


def test_the_compare_page_names_the_runs() -> None:
    url = compare_url("http://h:5000", experiment_id="1", mlflow_run_ids=["a", "b"])
    assert unquote(url) == 'http://h:5000/#/compare-runs?runs=["a","b"]&experiments=["1"]'
    assert " " not in url
