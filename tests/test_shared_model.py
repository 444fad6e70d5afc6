"""Jobs of one process that use the same model load it once; what is kept never crosses models."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runner import model as models
from runner.config import Config
from runner.errors import MachineError
from runner.model import LoadedModel, RunModel
from runner.modelfiles import ModelFiles, find_model
from runner.sharing import Shared
from tests.test_identity import config

MODEL_ASSETS = Path(models.__file__).parent / "assets" / "tiny_reasoner"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was loaded, in order."""
    seen: list[str] = []
    real = models.load_tokenizer

    def load(path: Path | str, **options: object) -> object:
        seen.append(str(path))
        return real(path, **options)

    monkeypatch.setattr(models, "load_tokenizer", load)
    return seen


def loaded(shared: Shared, chosen: Config) -> LoadedModel:
    return shared.model(chosen, find_model(chosen.model))


def test_jobs_with_one_model_load_it_once(loads: list[str]) -> None:
    with Shared(keep=True) as shared:
        greedy = loaded(shared, config("sampling=greedy"))
        sampled = loaded(shared, config("sampling=sampled", "category=B1", "mode=instant"))
        assert greedy is sampled
    assert len(loads) == 1


@pytest.mark.parametrize(
    "other",
    [
        ("model.trust_remote_code=true",),
        ("model.hints.date=2025-05-05",),
        ("model.modes.thinking.template_kwargs={thinking: true, other: 1}",),
    ],
)
def test_what_changes_the_tokenizer_or_its_profile_is_loaded_anew(
    loads: list[str], other: tuple[str, ...]
) -> None:
    with Shared(keep=True) as shared:
        first = loaded(shared, config())
        assert loaded(shared, config(*(f"++{one}" for one in other))) is not first
    assert len(loads) == 2


def test_a_folder_whose_files_changed_is_loaded_anew(loads: list[str], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(MODEL_ASSETS, folder)
    chosen = config(f"model.path={folder}")
    with Shared(keep=True) as shared:
        first = loaded(shared, chosen)
        template = folder / "chat_template.jinja"
        template.write_text(template.read_text() + "{# changed #}")
        second = loaded(shared, chosen)
    assert first is not second
    assert first.profile.template_sha256 != second.profile.template_sha256


def test_a_run_of_its_own_has_its_own_model(loads: list[str]) -> None:
    chosen = config()
    files = find_model(chosen.model)
    assert RunModel(chosen, files).tokenizer is not RunModel(chosen, files).tokenizer
    assert len(loads) == 2


def test_rendering_processes_are_shared_until_the_end(pools: list["Pool"]) -> None:
    chosen = config("prompts.workers=2")
    files = find_model(chosen.model)
    with Shared(keep=True) as shared:
        for _ in range(2):
            _render(shared, chosen, files)
        assert [pool.closed for pool in pools] == [False]
        _render(shared, config("prompts.workers=2", "mode=instant"), files)
        assert [pool.closed for pool in pools] == [True, False]
    assert [pool.closed for pool in pools] == [True, True]


def test_broken_rendering_processes_are_not_given_to_the_next_job(pools: list["Pool"]) -> None:
    chosen = config("prompts.workers=2")
    files = find_model(chosen.model)
    with Shared(keep=True) as shared:
        _render(shared, chosen, files)
        pools[0].breaks = True
        with pytest.raises(MachineError):
            _render(shared, chosen, files)
        _render(shared, chosen, files)
        assert [pool.closed for pool in pools] == [True, False]


def _render(shared: Shared, chosen: Config, files: ModelFiles) -> None:
    model = RunModel(chosen, files, shared.model(chosen, files))
    assert list(model.ahead([])) == []
    model.close()


class Pool:
    """In place of processes."""

    def __init__(self) -> None:
        self.closed = self.breaks = self.broken = False

    def ahead(self, _prompts: object) -> object:
        if self.breaks:
            self.broken = True
            raise MachineError("A process that renders prompts ended.")
        return iter(())

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """All pools that were made."""
    made: list[Pool] = []

    def make(*_settings: object) -> Pool:
        made.append(Pool())
        return made[-1]

    make_: Callable[..., Pool] = make
    monkeypatch.setattr(models, "RenderPool", make_)
    return made
