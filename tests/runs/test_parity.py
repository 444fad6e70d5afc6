"""`parity` against a scripted SGLang whose chat API does to an answer what real ones did."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson
import pytest
from aiohttp import web

from runner.config import ModelMode
from runner.ledger import sample_keying
from runner.modelfiles import ASSETS
from runner.profile import facts_of, probe
from runner.records import PlannedSample, Prompt
from runner.render import load_tokenizer
from runner.rundir import RunDir, replace_file
from runner.runs import main
from runner.shards import ShardWriter
from tests.engines.fake_answers import Scenario
from tests.fake_sglang import FakeSglang, reply
from tests.validators.make import sample_of

TINY = Scenario(vocab_size=1280, vocab_assigned=1255, stop_id=1262, think_close_id=1264)


class Chatting(FakeSglang):
    """Also has the chat API: answers greedily by the same rule, and loses the reasoning."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.tokenizer = load_tokenizer(ASSETS / "tiny_reasoner")
        self.asked: list[dict] = []

    def _routes(self) -> list[web.RouteDef]:
        return [*super()._routes(), web.post("/v1/chat/completions", self._chat)]

    async def _chat(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        self.asked.append(body)
        content = "It is 4."
        message = {"role": "assistant", "content": content, "tool_calls": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 5}
        return reply({"choices": [choice], "usage": usage})


@pytest.fixture
def chatting() -> Iterator[Chatting]:
    """The server, in a thread of its own."""
    fake, started, loop = Chatting(), threading.Event(), asyncio.new_event_loop()

    def serve() -> None:
        loop.run_until_complete(fake.revive())
        started.set()
        loop.run_forever()
        loop.run_until_complete(fake.kill())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    started.wait(20)
    yield fake
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "outputs" / "t" / "tiny")
    tokenizer = load_tokenizer(ASSETS / "tiny_reasoner")
    mode = ModelMode(template_kwargs={"thinking": True})
    profile = probe(tokenizer, facts_of(ASSETS / "tiny_reasoner"), {"thinking": mode}, {})
    tokenizer.save(made.tokenizer)
    replace_file(made.profile_json, msgspec.json.encode(profile))
    config = {"category": {"parts": {"B4": {}}}, "validators": {}, "model": {},
              "mode": {"name": "thinking"}}  # fmt: skip
    replace_file(made.config_yaml, json.dumps(config).encode())
    for row in range(3):
        messages = [{"role": "user", "content": f"What is {row}?"}]
        prompt = Prompt(prompt_hash=f"{row + 1:032x}", category="B4", row=row, messages=messages)
        planned = PlannedSample(
            sample_id=f"B4-{row}-0", prompt=row, prompt_hash=prompt.prompt_hash, category="B4",
            row=row, k=0, prompt_tokens=1,
        )  # fmt: skip
        ids = tokenizer.render(messages, [], {"thinking": True})
        sample = sample_of([40, 1262], input_ids=ids, sample_id=planned.sample_id, row=row)
        for folder, record in (
            (made.samples, sample),
            (made.prompts, prompt),
            (made.plan, planned),
        ):
            keying = sample_keying if folder != made.prompts else lambda _line: ("", 0)
            with ShardWriter(folder, keying=keying, fsync=False) as writer:
                writer.put(msgspec.json.encode(record))
    return made


def test_what_the_chat_api_dropped_is_shown(
    run: RunDir, chatting: Chatting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parity", str(run.path), "--n", "2", "--url", chatting.url]) == 1
    said = capsys.readouterr().out
    assert "1 x </think>" in said
    assert "not found in the chat answer" in said
    assert "other prompt:" in said
    assert "2 of 2 answers are not the same" in said
    assert [one["temperature"] for one in chatting.asked] == [0.0, 0.0]
    assert chatting.asked[0]["chat_template_kwargs"] == {"thinking": True}


def test_as_json(run: RunDir, chatting: Chatting, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", str(run.path), "--n", "1", "--url", chatting.url, "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert one["sample_id"] == "B4-0-0"
    assert one["dropped"]["</think>"] == 1


def test_a_server_that_is_not_there(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", str(run.path), "--url", "http://127.0.0.1:9"]) == 1
    assert "gives no answer to compare" in capsys.readouterr().err
