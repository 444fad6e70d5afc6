"""The one way to the terminal: a rich console without markup, and tables that stay calm.

Where there is no terminal, or NO_COLOR is set, the output is plain text: no colour, no lines drawn,
nothing cut to a width. Markup, emoji codes and highlighting are off: what is printed is data.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 400
"""Columns where nobody looks: wide enough that no table is cut or wrapped."""


class _Screen(Console):
    def on_broken_pipe(self) -> NoReturn:
        """`| head` has seen enough, which is no failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


def open_screen() -> Console:
    """The console on standard output; characters that it cannot show are written as escapes."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    probe = Console()
    plain = not probe.is_terminal or bool(os.environ.get("NO_COLOR")) or probe.is_dumb_terminal
    width = None if probe.is_terminal else _PIPE_WIDTH
    return _Screen(
        color_system=None if plain else "auto",
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_plain(screen: Console) -> bool:
    """Whether colour cannot tell anything here."""
    return screen.color_system is None


def new_table(screen: Console, *columns: str, title: str = "") -> Table:
    """An empty table. A column whose name begins with ">" holds numbers, aligned to the right; one
    that begins with "=" holds words that are never broken. These two keep their width."""
    plain = is_plain(screen)
    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None if plain else box.SIMPLE_HEAD,
        border_style="dim",
        pad_edge=False,
        padding=(0, 2 if plain else 1, 0, 0),
        show_edge=False,
    )
    for name in columns:
        table.add_column(
            name.lstrip(">="),
            justify="right" if name.startswith(">") else "left",
            no_wrap=name.startswith((">", "=")),
            overflow="fold",
        )
    return table


def fill(table: Table, rows: Iterable[Sequence[str | Text]]) -> Table:
    """Add the rows and give the table back."""
    for row in rows:
        table.add_row(*row)
    return table


def say_table(screen: Console, table: Table) -> None:
    """A table; elsewhere than on a terminal without the blanks that fill its last column."""
    if screen.is_terminal:
        screen.print(table)
        return
    with screen.capture() as captured:
        screen.print(table)
    for line in captured.get().splitlines():
        screen.out(line.rstrip(), highlight=False)


def say(screen: Console, *parts: str | Text | tuple[str, str]) -> None:
    """One paragraph of text or (text, style); wrapped on a terminal, never cut elsewhere."""
    screen.print(Text.assemble(*parts), soft_wrap=not screen.is_terminal)


def say_labelled(
    screen: Console, label: str | Text, text: str | Text, *, width: int, style: str = ""
) -> None:
    """A label (dim unless it is a Text) in a column of `width`, then text that keeps to its own."""
    content = Text(text, style) if isinstance(text, str) else text
    name = Text(label, "dim") if isinstance(label, str) else label
    if not screen.is_terminal:
        say(screen, name.plain.ljust(width), content)
        return
    grid = Table.grid()
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(name, content)
    screen.print(grid)


def say_json(screen: Console, value: Any) -> None:
    """One JSON document on one line, in ASCII: exact when read, harmless on a terminal."""
    screen.out(json.dumps(value, ensure_ascii=True, separators=(",", ":")), highlight=False)


STATUS_STYLES = {
    "running": "cyan",
    "done": "green",
    "gate_failed": "yellow",
    "interrupted": "yellow",
    "stopped_bad_data": "red",
    "failed": "red",
    "dead": "red",
    "unreadable": "red",
}
"""How each status looks, `dead` (says running, process gone) included."""


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(status, STATUS_STYLES.get(status, ""))
