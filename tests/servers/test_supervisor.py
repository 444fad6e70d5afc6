"""Nothing of a server outlives its runner, whoever is killed."""

import ast
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.servers import supervisor
from tests.servers.conftest import gone, read_pid, wait_for

RUNNER_SIDE = Path(__file__).with_name("runner_side.py")
ROOT = Path(__file__).resolve().parents[2]


class Tree:
    """A runner of its own, its supervisor's two processes, a server and a stubborn grandchild."""

    def __init__(self, folder: Path, doomed: list[int], *words: str) -> None:
        pids, grandchild = folder / "pids.json", folder / "grandchild"
        self.log = folder / "server.log"
        self.runner = subprocess.Popen(
            [sys.executable, str(RUNNER_SIDE), str(pids), str(self.log),
             "--grandchild", str(grandchild), *words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        wait_for(pids.exists, what="the server to be started")
        self.pids: dict[str, int] = json.loads(pids.read_text())
        self.pids["grandchild"] = read_pid(grandchild)
        doomed += [pid for pid in self.pids.values() if pid]

    def kill(self, *names: str) -> None:
        for name in names:
            os.kill(self.pids[name], signal.SIGKILL)

    def wait_until_gone(self, *names: str) -> None:
        for name in names:
            wait_for(functools.partial(gone, self.pids[name]), what=f"the end of the {name}")

    def end(self) -> None:
        self.runner.kill()
        self.runner.wait()


@pytest.fixture
def trees(tmp_path: Path, doomed: list[int]) -> Iterator[list[Tree]]:
    made: list[Tree] = []
    yield made
    for tree in made:
        tree.end()


def plant(trees: list[Tree], tmp_path: Path, doomed: list[int], *words: str) -> Tree:
    trees.append(Tree(tmp_path, doomed, *words))
    return trees[-1]


def test_nothing_survives_a_sigkill_of_the_runner(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed)
    tree.end()
    tree.wait_until_gone("server", "grandchild", "keeper", "guard")


def test_a_server_that_ignores_sigterm_does_not_survive_either(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed, "--ignore-term")
    tree.end()
    tree.wait_until_gone("server", "grandchild")


@pytest.mark.parametrize("victim", ["guard", "keeper"])
def test_nothing_survives_a_sigkill_of_one_half_of_the_supervisor(
    victim: str, tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed, "--ignore-term")
    tree.kill(victim)
    tree.wait_until_gone("server", "grandchild", "keeper", "guard")
    assert tree.runner.poll() is None


def test_the_main_process_dies_even_when_both_halves_are_killed(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed, "--ignore-term")
    tree.kill("guard", "keeper")
    tree.wait_until_gone("server")


def test_a_runner_and_half_of_its_supervisor_killed_together_leave_nothing(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed)
    tree.kill("keeper")
    tree.end()
    tree.wait_until_gone("server", "grandchild", "guard")


def test_a_pipe_held_open_by_a_forked_child_does_not_hide_the_runners_death(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed, "--fork")
    tree.end()
    tree.wait_until_gone("server", "grandchild")
    assert not gone(tree.pids["leaked"])


def test_sigterm_to_the_supervisor_ends_the_server(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed)
    os.kill(tree.pids["guard"], signal.SIGTERM)
    tree.wait_until_gone("server", "grandchild", "keeper", "guard")


def test_a_ctrl_c_at_the_terminal_does_not_reach_the_server(
    tmp_path: Path, doomed: list[int], trees: list[Tree]
) -> None:
    tree = plant(trees, tmp_path, doomed)
    sessions = {os.getsid(tree.pids[name]) for name in ("guard", "keeper", "server")}
    assert os.getsid(tree.runner.pid) not in sessions


def test_it_imports_only_the_standard_library() -> None:
    tree = ast.parse(Path(supervisor.__file__).read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


def test_it_ends_quietly_when_the_runner_was_gone_before_it_began() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    ended = subprocess.run(
        [sys.executable, "-I", "-S", supervisor.__file__, str(reading), str(reading)],
        pass_fds=(reading,),
        capture_output=True,
        check=True,
    )
    os.close(reading)
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("parent_of", "expected"),
    [
        ({2: 1, 3: 2, 4: 3, 9: 8}, {2, 3, 4}),
        ({}, set()),
        ({1: 0}, set()),
        ({3: 2, 2: 1, 1: 3}, {2, 3}),  # a loop, as reused pids could make one
    ],
)
def test_below_finds_all_descendants(parent_of: dict[int, int], expected: set[int]) -> None:
    assert supervisor.below(1, parent_of) == expected


def test_parents_shows_our_own_parent() -> None:
    assert supervisor.parents()[os.getpid()] == os.getppid()
