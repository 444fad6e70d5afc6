"""`python -m runner.doctor model=... server=...`: checks a box before the job.

One line for each check, passed, failed or unknown, with what to do. The order is that of a launch:
what is cheap comes first, and what needs a server is skipped when there is none. Nothing is stored
but the server's log. Exit 0 when nothing failed, 3 when an answer was wrong, else 1.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from runner.cli import enter
from runner.config import Config, ServerKind
from runner.engines.base import Engine, EngineFault, EngineInfo
from runner.engines.opening import open_engine
from runner.errors import BadAnswers, MachineError, RunnerError
from runner.flow import first_in_flight, most_in_flight
from runner.model import RunModel
from runner.modelfiles import ModelFiles, find_model
from runner.records import NOT_TOLD, Completion, Record, SamplingParams
from runner.resolve import model_facts
from runner.serverfacts import environment, gpus
from runner.servers.base import Server, open_server
from runner.servers.flags import check_flags
from runner.servers.ladder import spelled

GOLDEN = ("Hi", "Grüße, 世界! 👋🏽 \t x=1\n", "one two three " * 40)
"""Prompts whose ids the server must echo: short, not ASCII, long enough for the prefix cache."""
ANSWER_TOKENS = 64
SPEED_TOKENS = 64


class Result(StrEnum):
    """What a check found. `UNKNOWN`: it could not be found out, which is no failure."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Check(Record, frozen=True, kw_only=True):
    """One line of the doctor's report. `answers`: a failure is the answers' fault (exit 3)."""

    name: str
    result: Result
    found: str
    advice: str = ""
    answers: bool = False

    def __str__(self) -> str:
        line = f"{self.result.value:<8} {self.name:<12} {self.found}"
        return f"{line}\n{'':<22}-> {self.advice}" if self.advice else line


def main() -> None:
    """The command."""
    enter(examine)


def examine(config: Config) -> int:
    """Do all checks, print each as it comes, give the exit code."""
    return asyncio.run(_examine(config))


async def _examine(config: Config) -> int:
    checks = []
    async for check in _checks(config):
        sys.stdout.write(f"{check}\n")
        sys.stdout.flush()
        checks.append(check)
    failed = [check for check in checks if check.result is Result.FAILED]
    unknown = sum(check.result is Result.UNKNOWN for check in checks)
    passed = len(checks) - len(failed) - unknown
    sys.stdout.write(f"\n{passed} passed, {len(failed)} failed, {unknown} unknown\n")
    return exit_code(failed)


def exit_code(failed: list[Check]) -> int:
    """0 for none; 3 when an answer was wrong, else 1."""
    if not failed:
        return 0
    wrong = any(check.answers for check in failed)
    return BadAnswers.exit_code if wrong else MachineError.exit_code


async def _checks(config: Config) -> AsyncIterator[Check]:
    for check in machine_checks(config):
        yield check
    yield _attempted("flags", lambda: _flags(config))
    models: list[RunModel] = []
    yield _attempted("tokenizer", lambda: _tokenizer(config, models))
    if not models:
        return
    files = find_model(config.model)
    with tempfile.TemporaryDirectory(prefix="rawtok-doctor-") as folder:
        server = open_server(config.server, model_facts(config, files), launches_dir=Path(folder))
        try:
            start = time.monotonic()
            await server.start()
            yield _passed("server", f"ready after {time.monotonic() - start:.0f} s")
            async for check in _server_checks(config, models[0], server):
                yield check
        except RunnerError as error:
            yield _failed("server", f"{error.what}: {error.found}", error.next_step)
        finally:
            await server.stop()


def machine_checks(config: Config) -> Iterator[Check]:
    """The interpreter of the server, the GPUs against the flags, memory and disk."""
    python = config.server.python or sys.executable
    if config.server.kind is ServerKind.sglang and config.server.command is None:
        yield environment_check(python, environment(python))
    if config.server.kind is ServerKind.sglang:
        yield gpu_check(config.server.flags, gpus())
    free = psutil.disk_usage(str(_existing(Path(config.paths.outputs)))).free / 2**30
    advice = "" if free >= 5 else "choose another paths.outputs; a million samples are about 5 GB"
    yield Check(
        name="disk",
        result=Result.PASSED if free >= 5 else Result.FAILED,
        found=f"{free:.0f} GiB free for {config.paths.outputs}",
        advice=advice,
    )


def environment_check(python: str, about: dict[str, Any]) -> Check:
    """Whether the server's interpreter runs and has SGLang."""
    if not about:
        return _failed("environment", f"{python} does not run", "check server.python")
    version = about["packages"].get("sglang")
    if version is None:
        return _failed(
            "environment",
            f"{python} has no sglang",
            "server.python=/path/to/the/environment/with/sglang/bin/python",
        )
    return _passed("environment", f"sglang {version}, Python {about['python']} ({python})")


def gpu_check(flags: dict[str, Any], found: list[dict[str, str]]) -> Check:
    """Whether there are as many GPUs as the flags ask for."""
    named = {spelled(name): value for name, value in flags.items()}
    if named.get("device") == "cpu":
        return _passed("gpus", "none needed (device: cpu)")
    wanted = 1
    for names in (("tp", "tp-size", "tensor-parallel-size"), ("dp", "dp-size"), ("pp", "pp-size")):
        wanted *= int(next((named[name] for name in names if named.get(name)), 1))
    if not found:
        return Check(
            name="gpus",
            result=Result.UNKNOWN,
            found="nvidia-smi tells of none",
            advice="on other accelerators this is no news; else check the driver",
        )
    text = f"{len(found)} x {found[0]['name']} ({found[0]['memory.total']}), {wanted} wanted"
    if len(found) >= wanted:
        return _passed("gpus", text)
    return _failed("gpus", text, "lower server.flags.tp or dp, or use a bigger machine")


def _flags(config: Config) -> Check:
    if config.server.kind is not ServerKind.sglang:
        return _passed("flags", "checked by the server itself")
    if check_flags(config.server):
        return _passed("flags", f"all {len(config.server.flags)} are known to the server")
    return Check(name="flags", result=Result.UNKNOWN, found="the server's --help cannot be had")


def _tokenizer(config: Config, models: list[RunModel]) -> Check:
    files: ModelFiles = find_model(config.model)
    model = RunModel(config, files)
    models.append(model)
    modes = ", ".join(f"{name}: {mode.think}" for name, mode in model.profile.modes.items())
    return _passed(
        "tokenizer",
        f"{model.profile.vocab_assigned} ids, stops {model.profile.stop_ids}, think {modes}; "
        f"{len(config.model.hints)} hints agree",
    )


async def _server_checks(config: Config, model: RunModel, server: Server) -> AsyncIterator[Check]:
    for endpoint in server.endpoints:
        engine = open_engine(
            config.server.engine.value,
            endpoint,
            vocab_size=model.profile.vocab_padded,
            max_connections=most_in_flight(config.client) + 4,
        )
        try:
            yield limits_check(config, await engine.info())
            yield await _golden(engine, model)
            for mode in config.model.modes:
                yield await _answer(engine, model, mode)
            yield await _speed(engine, model, first_in_flight(config.client))
        except EngineFault as fault:
            yield _failed("answers", f"{endpoint.name}: {fault}", "look at the server's log")
        finally:
            await engine.close()


def limits_check(config: Config, info: EngineInfo) -> Check:
    """Whether the server holds what the config promises to its prompts."""
    wanted, told = config.model.context_length, info.context_length
    text = f"version {info.version or 'not told'}, context {told}, configured {wanted}"
    if told == NOT_TOLD:
        return Check(name="limits", result=Result.UNKNOWN, found=text)
    if told < wanted:
        return _failed("limits", text, f"model.context_length={told}")
    return _passed("limits", text)


async def _golden(engine: Engine, model: RunModel) -> Check:
    """Our ids against the server's echo of them: both must be about the same tokens."""
    echoes = []
    for number, text in enumerate(GOLDEN):
        ids = model.tokenizer.render(
            [{"role": "user", "content": text}], [], model.mode.template_kwargs
        )
        answer = await engine.generate(f"doctor-golden-{number}", ids, _sampling(model, 1))
        echoes.append(answer.prompt_echo)
    if all(echo == "same" for echo in echoes):
        return _passed("golden ids", f"the server echoed {len(echoes)} prompts unchanged")
    return Check(
        name="golden ids",
        result=Result.UNKNOWN,
        found="the server does not echo prompts; it counts them right",
    )


async def _answer(engine: Engine, model: RunModel, mode: str) -> Check:
    """One answer in a mode, its ids all assigned."""
    kwargs = model.profile.modes[mode].template_kwargs
    ids = model.tokenizer.render([{"role": "user", "content": "What is 12 + 30?"}], [], kwargs)
    answer = await engine.generate(f"doctor-mode-{mode}", ids, _sampling(model, ANSWER_TOKENS))
    strange = unassigned(answer, model.profile.assigned)
    if strange:
        return Check(
            name=f"mode {mode}",
            result=Result.FAILED,
            found=f"ids that no token has: {strange[:5]}",
            advice="the server's weights or kernels are wrong; do not start the job",
            answers=True,
        )
    text = model.tokenizer.decode(answer.output_ids).replace("\n", " ")
    return _passed(f"mode {mode}", f"{answer.finish} after {answer.completion_tokens}: {text[:60]}")


def unassigned(answer: Completion, assigned: list[tuple[int, int]]) -> list[int]:
    """Output ids that the tokenizer gives no token."""
    return [i for i in answer.output_ids if not any(start <= i < end for start, end in assigned)]


async def _speed(engine: Engine, model: RunModel, concurrency: int) -> Check:
    """Output tokens per second with as many requests as a run would have in flight."""
    sampling = _sampling(model, SPEED_TOKENS, ignore_eos=True)
    start = time.monotonic()
    answers = await asyncio.gather(
        *(
            engine.generate(f"doctor-speed-{i}", model.probe_ids(), sampling)
            for i in range(concurrency)
        )
    )
    tokens = sum(answer.completion_tokens for answer in answers)
    rate = tokens / (time.monotonic() - start)
    return _passed(
        "throughput",
        f"about {rate:,.0f} output tokens/s at {concurrency} in flight (short prompts, one burst)",
    )


def _sampling(model: RunModel, max_new_tokens: int, *, ignore_eos: bool = False) -> SamplingParams:
    from msgspec.structs import replace

    return replace(
        model.sampling, max_new_tokens=max_new_tokens, min_new_tokens=0, ignore_eos=ignore_eos
    )


def _attempted(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except RunnerError as error:
        found = " ".join(part for part in (error.what, error.found) if part)
        return _failed(name, found, error.next_step or error.allowed)


def _passed(name: str, found: str) -> Check:
    return Check(name=name, result=Result.PASSED, found=found)


def _failed(name: str, found: str, advice: str) -> Check:
    return Check(name=name, result=Result.FAILED, found=found, advice=advice)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


if __name__ == "__main__":
    main()
