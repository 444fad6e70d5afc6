"""The hub path with the library's own offline means: local folders, its offline switch, a port
where nobody listens, and a small hub of our own over a real socket."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.config import HubSource as HubConfig
from runner.errors import ConfigError
from runner.prompts.hub import HubSource
from tests.prompts import rows

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROOT = Path(__file__).resolve().parents[2]
ALL = np.arange(6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "set"
    path.mkdir()
    (path / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows.OPENCODE))
    return path


def test_a_full_commit_asks_nothing_of_the_hub() -> None:
    source = HubSource(HubConfig(id="a/b", revision=COMMIT), "w")
    assert source.identity == {"hub": "a/b", "commit": COMMIT, "config": None, "split": "train"}


def test_a_local_folder_is_known_by_its_content(folder: Path, tmp_path: Path) -> None:
    one = HubSource(HubConfig(id=str(folder)), "w")
    moved = folder.rename(tmp_path / "moved")
    same = HubSource(HubConfig(id=str(moved)), "w")
    with (moved / "train.jsonl").open("a") as file:
        file.write("\n")
    other = HubSource(HubConfig(id=str(moved)), "w")
    assert one.identity == same.identity != other.identity


@pytest.mark.parametrize("streaming", [False, True])
def test_rows_by_number_and_only_the_columns_that_are_read(folder: Path, streaming: bool) -> None:
    limit = 6 if streaming else None
    source = HubSource(HubConfig(id=str(folder), streaming=streaming, first_rows=limit), "w")
    assert len(source) == 6
    found = list(source.read(np.array([1, 4]), ["input", "id"]))
    assert found == [(i, {k: rows.OPENCODE[i][k] for k in ("input", "id")}) for i in (1, 4)]


def test_first_rows_bounds_what_is_chosen_from(folder: Path) -> None:
    assert len(HubSource(HubConfig(id=str(folder), first_rows=4), "w")) == 4
    assert len(HubSource(HubConfig(id=str(folder), first_rows=40), "w")) == 6


def test_a_stream_that_is_shorter_than_it_was_said_to_be(folder: Path) -> None:
    source = HubSource(HubConfig(id=str(folder), streaming=True, first_rows=9), "w")
    with pytest.raises(ConfigError, match="6 of 9"):
        list(source.read(np.arange(9)))


def test_a_stream_of_unknown_length_needs_a_bound(folder: Path) -> None:
    source = HubSource(HubConfig(id=str(folder), streaming=True), "w")
    with pytest.raises(ConfigError) as caught:
        len(source)
    assert caught.value.where == "w.first_rows"


@pytest.mark.parametrize("wrong", [{"split": "tset"}, {"config": "nope"}])
def test_a_wrong_split_or_config_says_what_there_is(folder: Path, wrong: dict[str, str]) -> None:
    source = HubSource(HubConfig(id=str(folder), **wrong), "w")
    with pytest.raises(ConfigError) as caught:
        len(source)
    assert "train" in caught.value.found or "default" in caught.value.found


TRY = """
import json, sys
from runner.config import HubSource as HubConfig
from runner.errors import RunnerError
from runner.prompts.hub import HubSource
import numpy as np
for block in json.loads(sys.argv[1]):
    try:
        source = HubSource(HubConfig(**block), "w")
        rows = [row for _, row in source.read(np.arange(len(source)))]
        print(json.dumps([0, source.identity, rows]))
    except RunnerError as error:
        print(json.dumps([error.exit_code, str(error), None]))
"""


def try_hub(tmp_path: Path, *blocks: dict[str, Any], **env: str) -> list[tuple[int, Any, Any]]:
    """(exit code, message or identity, rows) for each block, in a process that knows only `env`
    of the hub (the library reads its settings when it is imported)."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", TRY, json.dumps(blocks)],
        cwd=ROOT,
        env=kept | {"HF_HOME": str(tmp_path / "hf"), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


MAGICODER = "ise-uiuc/Magicoder-Evol-Instruct-110K"


@pytest.mark.parametrize("env", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_a_hub_that_cannot_be_reached(env: dict[str, str], tmp_path: Path) -> None:
    blocks = {"id": MAGICODER}, {"id": MAGICODER, "revision": COMMIT}
    for code, said, _ in try_hub(tmp_path, *blocks, **env):
        assert code == 1
        assert "The hub cannot be reached" in said
        assert "w.id" in said


Answer = Callable[[str], tuple[int, dict[str, str], bytes]]


@contextmanager
def hub(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A hub over a real socket that answers as `answer` says; its URL, and what it was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(size)
            asked.append(self.path)
            status, headers, body = answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - the names are http.server's

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


REFUSALS = {
    "a/gated": (403, "GatedRepo", "HF_TOKEN", 1),
    "a/locked": (401, "GatedRepo", "gated", 1),
    "a/none": (404, "RepoNotFound", "no such data set", 2),
    "a/old": (404, "RevisionNotFound", "revision v2", 2),
    "a/down": (500, "", "cannot be reached", 1),
}


def test_what_a_hub_refuses_is_said_in_words(tmp_path: Path) -> None:
    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        status, code, _, _ = next(r for name, r in REFUSALS.items() if name in path)
        return status, {"X-Error-Code": code, "X-Error-Message": "Access is restricted."}, b"{}"

    with hub(answer) as (url, _):
        blocks = [{"id": name, "revision": "v2"} for name in REFUSALS]
        found = try_hub(tmp_path, *blocks, HF_ENDPOINT=url)
    for (code, said, _), (_, _, wanted, exit_code) in zip(found, REFUSALS.values(), strict=True):
        assert wanted in said
        assert code == exit_code


def serving(files: dict[str, bytes]) -> Answer:
    """The answers of a hub that holds one data set at COMMIT."""
    base = "/ise-uiuc/Magicoder-Evol-Instruct-110K"

    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        path = path.split("?")[0]
        if f"/api/datasets{base}/tree/" in path or path.endswith("/paths-info/" + COMMIT):
            listed = [
                {"type": "file", "path": n, "size": len(d), "oid": "0" * 40}
                for n, d in files.items()
            ]
            return 200, {"Content-Type": "application/json"}, json.dumps(listed).encode()
        if path.startswith(f"/api/datasets{base}"):
            about = {
                "id": base[1:],
                "sha": COMMIT,
                "siblings": [{"rfilename": name} for name in files],
                "tags": [],
                "private": False,
                "downloads": 0,
                "likes": 0,
            }
            return 200, {"Content-Type": "application/json"}, json.dumps(about).encode()
        name = path.rpartition("/")[2]
        if f"/datasets{base}/resolve/{COMMIT}/" in path and name in files:
            headers = {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT}
            return 200, headers, files[name]
        return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"

    return answer


def test_a_data_set_comes_from_the_hub_and_its_commit_is_the_identity(tmp_path: Path) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows.MAGICODER).encode()
    with hub(serving({"train.jsonl": data})) as (url, asked):
        streamed = {"id": MAGICODER, "streaming": True, "first_rows": 4}
        found = try_hub(tmp_path, {"id": MAGICODER}, streamed, HF_ENDPOINT=url)
    assert [code for code, _, _ in found] == [0, 0], found
    assert [got for _, _, got in found] == [rows.MAGICODER] * 2
    assert found[0][1]["commit"] == COMMIT
    assert any(f"/resolve/{COMMIT}/train.jsonl" in path for path in asked)
    pinned = {"id": MAGICODER, "revision": COMMIT}
    assert try_hub(tmp_path, pinned, HF_HUB_OFFLINE="1") == found[:1]


def test_datasets_is_known_to_one_module_and_imported_late() -> None:
    users = [p.name for p in (ROOT / "runner").rglob("*.py") if "import datasets" in p.read_text()]
    assert users == ["hub.py"]
    code = "import sys, runner.prompts.parts; sys.exit('datasets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
