"""The floors of docs/design.md: who may import whom, and which module may know which library."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS: dict[str, int] = {
    **dict.fromkeys(("records", "tokenprofile", "errors", "yamltext"), 0),
    **dict.fromkeys(
        (
            "config",
            "identity",
            "budget",
            "rundir",
            "shards",
            "keying",
            "segments",
            "grammars",
            "idtable",
            "stats",
            "gates",
            "pacing",
            "permits",
            "plugins",
            "tasks",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "prompts",
            "modelfiles",
            "ggufvocab",
            "render",
            "profile",
            "templates",
            "escaping",
            "rendering",
            "servers",
            "engines",
            "tracking",
            "provenance",
        ),
        2,
    ),
    **dict.fromkeys(
        (
            "ledger",
            "selection",
            "failures",
            "superseded",
            "accounting",
            "world",
            "samerun",
            "partition",
            "requeue",
            "repair",
            "merge",
            "reuse",
            "space",
            "view",
            "report",
            "mirror",
            "export",
            "gather",
            "planned",
            "plansummary",
            "planwriter",
            "preflight",
            "refit",
            "plan",
            "resolve",
            "stopping",
            "stall",
            "notify",
            "sharing",
            "serverfacts",
            "serving",
            "flow",
            "tuning",
            "standing",
            "estimate",
            "gpuwatch",
            "performance",
            "tail",
            "meter",
            "tries",
            "generate",
            "recorder",
            "validate",
            "promptfinder",
            "watch",
            "shortcanary",
            "recovery",
            "waves",
            "conclusion",
            "rejudge",
            "parity",
            "display",
            "monitor",
            "model",
            "ending",
        ),
        3,
    ),
    **dict.fromkeys(
        (
            "preview",
            "cli",
            "runs",
            "run",
            "attempt",
            "sending",
            "serve",
            "doctor",
            "callbacks",
            "sweeping",
            "__main__",
        ),
        4,
    ),
}
ONLY_IN: dict[str, tuple[str, ...]] = {
    "hydra": ("cli", "plugins", "callbacks"),
    "omegaconf": ("cli", "plugins", "callbacks", "sweeping", "config"),
    "mlflow": ("tracking",),
    "transformers": ("render",),
    "zstandard": ("shards",),
    "aiohttp": ("engines", "servers"),
    "xllamacpp": ("servers",),
    "datasets": ("prompts",),
    "huggingface_hub": ("prompts",),
    "pyarrow": ("prompts", "export"),
    "sglang": (),
    "torch": (),
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append(node.module)
    return found


def unit(path: Path) -> str:
    """`runner/shards/writer.py` -> `shards`, `runner/plan.py` -> `plan`."""
    inside = path.relative_to(ROOT / "runner")
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


@pytest.mark.parametrize("path", modules("runner"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_or_lower_floors(path: Path) -> None:
    if path.name == "__init__.py" and path.parent == ROOT / "runner":
        return
    floor = FLOORS[unit(path)]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "runner" and len(parts) > 1:
            assert FLOORS[parts[1]] <= floor, f"{path.name} (floor {floor}) imports {name}"


@pytest.mark.parametrize("path", modules("runner"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_library_is_known_only_where_it_belongs(path: Path) -> None:
    for name in imports(path):
        top = name.split(".")[0]
        if top in ONLY_IN:
            assert unit(path) in ONLY_IN[top], f"{path.name} imports {name}"


def test_there_are_no_import_cycles_between_units() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules("runner"):
        names = {n.split(".")[1] for n in imports(path) if n.startswith("runner.")}
        graph.setdefault(unit(path), set()).update(names - {unit(path)})

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        return any(
            n == goal or (n not in seen and reaches(n, goal, seen | {n}))
            for n in graph.get(start, ())
        )

    assert [name for name in graph if reaches(name, name, {name})] == []


def test_validators_import_only_records_and_the_runner_never_imports_validators() -> None:
    for path in modules("validators"):
        ours = [n for n in imports(path) if n.split(".")[0] == "runner"]
        assert set(ours) <= {"runner.records"}, path
    for path in modules("runner"):
        assert not any(n.split(".")[0] == "validators" for n in imports(path)), path


def test_the_name_validators_is_ours() -> None:
    """A public distribution of that name exists; an installed one would shadow our plugins."""
    import validators

    assert Path(str(validators.__file__)).parent == ROOT / "validators"
    names = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    assert "validators" not in names


@pytest.mark.parametrize("path", modules("runner") + modules("validators"), ids=str)
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"]])
def test_help_and_cfg_import_neither_mlflow_nor_transformers(arguments: list[str]) -> None:
    code = (
        "import sys, runner.cli\n"
        f"sys.argv = ['rawtok', *{arguments!r}]\n"
        "try:\n    runner.cli.main()\nexcept SystemExit as end:\n"
        "    assert end.code == 0, end.code\n"
        "heavy = {'mlflow', 'transformers', 'torch', 'pandas', 'aiohttp'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
