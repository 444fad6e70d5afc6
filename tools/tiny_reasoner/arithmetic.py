"""Worked digit-by-digit steps, in one fixed wording.

Every step spells out its carry or borrow, zero or not: a uniform shape is what a tiny model can
learn. Each function returns text that ends in a full stop and holds the result after `So`.
"""


def _digits(number: int, width: int) -> list[int]:
    return [int(digit) for digit in reversed(f"{number:0{width}d}")]


def add_steps(left: int, right: int) -> str:
    """Column addition of two non-negative numbers, ones first."""
    width = max(len(str(left)), len(str(right)))
    carry, steps = 0, [f"{left}+{right}."]
    for x, y in zip(_digits(left, width), _digits(right, width), strict=True):
        total = x + y + carry
        steps.append(f"{x}+{y}+{carry}={total} write {total % 10} carry {total // 10}.")
        carry = total // 10
    return " ".join([*steps, f"So {left}+{right}={left + right}."])


def subtract_steps(left: int, right: int) -> str:
    """Column subtraction; `left` must not be smaller than `right`."""
    if right > left:
        raise ValueError(f"negative result: {left}-{right}")
    borrow, steps = 0, [f"{left}-{right}."]
    for x, y in zip(_digits(left, len(str(left))), _digits(right, len(str(left))), strict=True):
        short = x - y - borrow < 0
        top = x + 10 if short else x
        rest = top - y - borrow
        steps.append(f"{top}-{y}-{borrow}={rest} write {rest} borrow {int(short)}.")
        borrow = int(short)
    return " ".join([*steps, f"So {left}-{right}={left - right}."])


def multiply_steps(left: int, digit: int) -> str:
    """A number times one digit."""
    if not 0 <= digit <= 9:
        raise ValueError(f"not one digit: {digit}")
    carry, steps = 0, [f"{left}*{digit}."]
    for x in _digits(left, len(str(left))):
        total = x * digit + carry
        steps.append(f"{x}*{digit}+{carry}={total} write {total % 10} carry {total // 10}.")
        carry = total // 10
    return " ".join([*steps, f"So {left}*{digit}={left * digit}."])


def compare_steps(left: int, right: int) -> str:
    """Which of two different numbers is larger: by length, then digit by digit from the left."""
    a, b = str(left), str(right)
    if left == right:
        raise ValueError("equal numbers")
    steps = [f"{a} has {len(a)} digits, {b} has {len(b)} digits."]
    if len(a) == len(b):
        for x, y in zip(a, b, strict=True):
            steps.append(f"{x} and {y} {'same' if x == y else 'differ'}.")
            if x != y:
                break
    return " ".join([*steps, f"So {max(left, right)} is larger than {min(left, right)}."])


STEPS = {"+": add_steps, "-": subtract_steps, "*": multiply_steps}


def apply(operator: str, left: int, right: int) -> int:
    """The result of one operation of `STEPS`."""
    return {"+": left + right, "-": left - right, "*": left * right}[operator]
