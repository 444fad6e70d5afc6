"""A row of one shape to messages, tools and a reference answer. One function for each shape.

Each takes the row and the columns to read (`runner.prompts.adapt` says which), and gives a
conversation that still holds the assistant turns; the turn policy cuts it afterwards. Raises
RowFault for what is ill-formed; glaive and trajectories have modules of their own.
"""

from typing import Any

from runner.prompts.cells import Columns, Row, cell, json_cell, list_cell, text_cell
from runner.prompts.shape import Conversation, RowFault
from runner.prompts.tooltext import (
    calls_of,
    count_calls,
    last_call_ids,
    tagged_answers,
    tagged_calls,
    tools_of,
)
from runner.prompts.turns import split_reasoning

_OPENAI_ROLES = {"developer": "system", "function": "tool"}
_KEPT = ("name", "tool_call_id")

_SPEAKERS = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bing", "bard"), "assistant"),
    "system": "system",
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(
        ("tool", "function", "observation", "tool_response", "function_response"), "tool"
    ),
}
"""ShareGPT's `from` in its dialects: Vicuna, LLaMA-Factory (function_call, observation), Hermes
(tool)."""


def answer_of(row: Row, columns: Columns) -> str:
    """The reference answer; "" when there is none."""
    value = cell(row, columns, "answer")
    return value if isinstance(value, str) else "" if value is None else str(value)


def from_messages(row: Row, columns: Columns) -> Conversation:
    """OpenAI's `messages`, with `tools`, `tool_calls`, `reasoning_content`; also as JSON strings.
    `developer` is a system turn, `function` a tool turn, `function_call` one tool call."""
    messages: list[dict[str, Any]] = []
    if text := text_cell(row, columns, "system", required=False):
        messages.append({"role": "system", "content": text})
    for position, raw in enumerate(list_cell(row, columns, "messages")):
        messages.append(_message(raw, position, messages))
    tools = tools_of(cell(row, columns, "tools"))
    return Conversation(messages=messages, tools=tools, answer=answer_of(row, columns))


def _message(raw: Any, position: int, before: list[dict[str, Any]]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise RowFault("bad_message", f"message {position} is no object")
    role = raw.get("role")
    role = _OPENAI_ROLES.get(role, role) if isinstance(role, str) else role
    message: dict[str, Any] = {"role": role, "content": _content(raw.get("content"), position)}
    calls = raw.get("tool_calls") or raw.get("function_call")
    if role == "assistant":
        _add_reasoning(message, raw)
        if calls:
            message["tool_calls"] = calls_of(calls, count_calls(before))
    message.update({key: raw[key] for key in _KEPT if isinstance(raw.get(key), str) and raw[key]})
    return message


def _content(content: Any, position: int) -> Any:
    """Text parts joined into one text; a part that is no text is a fault, not left out."""
    if not isinstance(content, list):
        return content
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise RowFault("bad_content", f"message {position} has parts that are no text")
    return "".join(texts)


def _add_reasoning(message: dict[str, Any], raw: dict[str, Any]) -> None:
    reasoning = raw.get("reasoning_content")
    if not isinstance(reasoning, str) and isinstance(message["content"], str):
        reasoning, message["content"] = split_reasoning(message["content"])
    if reasoning:
        message["reasoning_content"] = reasoning


def from_sharegpt(row: Row, columns: Columns) -> Conversation:
    """`conversations` of {from, value} in the known dialects, with `system` and `tools` columns.
    Hermes' <tool_call> and <tool_response> tags become calls and tool turns."""
    messages: list[dict[str, Any]] = []
    if text := text_cell(row, columns, "system", required=False):
        messages.append({"role": "system", "content": text})
    for position, turn in enumerate(list_cell(row, columns, "conversations")):
        _add_turn(messages, turn, position)
    tools = tools_of(json_cell(row, columns, "tools"))
    return Conversation(messages=messages, tools=tools, answer=answer_of(row, columns))


def _add_turn(messages: list[dict[str, Any]], turn: Any, position: int) -> None:
    if not isinstance(turn, dict):
        raise RowFault("bad_message", f"turn {position} is no object")
    speaker = turn.get("from", turn.get("role"))
    role = _SPEAKERS.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        raise RowFault("unknown_role", f"turn {position} is from {speaker!r:.60}")
    value = turn.get("value", turn.get("content"))
    if not isinstance(value, str):
        raise RowFault("null_content", f"turn {position} ({speaker}) holds no text")
    if role == "call":
        calls = calls_of(value, count_calls(messages))
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    elif role == "assistant":
        messages.append(_assistant(value, messages))
    elif role == "tool":
        messages.extend(_tool_turns(value, messages))
    else:
        messages.append({"role": role, "content": value})


def _assistant(value: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    reasoning, text = split_reasoning(value)
    text, calls = tagged_calls(text, count_calls(before))
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_turns(value: str, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One tool turn for each answer, tied to the calls that are still open, in order."""
    answers, open_ids = tagged_answers(value), last_call_ids(before)
    turns: list[dict[str, Any]] = []
    for answer in answers:
        turn = {"role": "tool", "content": answer}
        if open_ids:
            turn["tool_call_id"] = open_ids.pop(0)
        turns.append(turn)
    return turns


def from_instruction(row: Row, columns: Columns) -> Conversation:
    """instruction, with an optional `input` below it (Alpaca); `answer` when it is configured."""
    instruction = text_cell(row, columns, "instruction")
    below = text_cell(row, columns, "input", required=False)
    asked = f"{instruction}\n\n{below}" if below.strip() else instruction
    return _single(row, columns, asked)


def from_prompt(row: Row, columns: Columns) -> Conversation:
    """One text that asks: prompt/response, question/answer, problem/answer, input/output."""
    return _single(row, columns, text_cell(row, columns, "prompt"))


def _single(row: Row, columns: Columns, asked: str) -> Conversation:
    messages = [{"role": "user", "content": asked}]
    if text := text_cell(row, columns, "system", required=False):
        messages.insert(0, {"role": "system", "content": text})
    tools = tools_of(cell(row, columns, "tools"))
    return Conversation(messages=messages, tools=tools, answer=answer_of(row, columns))


def from_trajectory(row: Row, columns: Columns) -> Conversation:
    """A SWE-agent trajectory: [{role, text, system_prompt}], role system, user or ai. Its tool use
    is text in the turns (commands in fenced blocks), and stays text."""
    messages = []
    for position, step in enumerate(list_cell(row, columns, "trajectory")):
        if not isinstance(step, dict):
            raise RowFault("bad_message", f"step {position} is no object")
        messages.append(_step(step, position))
    return Conversation(messages=messages, answer=answer_of(row, columns))


def _step(step: dict[str, Any], position: int) -> dict[str, Any]:
    role = "assistant" if step.get("role") == "ai" else step.get("role")
    text = step.get("content") if step.get("text") is None else step["text"]
    if role == "system":
        text = step.get("system_prompt") or text
    if isinstance(text, list):
        text = _content(text, position)
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant" and isinstance(text, str):
        _add_reasoning(message, step)
    return message
