"""Tool calls: grammar, call ids, JSON, known tools, arguments against the declared schema.

Covers: calls in the grammar of the model's family (docs/validators.md lists them); markers that do
not pair up; call ids and their counter through the conversation; arguments that are no JSON; tools
that were not offered; arguments that break the tool's own JSON schema; markers that were spelt out
as plain text. The score is the share of an output's calls that parse, name a known tool and satisfy
its schema, weighted by the number of calls: over a run that is the schema accuracy as
K2-Vendor-Verifier counts it.
Does not cover: whether the call is a sensible one; tools whose declared schema is broken itself
(any JSON object passes there); a call that a length limit cut.

Reasons
    unbalanced      flag  call or section markers in a wrong order, or left open at a stop
    spelt_out       flag  a marker written as ordinary text
    bad_call_id     flag  no name where the grammar has one
    wrong_counter   flag  the call id's counter does not go on from the conversation
    bad_json        flag  arguments that are not JSON
    unknown_tool    flag  a tool that the prompt does not offer
    schema          flag  arguments that the tool's schema refuses

Example: of 1,200 calls of a Kimi-K2 deployment only 218 could be parsed, since the server read the
ids by a stricter pattern than the model was trained on; on the raw ids it could be shown.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jsonschema
import referencing
import referencing.exceptions
from jsonschema.protocols import Validator as SchemaValidator

from runner.records import Kind, Outcome, Prompt, Sample, SampleContext, Severity, Verdict
from validators.call_grammars import read_calls
from validators.calls import Call, Calls

_SPELT = (
    "<|tool_call",
    "<tool_call>",
    "</tool_call>",
    "<minimax:tool_call>",
    "<\uff5ctool\u2581call",
    "<|python_tag|>",
    "\uff5cDSML\uff5c",
)
_NO_NETWORK: referencing.Registry[Any] = referencing.Registry()


class ToolCalls:
    """See the module."""

    reasons: ClassVar[Mapping[str, Severity]] = {
        "unbalanced": Severity.FLAG,
        "spelt_out": Severity.FLAG,
        "bad_call_id": Severity.FLAG,
        "wrong_counter": Severity.FLAG,
        "bad_json": Severity.FLAG,
        "unknown_tool": Severity.FLAG,
        "schema": Severity.FLAG,
    }

    def check(self, sample: Sample, context: SampleContext) -> Verdict:
        """One verdict; the first reason that applies, in the order above. Skip without calls."""
        decode, prompt = context.decode, context.prompt
        if decode is None:
            return Verdict(outcome=Outcome.SKIP)
        calls = read_calls(
            sample.output_ids,
            context.specials,
            context.segments,
            context.profile,
            decode,
            offered=prompt is not None and bool(prompt.tools),
            cut=sample.finish == "length",
        )
        if calls is None:
            return _spelt_out(sample, context)
        cut = calls.open and sample.finish == "length"
        if not calls.calls and cut and not calls.broken:
            return Verdict(outcome=Outcome.SKIP)
        faults = [_fault(call, prompt) for call in calls.calls]
        bad = [f for f in faults if f[0]]
        total = len(faults) + bool(calls.broken)
        score = (len(faults) - len(bad)) / total if total else None
        reason, detail = _first_reason(calls, bad, prompt, cut=cut)
        return Verdict(
            outcome=Outcome.FAIL if reason else Outcome.PASS,
            reason=reason,
            score=score,
            weight=max(1, total),
            detail=detail,
        )


def _first_reason(
    calls: Calls, bad: list[tuple[str, str]], prompt: Prompt | None, *, cut: bool
) -> tuple[str, str]:
    if calls.broken:
        return "unbalanced", calls.broken
    if calls.open and not cut:
        return "unbalanced", "left open at the end"
    order = list(ToolCalls.reasons)
    wrong_counter = _wrong_counter(calls, prompt)
    found = sorted(
        [*bad, *([wrong_counter] if wrong_counter else [])], key=lambda f: order.index(f[0])
    )
    return found[0] if found else ("", "")


def _spelt_out(sample: Sample, context: SampleContext) -> Verdict:
    """An output without calls: were markers written as text, where tools were offered?"""
    decode, prompt = context.decode, context.prompt
    if decode is None or prompt is None or not prompt.tools:
        return Verdict(outcome=Outcome.SKIP)
    for kind, start, end in context.segments:
        if kind is Kind.ANSWER:
            text = decode(sample.output_ids[start:end])
            mark = next((mark for mark in _SPELT if mark in text), None)
            if mark is not None:
                return Verdict(
                    outcome=Outcome.FAIL, reason="spelt_out", score=0.0, detail=f"{mark} as text"
                )
    return Verdict(outcome=Outcome.SKIP)


def _wrong_counter(calls: Calls, prompt: Prompt | None) -> tuple[str, str] | None:
    """Kimi's ids count all calls of the conversation, from 0."""
    if prompt is None or any(call.index < 0 for call in calls.calls):
        return None
    before = sum(len(message.get("tool_calls") or ()) for message in prompt.messages)
    got = [call.index for call in calls.calls]
    wanted = list(range(before, before + len(got)))
    return None if got == wanted else ("wrong_counter", f"{got}, expected {wanted}")


def _fault(call: Call, prompt: Prompt | None) -> tuple[str, str]:
    """(reason, detail) of what is wrong with one call by itself, ("", "") for nothing."""
    if call.fault:
        return call.fault, call.detail
    if prompt is None:
        return "", ""
    declared = {tool["function"]["name"]: tool["function"] for tool in prompt.tools}
    if call.name not in declared:
        return "unknown_tool", f"{call.name!r}; offered: {', '.join(declared) or 'none'}"[:200]
    schema = declared[call.name].get("parameters") or {}
    arguments = call.arguments if call.typed else _typed(call.arguments, schema)
    if not isinstance(arguments, dict):
        return "schema", f"{call.name}: arguments are {type(arguments).__name__}, not an object"
    return _against(call.name, arguments, schema)


def _against(name: str, arguments: dict[str, Any], schema: Any) -> tuple[str, str]:
    checker = _checker(json.dumps(schema, sort_keys=True))
    try:
        error = next(iter(checker.iter_errors(arguments)), None) if checker is not None else None
    except (referencing.exceptions.Unresolvable, re.error, RecursionError):
        return "", ""  # the declared schema is broken, not the call
    if error is None:
        return "", ""
    where = "/".join(map(str, error.absolute_path)) or "arguments"
    return "schema", f"{name}: {where}: {error.message}"[:200]


@lru_cache(maxsize=512)
def _checker(schema_json: str) -> SchemaValidator | None:
    """The compiled schema, None for one that is broken itself. Compiling costs milliseconds."""
    schema = json.loads(schema_json)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError:
        return None
    checker: SchemaValidator = kind(schema, registry=_NO_NETWORK)
    return checker


def _typed(arguments: Mapping[str, str], schema: Any) -> dict[str, Any]:
    """Texts of an XML form as the types that the schema declares; text where that fails."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    declared = properties if isinstance(properties, Mapping) else {}
    return {key: _value(text, declared.get(key)) for key, text in arguments.items()}


def _value(text: str, schema: Any) -> Any:
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
