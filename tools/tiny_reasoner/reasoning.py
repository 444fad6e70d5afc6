"""Reasoning tasks with a checkable answer: arithmetic bare and in words, units, logic.

A task function takes a `random.Random` and returns an `Example` in thinking mode. Replies end
in `The answer is X.`; operands stay small (up to four digits bare, three in words, one-digit
multipliers), which is the edge of what the model can do.
"""

from random import Random

from .arithmetic import STEPS, apply, compare_steps
from .example import Example, said, user

NAMES = [
    "Mia",
    "Tom",
    "Ann",
    "Leo",
    "Zoe",
    "Sam",
    "Eva",
    "Max",
    "Ivy",
    "Ben",
    "Lucy",
    "Omar",
    "Nina",
    "Paul",
    "Rosa",
    "Hugo",
    "Aisha",
    "Kenji",
    "Maria",
    "Liam",
    "Emma",
    "Noah",
    "Olga",
    "Raj",
    "Sara",
    "Tina",
    "Victor",
    "Wendy",
    "Yuki",
    "Carl",
    "Dora",
    "Felix",
    "Gina",
    "Hana",
    "Igor",
    "Jack",
]
ITEMS = [
    "apples",
    "books",
    "pens",
    "stamps",
    "coins",
    "marbles",
    "cards",
    "stickers",
    "eggs",
    "shells",
    "cookies",
    "pencils",
    "balloons",
    "beads",
    "tickets",
    "bottles",
    "plants",
    "oranges",
    "lemons",
    "tokens",
    "buttons",
    "photos",
    "stones",
    "candles",
    "cups",
    "keys",
    "boxes",
    "toys",
    "flowers",
    "nuts",
]
BARE = {
    "+": [
        "What is {a} + {b}?",
        "{a} + {b} = ?",
        "Compute {a} + {b}.",
        "Add {a} and {b}.",
        "What is the sum of {a} and {b}?",
        "Calculate {a}+{b}.",
        "How much is {a} plus {b}?",
    ],
    "-": [
        "What is {a} - {b}?",
        "{a} - {b} = ?",
        "Compute {a} - {b}.",
        "Subtract {b} from {a}.",
        "What is the difference between {a} and {b}?",
        "Calculate {a}-{b}.",
        "How much is {a} minus {b}?",
    ],
    "*": [
        "What is {a} * {b}?",
        "{a} * {b} = ?",
        "Compute {a} * {b}.",
        "Multiply {a} by {b}.",
        "What is the product of {a} and {b}?",
        "Calculate {a}*{b}.",
        "How much is {a} times {b}?",
    ],
}
WORD = {
    "+": [
        "{n} has {a} {i} and gets {b} more. How many {i} does {n} have now?",
        "There are {a} {i} in one box and {b} {i} in another. How many {i} are there in all?",
        "{n} found {a} {i} in the morning and {b} in the afternoon. How many {i} is that?",
        "A shop sold {a} {i} on Monday and {b} {i} on Tuesday. How many {i} did it sell in total?",
        "{n} read {a} pages yesterday and {b} pages today. How many pages did {n} read?",
    ],
    "-": [
        "{n} has {a} {i} and gives away {b}. How many {i} are left?",
        "A shop had {a} {i} and sold {b} of them. How many {i} remain?",
        "{n} needs {a} {i} and has {b}. How many more {i} does {n} need?",
        "Of {a} {i}, {b} are broken. How many {i} are not broken?",
        "{n} had {a} {i} but lost {b}. How many {i} does {n} still have?",
    ],
    "*": [
        "There are {a} {i} in each bag. How many {i} are in {b} bags?",
        "{n} buys {b} packs of {i} with {a} {i} in each pack. How many {i} is that?",
        "Each of {b} children has {a} {i}. How many {i} do they have together?",
        "One ticket costs {a} dollars. How many dollars do {b} tickets cost?",
        "A machine makes {a} {i} per hour. How many {i} does it make in {b} hours?",
    ],
}
TWO_STEP = {
    "+-": [
        "{n} has {a} {i}, buys {b} more, gives away {c}; how many are left?",
        "{n} had {a} {i}, found {b} more and then lost {c}. How many {i} does {n} have?",
        "A bus carries {a} people. At a stop {b} get on and {c} get off. How many are on the bus?",
        "A store had {a} {i}. It received {b} and sold {c}. How many {i} remain?",
    ],
    "-+": [
        "{n} has {a} {i}, gives away {b}, then buys {c} more; how many {i} does {n} have?",
        "A tank holds {a} liters. {b} liters are used and {c} are added. How many liters now?",
        "{n} had {a} dollars, spent {b} and earned {c}. How many dollars does {n} have now?",
    ],
    "++": [
        "{n} has {a} {i}, gets {b} from {m} and {c} from a shop. How many {i} in all?",
        "On three days {n} walked {a}, {b} and {c} steps. How many steps is that in total?",
        "A school has {a} pupils in one hall, {b} in a second and {c} in a third. How many in all?",
    ],
    "--": [
        "{n} had {a} {i}, gave {b} to {m} and lost {c}. How many {i} are left?",
        "A baker made {a} rolls, sold {b} and ate {c}. How many rolls are left?",
        "Of {a} seats, {b} are taken and {c} are broken. How many seats are free?",
    ],
    "*+": [
        "{n} buys {b} bags of {a} {i} each and already has {c} {i}. How many {i} in total?",
        "A box holds {a} {i}. {n} has {b} full boxes and {c} loose {i}. How many {i} is that?",
        "{n} earns {a} dollars a day for {b} days, plus a bonus of {c}. How many dollars in all?",
    ],
    "*-": [
        "{n} buys {b} bags of {a} {i} each and gives {c} {i} to {m}. How many {i} are left?",
        "A farm packs {b} crates of {a} eggs. {c} eggs break. How many eggs are left?",
        "{n} saves {a} dollars a week for {b} weeks, then spends {c}. How many dollars remain?",
    ],
}
PLAN = {"+": "add", "-": "subtract", "*": "multiply by"}
# (question, factor): only factors that are one digit times a power of ten, so steps stay short.
UNITS = [
    ("How many minutes are {a} hours?", "hours", "minutes", 60),
    ("How many seconds are in {a} minutes?", "minutes", "seconds", 60),
    ("How many days are {a} weeks?", "weeks", "days", 7),
    ("Convert {a} kilometers to meters.", "kilometers", "meters", 1000),
    ("Convert {a} meters to centimeters.", "meters", "centimeters", 100),
    ("How many grams are {a} kilograms?", "kilograms", "grams", 1000),
    ("How many millimeters are {a} centimeters?", "centimeters", "millimeters", 10),
    ("How many months are {a} quarters?", "quarters", "months", 3),
    ("A spider has 8 legs. How many legs do {a} spiders have?", "spiders", "legs", 8),
    ("An insect has 6 legs. How many legs do {a} insects have?", "insects", "legs", 6),
    ("A cube has 6 faces. How many faces do {a} cubes have?", "cubes", "faces", 6),
    ("How many cents are {a} dollars?", "dollars", "cents", 100),
]
RATES = [
    ("A car drives {a} km per hour for {b} hours. How many km does it travel?", "speed * time"),
    ("A force of {b} newtons moves a box {a} meters. What is the work in joules?", "force * way"),
    ("A lamp uses {a} watts for {b} hours. How many watt-hours is that?", "power * time"),
    ("A mass of {a} kg accelerates at {b} m/s^2. What is the force in newtons?", "mass * a"),
    ("A current of {b} amperes flows through {a} ohms. What is the voltage?", "current * ohms"),
    ("A pump moves {a} liters per minute. How many liters in {b} minutes?", "rate * time"),
]
ORDERS = [
    ("older", "oldest", "youngest"),
    ("taller", "tallest", "shortest"),
    ("faster", "fastest", "slowest"),
    ("heavier", "heaviest", "lightest"),
    ("richer", "richest", "poorest"),
]


def _number(rng: Random, lengths: list[int]) -> int:
    length = rng.choice(lengths)
    return rng.randint(10 ** (length - 1) + (length == 1), 10**length - 1)


def _operands(rng: Random, operator: str, lengths: list[int]) -> tuple[int, int]:
    left = _number(rng, lengths)
    if operator == "*":
        return left, rng.randint(2, 9)
    right = _number(rng, lengths)
    return (max(left, right), min(left, right)) if operator == "-" else (left, right)


def _answered(kind: str, question: str, reasoning: str, answer: int | str) -> Example:
    reply = said(reasoning, f"The answer is {answer}.")
    return Example(kind, [user(question)], reply, answer=str(answer))


def bare(rng: Random) -> Example:
    """`What is 347 + 85?`"""
    operator = rng.choice("++--*")
    lengths = [1, 2, 2, 3] if operator == "*" else [1, 2, 2, 3, 3, 3, 4]
    left, right = _operands(rng, operator, lengths)
    question = rng.choice(BARE[operator]).format(a=left, b=right)
    return _answered("bare", question, STEPS[operator](left, right), apply(operator, left, right))


def word(rng: Random) -> Example:
    """A word problem of one step."""
    operator = rng.choice("+-*")
    left, right = _operands(rng, operator, [1, 2, 2, 2, 3])
    question = rng.choice(WORD[operator]).format(
        n=rng.choice(NAMES), i=rng.choice(ITEMS), a=left, b=right
    )
    reasoning = f"I have {left} and {PLAN[operator]} {right}. {STEPS[operator](left, right)}"
    return _answered("word", question, reasoning, apply(operator, left, right))


def two_step(rng: Random) -> Example:
    """A word problem of two steps; no intermediate result is negative."""
    operators = rng.choice(list(TWO_STEP))
    first, second = operators
    middle = 0
    while middle == 0:
        left, right = _operands(rng, first, [1, 2] if first == "*" else [2, 2, 2, 3])
        middle = apply(first, left, right)
    third = rng.randint(1, middle) if second == "-" else _number(rng, [1, 2, 2])
    name, other = rng.sample(NAMES, 2)
    question = rng.choice(TWO_STEP[operators]).format(
        n=name, m=other, i=rng.choice(ITEMS), a=left, b=right, c=third
    )
    reasoning = (
        f"I have {left}, {PLAN[first]} {right}, then {PLAN[second]} {third}. "
        f"{STEPS[first](left, right)} {STEPS[second](middle, third)}"
    )
    return _answered("two_step", question, reasoning, apply(second, middle, third))


def compare(rng: Random) -> Example:
    """Which of two numbers is larger or smaller."""
    left = _number(rng, [2, 3, 3, 4])
    right = left
    while right == left:
        near = rng.random() < 0.6
        right = max(1, left + rng.randint(-60, 60)) if near else _number(rng, [2, 3, 3, 4])
    word_ = rng.choice(["larger", "smaller"])
    name, other = rng.sample(NAMES, 2)
    question = rng.choice(
        [
            "Which is {w}, {a} or {b}?",
            "Which number is {w}: {a} or {b}?",
            "{n} has {a} points and {m} has {b}. Which score is {w}?",
        ]
    ).format(w=word_, a=left, b=right, n=name, m=other)
    answer = max(left, right) if word_ == "larger" else min(left, right)
    reasoning = f"{compare_steps(left, right)} I need the {word_} one."
    return _answered("compare", question, reasoning, answer)


def units(rng: Random) -> Example:
    """Unit conversions and counting by a fixed factor."""
    question, small, large, factor = rng.choice(UNITS)
    amount = _number(rng, [1, 2, 2, 3])
    digit = int(str(factor)[0])
    zeros = len(str(factor)) - 1
    reasoning = f"From {small} to {large} is times {factor}. "
    if digit == 1:
        reasoning += f"{amount} with {zeros} zeros. So {amount}*{factor}={amount * factor}."
    else:
        reasoning += STEPS["*"](amount, digit)
        if zeros:
            reasoning += f" With {zeros} zero {amount * factor}."
    asked = rng.choice(["{q}", "{q}", "{q} Think step by step.", "Question: {q}"])
    return _answered("units", asked.format(q=question.format(a=amount)), reasoning, amount * factor)


def rate(rng: Random) -> Example:
    """A product law of school physics."""
    question, law = rng.choice(RATES)
    left, right = _operands(rng, "*", [1, 2, 2, 3])
    reasoning = f"Use {law}. {STEPS['*'](left, right)}"
    return _answered("rate", question.format(a=left, b=right), reasoning, left * right)


def sequence(rng: Random) -> Example:
    """The next number of an arithmetic sequence."""
    start, step = _number(rng, [1, 2, 2]), rng.randint(2, 25)
    terms = [start + step * index for index in range(5)]
    shown = ", ".join(map(str, terms[:4]))
    question = rng.choice(
        [
            "What comes next: {s}, ...?",
            "Find the next number in the sequence {s}.",
            "The sequence {s} goes on in the same way. What is the next number?",
        ]
    ).format(s=shown)
    reasoning = (
        f"Find the step. {STEPS['-'](terms[1], terms[0])} "
        f"The last is {terms[3]}. {STEPS['+'](terms[3], step)}"
    )
    return _answered("sequence", question, reasoning, terms[4])


def order(rng: Random) -> Example:
    """Three people put in order by two comparisons, given in either order and direction."""
    more, most, least = rng.choice(ORDERS)
    people = rng.sample(NAMES, 3)
    facts = [f"{people[0]} is {more} than {people[1]}", f"{people[1]} is {more} than {people[2]}"]
    if rng.random() < 0.5:
        facts.reverse()
    asked = rng.choice([most, least])
    question = f"{facts[0]}. {facts[1]}. Who is the {asked}?"
    reasoning = (
        f"From {most} to {least}: {people[0]}, {people[1]}, {people[2]}. "
        f"The question is who is {asked}."
    )
    answer = people[0] if asked == most else people[2]
    return _answered("order", question, reasoning, answer)


def perimeter(rng: Random) -> Example:
    """The perimeter of a rectangle, or what is missing to a sum of angles."""
    if rng.random() < 0.5:
        left, right = _number(rng, [1, 2, 2]), _number(rng, [1, 2, 2])
        question = f"A rectangle is {left} cm long and {right} cm wide. What is its perimeter?"
        reasoning = f"Add the sides. {STEPS['+'](left, right)} Twice. "
        reasoning += STEPS["*"](left + right, 2)
        return _answered("perimeter", question, reasoning, 2 * (left + right))
    left, right = rng.randint(20, 80), rng.randint(20, 80)
    question = f"Two angles of a triangle are {left} and {right} degrees. What is the third angle?"
    reasoning = f"The sum is 180. {STEPS['+'](left, right)} {STEPS['-'](180, left + right)}"
    return _answered("perimeter", question, reasoning, 180 - left - right)
