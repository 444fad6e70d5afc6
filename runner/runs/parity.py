"""`parity`: the same prompts through the chat API, and what it dropped or moved."""

import argparse
import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import msgspec
from rich.console import Console

from runner.engines.base import EngineFault
from runner.engines.chat import ChatApi
from runner.engines.sglang import SglangEngine
from runner.errors import ConfigError, ServerError
from runner.ledger import read_samples
from runner.parity import Parity, compare
from runner.promptfinder import PromptFinder
from runner.records import ModeProfile, Prompt, Sample, SamplingParams, TokenProfile
from runner.rejudge import read_settings
from runner.render import Tokenizer, load_tokenizer
from runner.rundir import RunDir
from runner.runs.command import Command, add_json, add_run, at_least
from runner.runs.opening import open_run
from runner.runs.screen import say, say_json
from runner.servers.base import Endpoint
from runner.servers.external import parse_urls
from runner.servers.llamacpp_main import API_KEY_ENV
from runner.view.escape import safe, safe_line
from runner.view.figures import plural

SHOWN_CHARS = 400


def run_parity(arguments: argparse.Namespace, screen: Console) -> int:
    """The command: 0 when every answer is the same both ways, 1 when some are not."""
    run = open_run(arguments.run, arguments.outputs)
    chosen = list(islice(_with_prompts(run), arguments.n))
    if not chosen:
        raise ConfigError("The run has no samples yet.", where="RUN", found=str(run.path))
    url = arguments.url or _url(chosen[0][0])
    (endpoint,) = parse_urls([url], api_key=os.environ.get(API_KEY_ENV, ""))
    found = asyncio.run(_all(run, chosen, endpoint, arguments.max_new_tokens))
    if arguments.json:
        say_json(screen, [msgspec.to_builtins(one) for one in found])
    else:
        _print(found, screen)
    return 1 if any(one.faults for one in found) else 0


def _url(sample: Sample) -> str:
    return sample.endpoint if "//" in sample.endpoint else f"http://{sample.endpoint}"


def _with_prompts(run: RunDir) -> Iterator[tuple[Sample, Prompt]]:
    finder = PromptFinder(run)
    for sample in read_samples(run):
        prompt = finder.find(sample)
        if prompt is not None:
            yield sample, prompt


async def _all(
    run: RunDir, chosen: list[tuple[Sample, Prompt]], endpoint: Endpoint, max_new_tokens: int
) -> list[Parity]:
    settings = read_settings(run)
    profile = msgspec.json.decode(run.profile_json.read_bytes(), type=TokenProfile)
    tokenizer = load_tokenizer(run.tokenizer, trust_remote_code=settings.trust_remote_code)
    engine = SglangEngine(endpoint, vocab_size=profile.vocab_padded, max_connections=2)
    chat = ChatApi(endpoint)
    try:
        asked = _ask(
            engine, chat, chosen, profile, profile.modes[settings.mode], tokenizer, max_new_tokens
        )
        return [one async for one in asked]
    except EngineFault as fault:
        raise ServerError(
            "The server gives no answer to compare.",
            where=endpoint.url,
            found=f"{fault.reason}: {fault.detail}",
            next_step="--url names a running SGLang with this run's model",
        ) from fault
    finally:
        await engine.close()
        await chat.close()


async def _ask(
    engine: SglangEngine,
    chat: ChatApi,
    chosen: list[tuple[Sample, Prompt]],
    profile: TokenProfile,
    mode: ModeProfile,
    tokenizer: Tokenizer,
    max_new_tokens: int,
) -> AsyncIterator[Parity]:
    for sample, prompt in chosen:
        limit = min(max_new_tokens, sample.requested_max_new_tokens)
        rid = f"parity-{sample.sample_id}.{secrets.token_hex(6)}"
        raw = await engine.generate(rid, sample.input_ids, greedy(limit, profile.stop_ids))
        answer = await chat.ask(
            prompt.messages, prompt.tools, max_tokens=limit, template_kwargs=mode.template_kwargs
        )
        yield compare(
            sample.sample_id,
            len(sample.input_ids),
            raw.output_ids,
            answer,
            profile,
            mode,
            tokenizer.decode,
        )


def greedy(max_new_tokens: int, stop_ids: list[int]) -> SamplingParams:
    """Sampling that both APIs can be asked for alike."""
    return SamplingParams(
        max_new_tokens=max_new_tokens,
        temperature=0.0,
        top_p=1.0,
        top_k=-1,
        min_p=0.0,
        frequency_penalty=0.0,
        presence_penalty=0.0,
        repetition_penalty=1.0,
        min_new_tokens=0,
        ignore_eos=False,
        stop_token_ids=stop_ids,
    )


def _print(found: list[Parity], screen: Console) -> None:
    for one in found:
        say(screen, (safe_line(one.sample_id), "bold"), "" if one.faults else "  the same")
        for fault in one.faults:
            say(screen, "  ", (safe_line(fault), "yellow"))
        if one.faults:
            say(screen, ("  raw ids    ", "dim"), safe(_short(one.raw)))
            if one.chat.reasoning:
                say(screen, ("  reasoning  ", "dim"), safe(_short(one.chat.reasoning)))
            say(screen, ("  content    ", "dim"), safe(_short(one.chat.content)))
            for call in one.chat.tool_calls:
                say(screen, ("  tool call  ", "dim"), safe(_short(str(call))))
        say(screen, "")
    differing = sum(bool(one.faults) for one in found)
    say(screen, f"{differing} of {plural(len(found), 'answer')} are not the same by the chat API.")


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} ...")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_run(parser)
    parser.add_argument("--n", type=at_least(1), default=20, help="prompts to send (20)")
    parser.add_argument("--url", metavar="URL", help="the server (default: the run's own)")
    parser.add_argument(
        "--max-new-tokens", type=at_least(1), default=512, metavar="N", help="for both ways (512)"
    )
    add_json(parser, "every comparison")


COMMAND = Command(
    name="parity",
    summary="ask the chat API the same prompts: what it drops or moves",
    text="""Send a run's prompts to a running SGLang twice, greedily: as ids to
/generate, and as messages to /v1/chat/completions. Shown side by side: special
tokens that the chat API dropped, reasoning and tool calls that it moved or
lost, and counts that disagree. Exit code 1 when anything differs.

  python -m runner.runs parity latest --n 20
  python -m runner.runs parity latest --url http://127.0.0.1:30000 --json
""",
    add_arguments=add_arguments,
    run=run_parity,
)
