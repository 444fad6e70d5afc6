"""The out-of-memory ladder: which flags the next start gets after the server died of memory.

Pure. Rungs come from the config (`server.restart.ladder`), each a mapping of the server's own flag
names to values. A rung only ever asks for less: a value above the one in force is left out, so a
preset's ladder fits whatever a user has set.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def spelled(name: str) -> str:
    """One spelling of a flag: `--max_running_requests` and `max-running-requests` are the same."""
    return name.lstrip("-").replace("_", "-")


def lowered(flags: Mapping[str, Any], rung: Mapping[str, Any]) -> dict[str, Any]:
    """The flags after a rung, under the names that the config used. Equal when nothing is lower."""
    names = {spelled(name): name for name in flags}
    after = dict(flags)
    for asked, value in rung.items():
        name = names.get(spelled(asked), asked)
        if _asks_less(after.get(name), value):
            after[name] = value
    return after


def next_rung(
    flags: Mapping[str, Any], ladder: Sequence[Mapping[str, Any]], taken: int
) -> tuple[dict[str, Any], int] | None:
    """(flags, rungs taken so far) for the next start; None when no rung is left that asks less."""
    for index in range(taken, len(ladder)):
        after = lowered(flags, ladder[index])
        if after != dict(flags):
            return after, index + 1
    return None


def _asks_less(current: Any, value: Any) -> bool:
    if isinstance(current, bool) or not isinstance(current, int | float):
        return bool(current != value)  # unset, or a word: the rung says it
    return (isinstance(value, int | float) and 0 < value < current) or value is None
