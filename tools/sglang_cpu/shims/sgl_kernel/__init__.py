"""Stands in for SGLang's compiled kernels, whose CPU build is not packaged.

With SGLANG_USE_CPU_ENGINE=1 two modules of sglang import names from here and never call them: the
server falls back to native torch. Any name gives a function; calling one says what is missing.
"""

from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_args: object, **_kwargs: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name}: there are no compiled kernels here")

    missing.__name__ = name
    return missing
