"""Which rows are there at all: `filters: [level in easy, score >= 0.8]`.

Filters are applied before rows are selected, so a count is a count of rows that pass. A row whose
column is missing, null or no number where one is compared does not pass.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from runner.config.prompting import FILTER_FORM
from runner.prompts.source import PromptSource, RowNumbers

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def passes(row: Any, filters: Sequence[str]) -> bool:
    """Whether a row meets all conditions; a row that cannot be read passes, to be counted later."""
    return not isinstance(row, Mapping) or all(_meets(row, condition) for condition in filters)


def filter_columns(filters: Sequence[str]) -> list[str]:
    """The columns that filters look at."""
    forms = (FILTER_FORM.fullmatch(condition) for condition in filters)
    return [form[1] for form in forms if form is not None]


def _meets(row: Mapping[str, Any], condition: str) -> bool:
    form = FILTER_FORM.fullmatch(condition)
    value = row.get(form[1]) if form is not None else None
    if form is None or value is None:
        return False
    sign, wanted = form[2].strip(), form[3]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if sign == "in":
        return text in [choice.strip() for choice in wanted.split(",")]
    if sign in ("==", "!="):
        return (text == wanted) is (sign == "==")
    try:
        return _COMPARE[sign](float(text), float(wanted))
    except ValueError:
        return False


def rows_that_pass(source: PromptSource, filters: Sequence[str]) -> RowNumbers:
    """The rows of a source that its part's filters leave; reads every row when there are any."""
    everything = np.arange(len(source), dtype=np.int64)
    if not filters:
        return everything

    def passing() -> Iterator[int]:
        for row, value in source.read(everything, filter_columns(filters)):
            if passes(value, filters):
                yield row

    return np.fromiter(passing(), dtype=np.int64)
