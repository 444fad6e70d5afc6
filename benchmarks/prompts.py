"""What prompts cost: reading, adapting and rendering each, and planning a million of them.

    .venv/bin/python benchmarks/prompts.py [--rows 4000] [--plan 1000000]

Prints prompts per second and core for each shape with the bundled (fast) tokenizer on chat-sized
prompts, beside `datasets.map` with `apply_chat_template`, which a user would write instead; then
the time and the peak memory of planning, for two sizes: flat means that the second is not much
above the first.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra import compose, initialize_config_dir

from runner.cli import CONF
from runner.config import Config, parse
from runner.model import RunModel
from runner.plan import Limits, make_plan
from runner.plugins import register_schema
from runner.resolve import Resolved

WORDS = ["tide", "table", "of", "a", "small", "harbour", "shows", "when", "boats", "may", "leave"]


def text(seed: int, words: int) -> str:
    return " ".join(WORDS[(seed * 7 + i * (seed % 5 + 1)) % len(WORDS)] for i in range(words))


def chat_row(i: int) -> dict[str, object]:
    turns = [("user", 60), ("assistant", 120), ("user", 30), ("assistant", 90)]
    return {"messages": [{"role": r, "content": f"{i} {text(i, n)}"} for r, n in turns]}


def glaive_row(i: int) -> dict[str, object]:
    schema = {"name": "tide", "parameters": {"type": "object", "properties": {}}}
    system = "SYSTEM: You are a helpful assistant with access to the following functions. "
    system += f"Use them if required -\n{json.dumps(schema)}"
    call = '<functioncall> {"name": "tide", "arguments": \'{"at": "Hull"}\'} <|endoftext|>'
    chat = f"USER: {i} {text(i, 60)}\n\n\nASSISTANT: {call}\n\n\nFUNCTION RESPONSE: {text(i, 20)}"
    return {"system": system, "chat": f"{chat}\n\n\nASSISTANT: {text(i, 40)} <|endoftext|>"}


SHAPES = {"messages": chat_row, "glaive": glaive_row}


def config(path: Path, outputs: Path, *overrides: str) -> Config:
    register_schema()
    with initialize_config_dir(CONF, version_base="1.3"):
        chosen = [f"source.path={path}", "source=file", f"paths.outputs={outputs}", *overrides]
        return parse(compose("config", overrides=["tracking=none", "server=external",
                                                  "server.urls=[http://127.0.0.1:9]",
                                                  "server.engine=sglang", *chosen]))  # fmt: skip


def plan(chosen: Config) -> tuple[float, float]:
    """Seconds, and seconds of CPU, that planning takes once the model is loaded."""
    resolved = Resolved(chosen, [])
    model = RunModel(chosen, resolved.model)
    start, cpu = time.perf_counter(), time.process_time()
    make_plan(
        resolved.run,
        chosen,
        resolved.parts,
        render=model.ahead,
        limits=Limits(context_length=chosen.model.context_length, max_new_tokens=256),
        exclusion=resolved.exclusion,
    )
    took = time.perf_counter() - start, time.process_time() - cpu
    model.close()
    return took


def write(path: Path, shape: str, rows: int) -> None:
    with path.open("w") as file:
        for i in range(rows):
            file.write(json.dumps(SHAPES[shape](i)) + "\n")


def shapes(folder: Path, rows: int) -> None:
    for shape in SHAPES:
        path = folder / f"{shape}.jsonl"
        write(path, shape, rows)
        took, cpu = plan(config(path, folder / "out"))
        print(f"{shape:10} {rows / took:8,.0f} prompts/s   {rows / cpu:8,.0f} a second of CPU")


def beside_datasets(folder: Path, rows: int) -> None:
    import datasets

    from runner.modelfiles import ASSETS
    from runner.render import load_tokenizer

    inner = load_tokenizer(ASSETS / "tiny_reasoner")._inner
    datasets.disable_progress_bars()
    cpu = time.process_time()
    found = datasets.load_dataset(
        "json", data_files=str(folder / "messages.jsonl"), split="train", cache_dir=str(folder)
    )
    found.map(
        lambda row: {
            "ids": inner.apply_chat_template(
                row["messages"][:3], add_generation_prompt=True, return_dict=False
            )
        }
    )
    cpu = time.process_time() - cpu
    print(f"{'datasets':10} {'':8}               {rows / cpu:8,.0f} a second of CPU (map)")


def memory(rows: int) -> None:
    """In a process of its own: peak memory is a process's, and never falls."""
    done = subprocess.run([sys.executable, __file__, "--child", str(rows)], capture_output=True)
    print(done.stdout.decode().strip() or done.stderr.decode())


def child(rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "short.jsonl"
        with path.open("w") as file:
            for i in range(rows):
                file.write(f'{{"messages":[{{"role":"user","content":"{i} + {i}?"}}]}}\n')
        took, _ = plan(config(path, Path(name) / "out"))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"plan {rows:9,} short prompts: {took:6.1f} s, peak memory {peak_mb:,.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--plan", type=int, default=1_000_000)
    parser.add_argument("--child", type=int)
    chosen = parser.parse_args()
    if chosen.child is not None:
        child(chosen.child)
        return
    with tempfile.TemporaryDirectory() as name:
        shapes(Path(name), chosen.rows)
        beside_datasets(Path(name), chosen.rows)
    for rows in (chosen.plan // 20, chosen.plan):
        memory(rows)


if __name__ == "__main__":
    main()
