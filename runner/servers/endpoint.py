"""Plain records about servers, and what every kind of server can do."""

import abc
from types import TracebackType
from typing import Any, Protocol, Self

from runner.config import ServerKind
from runner.records import Record


class Endpoint(Record, frozen=True, kw_only=True):
    """An address at which a server answers. `url` has no trailing slash; `name` goes into samples
    and metrics, `api_key` ("" = none) only into the Authorization header."""

    url: str
    api_key: str = ""
    name: str = ""

    def __repr__(self) -> str:
        key = "***" if self.api_key else ""
        return f"Endpoint(url={self.url!r}, api_key={key!r}, name={self.name!r})"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


class ModelFacts(Record, frozen=True, kw_only=True):
    """What a server must know of the model. `model_path` is a folder or a hub id; `gguf_path` is
    None when the model has no GGUF; `context_length` in tokens, prompt and answer together."""

    model_path: str
    context_length: int
    gguf_path: str | None = None
    trust_remote_code: bool = False
    revision: str = ""


class Server(Protocol):
    """A lifetime of a server, whoever started it: `async with`, or `start` and `stop`.

    One task at a time calls start, restart or stop. `kind` as in the config. `launch` is the
    ordinal of the current launch; before the first, and for servers that we do not start, it is
    one less than the first. `last_cause` is the key of the last death's likely cause
    (`logs.CAUSES`), "" if unknown. `lowered` are the flags that deaths of memory changed.
    """

    kind: ServerKind
    launch: int
    last_cause: str

    @property
    def lowered(self) -> dict[str, Any]: ...

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where it answers now. Ports may change with a restart."""
        ...

    async def start(self) -> None:
        """Return when it answers /health. Raises ServerError, or MachineError for a taken port."""
        ...

    async def stop(self) -> None:
        """Return when nothing of it is left. Safe at any time, any number of times."""
        ...

    async def restart(self, reason: str) -> None:
        """End it, wait a little, start it again. Raises ServerError when the budget is spent."""
        ...

    def alive(self) -> bool:
        """Its process runs. Says nothing about whether it works."""
        ...

    def log_bytes(self) -> int:
        """The size of the current launch's log: while it grows, the server lives. 0 if unseen."""
        ...

    async def died(self) -> str:
        """Return the reason once it has ended unasked; waits through our own restarts."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Lifetime(abc.ABC):
    """`async with` for what has `start` and `stop`: a failed start is stopped too."""

    @abc.abstractmethod
    async def start(self) -> None: ...

    @abc.abstractmethod
    async def stop(self) -> None: ...

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
