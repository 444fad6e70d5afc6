"""Numbers as people read them: thousands separators, short forms, shares, times. Pure."""

import math

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def thousands(value: float) -> str:
    """1234567 -> "1,234,567"; a fraction is rounded."""
    return f"{value:,.0f}"


def compact(value: float) -> str:
    """A number in at most seven characters: 228,100,000 -> "228.1M"."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:,.1f}{unit}"
    return thousands(value)


def share(part: float, whole: float) -> str:
    """A percentage; "-" of nothing. Never 0% for something and never 100% for not all."""
    if not whole:
        return "-"
    text = f"{100 * part / whole:.1f}%"
    if text == "0.0%" and part > 0:
        return "<0.1%"
    if text == "100.0%" and part < whole:
        return ">99.9%"
    return text


def per_second(value: float | None) -> str:
    """A speed: one decimal below 10, "-" where none was measured."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.1f}" if value < 10 else thousands(value)


def duration(seconds: float) -> str:
    """A span of time in its largest fitting unit, two units from an hour on."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    if seconds < DAY_S:
        return f"{seconds // HOUR_S:.0f} h {seconds % HOUR_S // MINUTE_S:02.0f} min"
    return f"{seconds // DAY_S:.0f} d {seconds % DAY_S // HOUR_S:.0f} h"


def age(seconds: float) -> str:
    """How old something is, in one unit: it stands in a narrow column."""
    for unit, size in (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def bytes_text(count: int) -> str:
    """A number of bytes in decimal units."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"


def plural(count: int, noun: str, *, many: str = "") -> str:
    """ "1 sample", "2 samples"; `many` for a noun that does not take an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
