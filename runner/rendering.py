"""Prompts to ids under the special-token policy, and many of them ahead of time.

    refuse   a prompt that holds the text of a control token is not asked
    escape   such text becomes plain text tokens; every other prompt is rendered untouched
    allow    rendered as it is: the text becomes the control token

A slow tokenizer (one without a Rust core) costs milliseconds a prompt, so its prompts are rendered
in worker processes, a bounded number ahead, and come back in order. Workers end with this process,
whatever way it ends.
"""

import datetime
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

from runner.config import SpecialTokens
from runner.errors import MachineError
from runner.escaping import Controls, separator_for
from runner.records import Record
from runner.render import RenderFault, Tokenizer, load_tokenizer

AHEAD_PER_WORKER = 8
SLOW_TOKENIZER_WORKERS = 4
"""Workers for a slow tokenizer when the config names none; never more than there are cores."""


class Asked(Protocol):
    """What is rendered: a Prompt, or a Conversation."""

    @property
    def messages(self) -> list[dict[str, Any]]: ...

    @property
    def tools(self) -> list[dict[str, Any]]: ...


class Rendered(Record, frozen=True, kw_only=True):
    """Ids to send. `escaped` counts the control texts in the prompt that were made plain."""

    ids: list[int]
    escaped: int = 0


RenderAhead = Callable[[Iterable[Asked]], Iterator[Rendered | RenderFault]]
"""Prompts to what they render to, in order; may work ahead."""


class RenderSettings(Record, frozen=True, kw_only=True):
    """All that decides what a prompt renders to; a worker process makes a Renderer of it.

    `markers` are ids that count as control tokens beside those that the tokenizer calls special.
    """

    source: str
    is_folder: bool
    revision: str | None
    trust_remote_code: bool
    date: str
    template_kwargs: dict[str, Any]
    policy: str
    markers: list[int] = []

    def load(self) -> Tokenizer:
        """The tokenizer. Raises MachineError."""
        loaded = load_tokenizer(
            Path(self.source) if self.is_folder else self.source,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
        )
        return loaded.at(datetime.date.fromisoformat(self.date))


class Renderer:
    """One tokenizer, one mode, one policy."""

    def __init__(self, tokenizer: Tokenizer, settings: RenderSettings) -> None:
        self._tokenizer = tokenizer
        self._kwargs: Mapping[str, Any] = settings.template_kwargs
        self._policy = SpecialTokens(settings.policy)
        always = {*tokenizer.control_ids, *settings.markers}
        self.controls = Controls(tokenizer.special_tokens, always, tokenizer.template)

    def render(self, prompt: Asked) -> Rendered:
        """Ids to send. Raises RenderFault."""
        messages, tools = prompt.messages, prompt.tools
        allowed = self._policy is SpecialTokens.allow
        found = [] if allowed else self.controls.found_in(messages, tools)
        if not found:
            return Rendered(ids=self._tokenizer.render(messages, tools, self._kwargs))
        if self._policy is SpecialTokens.refuse:
            raise RenderFault("special_token_text", f"the prompt holds {found[0]!r}")
        return Rendered(ids=self._escaped(messages, tools), escaped=len(found))

    def _escaped(self, messages: Any, tools: Any) -> list[int]:
        separator = separator_for(messages, tools)
        if separator is None:
            raise RenderFault("special_token_text", "the prompt holds every separator there is")
        try:
            marked = self.controls.mark([messages, tools], separator)
        except ValueError as error:
            raise RenderFault("special_token_text", str(error)) from error
        pieces = self._text(marked).split(separator)
        ids = [token for piece in pieces for token in self._tokenizer.encode(piece)]
        self._check(ids, "".join(pieces), self._text(marked))
        return ids

    def _check(self, ids: list[int], text: str, marked_text: str) -> None:
        """What was promised: no control id that the template did not put there, and the same text.
        Where a template or tokenizer does something else with a text, the prompt is not asked."""
        by_template = self._controls_in(self._tokenizer.encode(marked_text))
        if self._controls_in(ids) != by_template:
            raise RenderFault("special_token_text", "its control tokens could not be made plain")
        decoded = self._tokenizer.decode(ids)
        if decoded not in (text, self._tokenizer.decode(self._tokenizer.encode(text))):
            raise RenderFault("special_token_text", "made plain, its text would not be the same")

    def _controls_in(self, ids: list[int]) -> list[int]:
        return [token for token in ids if token in self.controls.ids]

    def _text(self, marked: Any) -> str:
        return self._tokenizer.render_text(marked[0], marked[1], self._kwargs)


def in_turn(renderer: Renderer, prompts: Iterable[Asked]) -> Iterator[Rendered | RenderFault]:
    """Rendered here, one when it is asked for."""
    for prompt in prompts:
        try:
            yield renderer.render(prompt)
        except RenderFault as fault:
            yield fault


class RenderPool:
    """Worker processes that render. Starting one takes the seconds that loading the tokenizer does.
    Close it after use."""

    def __init__(self, settings: RenderSettings, workers: int) -> None:
        self.broken = False
        """A worker is gone: of no more use."""
        self._ahead = workers * AHEAD_PER_WORKER
        self._pool = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin_worker,
            initargs=(settings,),
        )

    def ahead(self, prompts: Iterable[Asked]) -> Iterator[Rendered | RenderFault]:
        """In order, a bounded number ahead. Raises MachineError when a worker is gone."""
        waiting: deque[Future[Any]] = deque()
        try:
            for prompt in prompts:
                waiting.append(self._pool.submit(_render, prompt.messages, prompt.tools))
                if len(waiting) >= self._ahead:
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        except BrokenProcessPool as error:
            self.broken = True
            raise MachineError(
                "A process that renders prompts ended.",
                where="prompts.workers",
                found=str(error),
                next_step="was it killed for memory? Fewer workers need less: prompts.workers=1",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the workers."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Plain(Record, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


_worker_renderer: Renderer | None = None


def _begin_worker(settings: RenderSettings) -> None:
    """Ctrl-C is the parent's affair; the parent's end, however it comes, is ours too."""
    global _worker_renderer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _worker_renderer = Renderer(settings.load(), settings)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _render(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> Rendered | tuple[str, str]:
    if _worker_renderer is None:
        raise RuntimeError("a rendering worker was not initialised")
    try:
        return _worker_renderer.render(_Plain(messages=messages, tools=tools))
    except RenderFault as fault:
        return fault.reason, fault.detail  # an exception of two arguments does not pickle well


def _result(future: "Future[Any]") -> Rendered | RenderFault:
    got = future.result()
    return got if isinstance(got, Rendered) else RenderFault(*got)


def worker_count(chosen: int | None, *, is_fast: bool) -> int:
    """Rendering processes to use; 0 = render in this one."""
    if chosen is not None:
        return chosen
    return 0 if is_fast else min(SLOW_TOKENIZER_WORKERS, os.cpu_count() or 1)
