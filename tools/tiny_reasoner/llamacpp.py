"""The embedded llama.cpp server with a GGUF: token ids in, token ids out."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xllamacpp as xlc

# llama.cpp's defaults would cut the distribution (top_k 40, top_p 0.95, min_p 0.05).
PLAIN_SAMPLING = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}


@dataclass(frozen=True)
class Endpoint:
    """A running server."""

    url: str

    def complete(
        self, prompt: list[int], *, temperature: float, seed: int = 0, limit: int = 400
    ) -> list[int]:
        """The ids generated after the prompt, the end token included."""
        body = {
            "prompt": prompt,
            "n_predict": limit,
            "temperature": temperature,
            "seed": seed,
            "return_tokens": True,
            "cache_prompt": False,
            **PLAIN_SAMPLING,
        }
        request = urllib.request.Request(
            f"{self.url}/completion",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return [int(token) for token in json.load(answer)["tokens"]]


@contextmanager
def serving(gguf: Path) -> Iterator[Endpoint]:
    """A server on a free loopback port, one thread, ended with the block."""
    params = xlc.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx = 2_048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xlc.Server(params)
    try:
        yield Endpoint(str(server.listening_address))
    finally:
        del server
