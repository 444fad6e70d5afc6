"""A launched server that hangs or is killed by a prompt: the run finishes and tells of it."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from runner.render import load_tokenizer
from tests.e2e.conftest import ROOT, TINY, Outputs, prompt_file


def scripted(folder: Path, *faults: dict[str, Any], **changes: Any) -> list[str]:
    """The overrides of a launched server that plays a scenario, and a log of notifications."""
    scenario = folder / "scenario.json"
    scenario.write_bytes(msgspec.json.encode({**TINY, "faults": list(faults), **changes}))
    command = [sys.executable, "-m", "tests.fake_sglang", "--scenario", f"@{scenario}"]
    log = f"open({str(folder / 'events')!r}, 'a').write(sys.stdin.read() + chr(10))"
    program = folder / "notify.py"
    program.write_text(f"import sys\n{log}\n")
    return [
        "server=sglang",
        f"server.command=[{','.join(command)}]",
        "server.restart.backoff_s=0.05",
        f"notify.command=[{sys.executable},{program}]",
    ]


def events(folder: Path) -> list[str]:
    lines = (folder / "events").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


def test_a_server_that_hangs_is_restarted_and_nothing_is_lost(
    outputs: Outputs, tmp_path: Path
) -> None:
    words = scripted(tmp_path, {"kind": "hang", "at": [20]})
    rows = prompt_file(tmp_path / "rows.jsonl", 30)
    done = outputs.run(*words, "source=file", f"source.path={rows}", "server.stall_s=2")
    assert done.code == 0, done.text
    assert "nothing moved for 2 s while work was running" in done.text
    assert len(outputs.samples()) == 30
    assert outputs.state().launches == 2
    assert events(tmp_path) == ["stall", "restart", "done"]


def test_a_prompt_that_kills_the_server_is_found_and_the_rest_is_done(
    outputs: Outputs, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    texts = [f"What is {n} + {n}?" for n in range(20)] + ["zebra"]
    rows.write_bytes(
        b"".join(
            msgspec.json.encode({"messages": [{"role": "user", "content": text}]}) + b"\n"
            for text in texts
        )
    )
    words = scripted(tmp_path, {"kind": "die", "with_id": rare_id("zebra", texts[:-1])})
    done = outputs.run(*words, "source=file", f"source.path={rows}")
    assert "planned 21 = ok 20 + rejected 0 + failed 1" in done.text, done.text
    (run,) = outputs.runs
    (failure,) = [json.loads(line) for line in run.failures.read_text().splitlines()]
    assert failure["reason"] == "kills_server"
    assert failure["permanent"]
    assert events(tmp_path).count("restart") == 3
    table = json.loads((run.attempt(1) / "endpoints.json").read_text())
    assert sum(one["answered"] for one in table) >= 20


def rare_id(word: str, others: list[str]) -> int:
    """A token id that is in `word` and in none of the other texts."""
    tokenizer = load_tokenizer(ROOT / "runner" / "assets" / "tiny_reasoner")

    def ids(text: str) -> set[int]:
        return set(tokenizer.render([{"role": "user", "content": text}], [], {}))

    return min(ids(word).difference(*map(ids, others)))


def test_what_answers_is_in_provenance(outputs: Outputs, tmp_path: Path) -> None:
    words = scripted(tmp_path, api_key="a-very-secret-key")
    rows = prompt_file(tmp_path / "rows.jsonl", 4)
    key = "+server.env.RAWTOK_SERVER_API_KEY=a-very-secret-key"
    done = outputs.run(*words, "source=file", f"source.path={rows}", key)
    assert done.code == 0, done.text
    (run,) = outputs.runs
    about = json.loads(run.provenance_json.read_text())["server"]
    assert about["version"] == "0.5.23"
    assert about["launched"]["seed"] > 0
    everything = [path for path in run.path.rglob("*") if path.is_file()]
    assert not [path for path in everything if b"a-very-secret-key" in path.read_bytes()]
