"""Servers that somebody else runs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runner.config import Server, ServerKind
from runner.errors import ConfigError, ServerError
from runner.servers import external, ports
from runner.servers.base import ModelFacts, open_server
from runner.servers.external import ExternalServer, parse_urls
from runner.servers.llamacpp_main import API_KEY_ENV

FACTS = ModelFacts(model_path="org/model", context_length=64)


class Other(ThreadingHTTPServer):
    """Somebody's server: `status` is what /health says, `keys` what it was sent."""

    def __init__(self) -> None:
        self.status = 200
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Other

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        self.send_response(self.server.status if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running() -> Iterator[Other]:
    with Other() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def other() -> Iterator[Other]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "UNREACHABLE_AFTER_S", 0.2)
    monkeypatch.setattr(external, "LAST_PAUSE_S", 0.05)
    monkeypatch.delenv(API_KEY_ENV, raising=False)


def server_of(*urls: str, ready_timeout_s: float = 20.0) -> ExternalServer:
    config = Server(
        name="external",
        kind=ServerKind.external,
        urls=list(urls),
        ready_timeout_s=ready_timeout_s,
    )
    server = open_server(config, FACTS, launches_dir=Path("/nowhere"))
    assert isinstance(server, ExternalServer)
    return server


def nobody() -> str:
    return f"http://127.0.0.1:{ports.free_port('127.0.0.1')}"


def test_it_is_reached_and_left_alone(other: Other) -> None:
    async def run() -> None:
        async with server_of(other.url + "/") as server:
            assert [endpoint.url for endpoint in server.endpoints] == [other.url]
            assert server.alive()
            assert server.kind is ServerKind.external

    asyncio.run(run())
    asyncio.run(run())


@pytest.mark.parametrize("status", [200, 404, 401])
def test_any_answer_but_a_server_error_counts(status: int, other: Other) -> None:
    other.status = status
    asyncio.run(server_of(other.url).start())


def test_an_address_where_nobody_answers_is_named(other: Other) -> None:
    wrong = nobody()
    with pytest.raises(ServerError, match=f"1 of 2 .*\n.*\n.*{wrong}: no answer") as caught:
        asyncio.run(server_of(other.url, wrong).start())
    assert other.url not in str(caught.value)


def test_one_that_is_loading_is_waited_for(other: Other) -> None:
    other.status = 503

    async def run() -> None:
        starting = asyncio.create_task(server_of(other.url).start())
        while len(other.keys) < 8:  # well beyond the patience for refused connections
            await asyncio.sleep(0.02)
        assert not starting.done()
        other.status = 200
        await starting

    asyncio.run(run())


def test_one_that_never_becomes_healthy_is_an_error(other: Other) -> None:
    other.status = 503
    with pytest.raises(ServerError, match="HTTP 503 from /health"):
        asyncio.run(server_of(other.url, ready_timeout_s=0.3).start())


def test_a_restart_waits_until_one_of_them_is_back(other: Other) -> None:
    other.status = 503

    async def run() -> None:
        waiting = asyncio.create_task(server_of(nobody(), other.url).restart("it was gone"))
        while len(other.keys) < 3:
            await asyncio.sleep(0.02)
        assert not waiting.done()
        other.status = 200
        await waiting

    asyncio.run(run())


def test_a_restart_ends_when_none_comes_back() -> None:
    with pytest.raises(ServerError, match=r"no server answered within 0\.3 s") as caught:
        asyncio.run(server_of(nobody(), ready_timeout_s=0.3).restart("it was gone"))
    assert caught.value.found == "it was gone"


def test_the_key_comes_from_the_environment(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY_ENV, "sesame")
    asyncio.run(server_of(other.url).start())
    assert other.keys == ["Bearer sesame"]


def test_its_death_is_never_told(other: Other) -> None:
    async def run() -> None:
        watching = asyncio.create_task(server_of(other.url).died())
        await asyncio.sleep(0.05)
        assert not watching.done()
        watching.cancel()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ([], "needs the addresses"),
        (["127.0.0.1:30000"], "not the address of a server"),
        (["ftp://host:1"], "not the address of a server"),
        (["http://"], "not the address of a server"),
        (["http://h:1/x?y=1"], "not the address of a server"),
        (["http://me:hush@h:1"], "must not hold a password"),
        (["http://h:1", "http://h:1/"], "given twice"),
    ],
)
def test_wrong_addresses_are_config_errors(urls: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_urls(urls, api_key="")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://h:30000", "h:30000"),
        ("https://h/prefix/", "h/prefix"),
        ("http://[::1]:8", "[::1]:8"),
    ],
)
def test_an_endpoint_is_named_by_its_address(url: str, name: str) -> None:
    (endpoint,) = parse_urls([url], api_key="")
    assert endpoint.name == name
    assert endpoint.url == url.rstrip("/")
