"""Jobs of one process that need the same server use the same one; others do not."""

from pathlib import Path

import psutil
import pytest

from runner import serverfacts, sharing
from runner.config import EngineKind, Server, ServerKind
from runner.servers.base import ModelFacts
from runner.servers.launched import LaunchedServer
from runner.sharing import Shared, sharing_key
from tests.servers.conftest import fake_config, gone, wait_for

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
        # A zombie may still have threads that hold its port; its supervisor collects it after them.
        wait_for(lambda: not psutil.pid_exists(first), what="the end of the server")
        second = job(shared, fake_config(), tmp_path / "b")
        assert second != first


def test_what_does_not_reach_the_server_does_not_matter() -> None:
    slow = fake_config(ready_timeout_s=99.0, stall_s=1.0)
    assert sharing_key(slow, FACTS) == sharing_key(fake_config(), FACTS)


def test_an_external_server_is_nobodys_to_share() -> None:
    config = Server(name="e", kind=ServerKind.external, urls=["http://127.0.0.1:1"])
    assert sharing_key(config, FACTS) is None


def test_a_shared_launch_is_described_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(serverfacts, "gpus", lambda: asked.append("gpus") or [{"name": "A"}])
    monkeypatch.setattr(serverfacts, "environment", lambda python: asked.append(python) or {"p": 1})
    config = fake_config(python="/some/python", engine=EngineKind.sglang)
    about = []
    with Shared(keep=True) as shared:
        for name in ("a", "b"):
            job(shared, fake_config(), tmp_path / name)
            launch = tmp_path / name / "01"
            about.append(serverfacts.describe(config, {}, launch))
            serverfacts.keep(about[-1], launch_dir=launch, provenance=[])
    assert asked == ["/some/python", "gpus"]
    assert about[0]["gpus"] == about[1]["gpus"] == [{"name": "A"}]
    assert about[1]["environment"] == {"p": 1}
    assert about[1]["launched"]["shared"]


def test_flags_are_asked_of_the_program_once_for_equal_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Server] = []
    monkeypatch.setattr(sharing, "check_flags", lambda config: asked.append(config) or True)
    with Shared(keep=True) as shared:
        assert all(shared.knows_flags(fake_config()) for _ in range(3))
        assert shared.knows_flags(fake_config(flags={"tp": 2}))
    assert len(asked) == 2


def test_help_that_could_not_be_had_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Server] = []
    monkeypatch.setattr(sharing, "check_flags", lambda config: asked.append(config) is not None)
    with Shared(keep=True) as shared:
        assert not any(shared.knows_flags(fake_config()) for _ in range(3))
    assert len(asked) == 3
