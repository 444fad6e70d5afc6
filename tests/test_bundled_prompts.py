"""The prompt sets that come with the project are complete and well formed."""

import json
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

PROMPTS = Path(__file__).resolve().parents[1] / "runner" / "assets" / "prompts"
CATEGORIES = [f"B{n}" for n in range(1, 9)]
ROW_KEYS = {"messages", "tools", "answer"}
MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "reasoning_content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}


def load(category: str) -> list[dict]:
    path = PROMPTS / f"{category}.jsonl"
    assert path.is_file(), f"missing prompt file: {path}"
    # split on "\n" alone: str.splitlines would also break at U+2028 and its like inside a string
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    rows = []
    for number, line in enumerate(lines, 1):
        assert line == line.strip(), f"{category}:{number}: empty line or stray spaces"
        row = json.loads(line)
        assert isinstance(row, dict), f"{category}:{number}: not an object"
        rows.append(row)
    return rows


@pytest.fixture(params=CATEGORIES)
def category(request) -> str:
    return request.param


@pytest.fixture
def rows(category) -> list[dict]:
    return load(category)


def test_enough_rows(rows):
    assert len(rows) >= 32


def test_keys(rows, category):
    for number, row in enumerate(rows, 1):
        where = f"{category}:{number}"
        assert "messages" in row, where
        assert set(row) <= ROW_KEYS, where
        assert isinstance(row["messages"], list), where
        assert row["messages"], where
        if category in ("B1", "B8"):
            assert row.get("tools"), where
        if category in ("B4", "B5"):
            answer = row.get("answer")
            assert isinstance(answer, str), where
            assert answer.strip(), where


def test_messages(rows, category):
    for number, row in enumerate(rows, 1):
        where = f"{category}:{number}"
        roles = [message.get("role") for message in row["messages"]]
        assert set(roles) <= set(MESSAGE_KEYS), where
        assert roles[-1] in ("user", "tool"), where
        assert "user" in roles, where
        assert "system" not in roles[1:], where
        for message in row["messages"]:
            assert set(message) <= MESSAGE_KEYS[message["role"]], where
            content = message.get("content")
            if message["role"] == "assistant" and message.get("tool_calls"):
                assert content is None or isinstance(content, str), where
            else:
                assert isinstance(content, str), where
                assert content.strip(), where


def test_tool_schemas(rows, category):
    for number, row in enumerate(rows, 1):
        where = f"{category}:{number}"
        names = []
        for tool in row.get("tools", []):
            assert set(tool) == {"type", "function"}, where
            assert tool["type"] == "function", where
            function = tool["function"]
            assert set(function) <= {"name", "description", "parameters", "strict"}, where
            assert isinstance(function["name"], str), where
            assert function["name"], where
            assert isinstance(function.get("description", ""), str), where
            parameters = function["parameters"]
            Draft202012Validator.check_schema(parameters)
            assert parameters["type"] == "object", where
            assert set(parameters.get("required", [])) <= set(parameters.get("properties", {})), (
                where
            )
            names.append(function["name"])
        assert len(names) == len(set(names)), f"{where}: two tools of one name"


def test_tool_calls(rows, category):
    for number, row in enumerate(rows, 1):
        where = f"{category}:{number}"
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in row.get("tools", [])}
        open_calls: dict[str, str] = {}
        seen: set[str] = set()
        for message in row["messages"]:
            if message["role"] == "tool":
                call_id = message["tool_call_id"]
                assert call_id in open_calls, f"{where}: no open call {call_id}"
                name = open_calls.pop(call_id)
                assert message.get("name", name) == name, where
                continue
            assert not open_calls, f"{where}: a call without its result"
            for call in message.get("tool_calls") or []:
                assert call["type"] == "function", where
                assert call["id"] not in seen, f"{where}: call id used twice"
                seen.add(call["id"])
                name = call["function"]["name"]
                assert name in schemas, f"{where}: unknown tool {name}"
                arguments = call["function"]["arguments"]
                if isinstance(arguments, str):  # data sets hold both forms
                    arguments = json.loads(arguments)
                Draft202012Validator(schemas[name]).validate(arguments)
                open_calls[call["id"]] = name
        assert not open_calls, f"{where}: a call without its result"


def test_prompts_are_unique():
    texts = Counter()
    for category in CATEGORIES:
        if not (PROMPTS / f"{category}.jsonl").is_file():
            continue  # test_enough_rows fails for it
        for row in load(category):
            users = [m["content"].strip() for m in row["messages"] if m["role"] == "user"]
            texts["\n".join(users)] += 1
    assert texts
    assert [text for text, count in texts.items() if count > 1] == []
