"""Documents that cannot rot: links lead somewhere, commands in the README are real ones."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from runner.config import parse
from runner.plugins import register_schema

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, flags=re.S)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_is_short() -> None:
    assert len(README.split()) < 900


@pytest.fixture
def readers_conf(tmp_path: Path) -> str:
    """The category file that the README shows, in a folder on Hydra's search path."""
    (block,) = (b for b in re.findall(r"```yaml\n(.*?)```", README, flags=re.S) if "tides" in b)
    (tmp_path / "category").mkdir()
    (tmp_path / "category" / "tides.yaml").write_text(block)
    return f"hydra.searchpath=[file://{tmp_path}]"


@pytest.mark.parametrize("line", [c for c in commands() if c.startswith("python -m runner ")])
def test_a_run_command_of_the_readme_composes(line: str, readers_conf: str) -> None:
    words = [w for w in shlex.split(line)[3:] if w not in ("-m", "--help")]
    if words[:1] == ["--config-dir"]:
        return  # a folder of the reader's own
    overrides = [re.sub(r"=(\w+),.*", r"=\1", w) for w in words]
    register_schema()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("config", overrides=["paths.outputs=/o", readers_conf, *overrides])
    assert parse(cfg).task_name


@pytest.mark.parametrize("line", [c for c in commands() if c.startswith("python -m runner.runs ")])
def test_a_runs_command_of_the_readme_parses(line: str) -> None:
    from runner.runs import make_parser

    assert make_parser().parse_args(shlex.split(line)[3:])


@pytest.mark.parametrize("line", [c for c in commands() if c.startswith("make ")])
def test_a_make_target_of_the_readme_exists(line: str) -> None:
    target = line.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.M)


def config_options() -> list[str]:
    skip = {"hydra", "local", "paths", "hparams_search"}  # the last needs the extra `tune`
    return [
        f"{path.parent.name}={path.stem}"
        for path in sorted((ROOT / "conf").glob("*/*.yaml"))
        if path.parent.name not in skip
    ]


@pytest.mark.parametrize("option", config_options())
def test_every_option_of_every_group_composes(option: str) -> None:
    extra = {
        "server=external": ["server.urls=[http://h:1]"],
        "source=file": ["source.path=x.jsonl"],
        "category=own": ["source=file", "source.path=x.jsonl"],
        "source=custom": ["category.parts.B4.custom={_target_: mine.Rows}"],
    }.get(option, [])
    register_schema()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("config", overrides=["paths.outputs=/o", option, *extra])
    assert parse(cfg)
    assert OmegaConf.is_dict(cfg)
