"""Jobs of one process that need the same server use the same one; others do not."""

from pathlib import Path

import psutil
import pytest

from runner.config import Server, ServerKind
from runner.servers.base import ModelFacts
from runner.servers.launched import LaunchedServer
from runner.sharing import Shared, sharing_key
from tests.servers.conftest import fake_config, gone

FACTS = ModelFacts(model_path="org/model", context_length=64)


def job(
    shared: Shared, config: Server, folder: Path, *, fails: bool = False, first_launch: int = 1
) -> int:
    """One job: start a server (or find it up) and give its pid."""

    async def work() -> int:
        async with shared.server(
            config, FACTS, launches_dir=folder, first_launch=first_launch
        ) as server:
            await server.start()
            assert server.launch == first_launch
            assert (folder / f"{first_launch:02d}" / "argv.json").is_file()
            if fails:
                raise KeyError("the job")
            assert isinstance(server, LaunchedServer)
            assert server.process is not None
            return server.process.pid

    return shared.run(work())


def test_equal_jobs_share_one_server_until_the_end(tmp_path: Path) -> None:
    with Shared(keep=True) as shared:
        first = job(shared, fake_config(), tmp_path / "a")
        second = job(shared, fake_config(), tmp_path / "b", first_launch=4)
        assert first == second
        assert not gone(first)
    assert gone(first)


def test_the_shared_launch_says_where_its_log_is(tmp_path: Path) -> None:
    with Shared(keep=True) as shared:
        job(shared, fake_config(), tmp_path / "a")
        job(shared, fake_config(), tmp_path / "b")
    shown = (tmp_path / "b" / "01" / "argv.json").read_text()
    assert '"shared": true' in shown
    assert str(tmp_path / "a" / "01" / "server.log") in shown


@pytest.mark.parametrize(
    "changes", [{"flags": {"tp": 2}}, {"env": {"X": "1"}}, {"host": "0.0.0.0"}]
)
def test_a_job_that_needs_another_server_ends_the_kept_one(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    with Shared(keep=True) as shared:
        first = job(shared, fake_config(), tmp_path / "a")
        second = job(shared, fake_config(**changes), tmp_path / "b")
        assert first != second
        assert gone(first)


def test_a_run_on_its_own_ends_its_server(tmp_path: Path) -> None:
    with Shared() as shared:
        assert gone(job(shared, fake_config(), tmp_path / "a"))


def test_a_job_that_fails_leaves_no_server(tmp_path: Path) -> None:
    with Shared(keep=True) as shared:
        with pytest.raises(KeyError):
            job(shared, fake_config(), tmp_path / "a", fails=True)
        assert job(shared, fake_config(), tmp_path / "b")


def test_a_server_that_died_between_jobs_is_started_anew(tmp_path: Path) -> None:
    with Shared(keep=True) as shared:
        first = job(shared, fake_config(), tmp_path / "a")
        psutil.Process(first).kill()
        while not gone(first):
            pass
        second = job(shared, fake_config(), tmp_path / "b")
        assert second != first


def test_what_does_not_reach_the_server_does_not_matter() -> None:
    slow = fake_config(ready_timeout_s=99.0, stall_s=1.0)
    assert sharing_key(slow, FACTS) == sharing_key(fake_config(), FACTS)


def test_an_external_server_is_nobodys_to_share() -> None:
    config = Server(name="e", kind=ServerKind.external, urls=["http://127.0.0.1:1"])
    assert sharing_key(config, FACTS) is None
