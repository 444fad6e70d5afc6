"""Rows in the exact column schema of the data sets that conf/category names. All text is ours."""

from typing import Any

_SYSTEM = (
    "SYSTEM: You are a helpful assistant with access to the following functions. Use them if "
    'required -\n{\n    "name": "get_tide",\n    "description": "High water of a harbour",\n'
    '    "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}},'
    ' "required": ["harbour"]}\n}\n\n{"name": "convert", "description": "Metres to feet",'
    ' "parameters": {"type": "object", "properties": {"metres": {"type": "number"}}}}\n'
)
GLAIVE = [
    {
        "system": _SYSTEM,
        "chat": "USER: When is high water in Whitby?\n\n\nASSISTANT: <functioncall> "
        '{"name": "get_tide", "arguments": \'{"harbour": "Whitby"}\'} <|endoftext|>\n\n\n'
        'FUNCTION RESPONSE: {"time": "14:20", "metres": 5.1}\n\n\nASSISTANT: At 14:20, 5.1 metres.'
        " <|endoftext|>\n\n\nUSER: And in feet?\n\n\nASSISTANT: <functioncall> "
        '{"name": "convert", "arguments": \'{"metres": 5.1}\'} <|endoftext|>\n\n\n'
        'FUNCTION RESPONSE: {"feet": 16.7}\n\n\nASSISTANT: About 16.7 feet. <|endoftext|>',
    },
    {
        "system": "SYSTEM: You are a helpful assistant, with no access to external functions.",
        "chat": "USER: Name three rivers.\n\n\nASSISTANT: Oder, Ebro, Tay. <|endoftext|>",
    },
]
OPENCODE = [
    {
        "id": f"{i:032x}",
        "input": f"Write a function that adds {i} to each item of a list.",
        "output": "def add(xs): ...",
        "domain": "generic",
        "generation_algorithm": "self-instruct",
        "llm_judgement": "{}",
        "unit_tests": '["assert add([1]) == [2]"]',
        "tests_execution_status": '["pass"]',
        "average_test_score": f"{i / 10}",
    }
    for i in range(1, 7)
]
MAGICODER = [
    {"instruction": f"Rewrite loop {i} without recursion.", "response": "for ..."} for i in range(4)
]
THOUGHTS = [
    {
        "messages": [
            {"role": "user", "content": f"What is {i} squared?"},
            {"role": "assistant", "content": f"<think>\n{i} times {i}\n</think>\n\n{i * i}"},
        ],
        "num_tokens": 40 + i,
        "source": "open-r1/OpenR1-Math-220k",
    }
    for i in range(5)
]
OPEN_THOUGHTS = [
    {
        "system": "Your role as an assistant involves exploring questions in a long thought.",
        "conversations": [
            {"from": "user", "value": f"Is {i} prime?"},
            {
                "from": "assistant",
                "value": "<|begin_of_thought|>\nhm\n<|end_of_thought|>\n\n"
                "<|begin_of_solution|>\nno\n<|end_of_solution|>",
            },
        ],
    }
    for i in range(4)
]
ULTRACHAT = [
    {
        "prompt": f"Tell me about lighthouse {i}.",
        "prompt_id": f"{i:064x}",
        "messages": [
            {"content": f"Tell me about lighthouse {i}.", "role": "user"},
            {"content": "It is tall.", "role": "assistant"},
            {"content": "How tall?", "role": "user"},
            {"content": "Forty metres.", "role": "assistant"},
        ],
    }
    for i in range(3)
]
SHAREGPT = [
    {
        "id": f"abc{i}_0",
        "conversations": [
            {"from": "human", "value": f"fix my sentence no {i} pls"},
            {"from": "gpt", "value": "Fixed."},
        ],
    }
    for i in range(3)
] + [{"id": "piece_9", "conversations": [{"from": "gpt", "value": "…and so on."}]}]
_STEP: dict[str, Any] = {"cutoff_date": "01.01.2023", "mask": False, "system_prompt": None}
TRAJECTORIES = [
    {
        "instance_id": f"tidecalc__tidecalc-{i}",
        "model_name": "swe-agent-llama-70b",
        "target": i % 2 == 0,
        "trajectory": [
            {**_STEP, "role": "system", "text": None, "system_prompt": "SETTING: a shell."},
            {**_STEP, "role": "user", "text": f"Issue {i}: the tide table is empty."},
            {**_STEP, "role": "ai", "text": "Let me look.\n```\nls\n```", "mask": True},
            {**_STEP, "role": "user", "text": "tidecalc  tests"},
            {**_STEP, "role": "ai", "text": "Submit.\n```\nsubmit\n```", "mask": True},
        ],
        "exit_status": "submitted",
        "generated_patch": "diff --git a b",
        "eval_logs": "",
    }
    for i in range(3)
]
BY_CATEGORY: dict[str, list[dict[str, Any]]] = {
    "B1": GLAIVE,
    "B2": OPENCODE,
    "B3": MAGICODER,
    "B4": THOUGHTS,
    "B5": OPEN_THOUGHTS,
    "B6": ULTRACHAT,
    "B7": SHAREGPT,
    "B8": TRAJECTORIES,
}
"""A few rows for each category's data set."""

HERMES = [
    {
        "id": "h1",
        "conversations": [
            {"from": "system", "value": "You call functions."},
            {"from": "human", "value": "Tides in Hull and Deal?"},
            {
                "from": "gpt",
                "value": '<tool_call>\n{"name": "tide", "arguments": {"at": "Hull"}}\n</tool_call>'
                '<tool_call>\n{"name": "tide", "arguments": {"at": "Deal"}}\n</tool_call>',
            },
            {
                "from": "tool",
                "value": "<tool_response>\n7:00\n</tool_response>\n"
                "<tool_response>\n9:00\n</tool_response>",
            },
            {"from": "gpt", "value": "7:00 and 9:00."},
        ],
        "tools": '[{"type": "function", "function": {"name": "tide", "parameters": {}}}]',
    }
]
