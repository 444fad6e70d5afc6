"""Families of tools: names, descriptions and parameter names vary, what is asked stays the same.

The variation is the lesson: the model has to read the declared schema to call the tool rightly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from .example import Schema
from .reasoning import NAMES

CITIES = [
    "Paris",
    "Rome",
    "Tokyo",
    "Berlin",
    "Madrid",
    "Oslo",
    "Cairo",
    "Lima",
    "Delhi",
    "Seoul",
    "Boston",
    "Vienna",
    "Dublin",
    "Prague",
    "Athens",
    "Lisbon",
    "Warsaw",
    "Helsinki",
    "Nairobi",
    "Toronto",
    "Sydney",
    "Chicago",
    "Denver",
    "Mumbai",
    "Bangkok",
    "Hanoi",
    "Zurich",
    "Geneva",
    "Munich",
    "Hamburg",
    "New York",
    "San Francisco",
    "Mexico City",
    "Cape Town",
    "Hong Kong",
    "Buenos Aires",
    "Singapore",
    "Istanbul",
    "Budapest",
    "Brussels",
    "Copenhagen",
    "Stockholm",
    "Dubai",
    "Jakarta",
    "Manila",
    "Bogota",
    "Quito",
]
CURRENCIES = ["USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "INR", "SEK", "NOK", "BRL", "MXN"]
UNIT_PAIRS = [
    ("km", "miles"),
    ("miles", "km"),
    ("kg", "pounds"),
    ("pounds", "kg"),
    ("meters", "feet"),
    ("feet", "meters"),
    ("liters", "gallons"),
    ("gallons", "liters"),
    ("inches", "cm"),
    ("cm", "inches"),
]
CHORES = [
    "call mom",
    "buy milk",
    "water the plants",
    "pay the rent",
    "take the pills",
    "send the report",
    "book the flight",
    "feed the cat",
    "clean the car",
    "join the meeting",
    "return the books",
    "check the oven",
]
TOPICS = [
    "solar panels",
    "the history of tea",
    "electric cars",
    "black holes",
    "bread recipes",
    "the Roman empire",
    "coral reefs",
    "chess openings",
    "rain forests",
    "jazz music",
    "the Olympic games",
    "marathon training",
    "ancient Egypt",
    "volcanoes",
    "renewable energy",
    "deep sea fish",
]
LANGUAGES = ["French", "German", "Spanish", "Italian", "Japanese", "Polish", "Swedish", "Hindi"]
PHRASES = ["good morning", "thank you", "where is the station", "see you soon", "I am hungry"]
TICKERS = ["AAPL", "MSFT", "NVDA", "AMZN", "TSLA", "IBM", "INTC", "ORCL", "SAP", "SONY"]
SKIES = ["sunny", "cloudy", "rainy", "windy", "snowy", "foggy"]
Values = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """A role (what the task means by it), the names a schema may give it, and its JSON type."""

    role: str
    names: tuple[str, ...]
    kind: str
    description: str
    required: bool = True


@dataclass(frozen=True)
class Family:
    """One kind of tool. `draw` makes the values of a request, `result` a tool's answer to it.

    `requests` and `goals` are templates over those values; `reply` over values and result.
    """

    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    draw: Callable[[Random], Values]
    requests: tuple[str, ...]
    goal: str
    result: Callable[[Random, Values], Values]
    reply: str


@dataclass(frozen=True)
class Tool:
    """A family with its names chosen: what one prompt declares."""

    family: Family
    name: str
    schema: Schema
    names: dict[str, str]

    def arguments(self, values: Values) -> dict[str, Any]:
        """The call's arguments under this schema's parameter names, in declared order."""
        return {name: values[role] for role, name in self.names.items() if role in values}


def declare(family: Family, rng: Random) -> Tool:
    """Choose a name, a description and parameter names."""
    name = rng.choice(family.names)
    names = {p.role: rng.choice(p.names) for p in family.parameters}
    properties: dict[str, Any] = {}
    verbose = rng.random() < 0.5
    for parameter in family.parameters:
        entry = {"type": parameter.kind}
        if verbose:
            entry["description"] = parameter.description
        properties[names[parameter.role]] = entry
    required = [names[p.role] for p in family.parameters if p.required]
    schema: Schema = {
        "type": "function",
        "function": {
            "name": name,
            "description": rng.choice(family.descriptions),
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }
    return Tool(family, name, schema, names)


def _city(rng: Random) -> Values:
    return {"city": rng.choice(CITIES)}


def _expression(rng: Random) -> Values:
    left, right = rng.randint(2, 9999), rng.randint(2, 999)
    operator, word = rng.choice([("+", "plus"), ("-", "minus"), ("*", "times")])
    return {"expression": f"{left}{operator}{right}", "_a": left, "_b": right, "_w": word}


def _expression_result(rng: Random, values: Values) -> Values:
    left, right = values["_a"], values["_b"]
    return {"result": {"plus": left + right, "minus": left - right}.get(values["_w"], left * right)}


def _currency(rng: Random) -> Values:
    source, target = rng.sample(CURRENCIES, 2)
    return {"amount": rng.randint(1, 2000), "from": source, "to": target}


def _units(rng: Random) -> Values:
    source, target = rng.choice(UNIT_PAIRS)
    return {"value": rng.randint(1, 500), "from": source, "to": target}


def _reminder(rng: Random) -> Values:
    hour, minute = rng.randint(0, 23), rng.choice([0, 15, 30, 45])
    return {"text": rng.choice(CHORES), "time": f"{hour:02d}:{minute:02d}"}


def _message(rng: Random) -> Values:
    return {"to": rng.choice(NAMES), "text": rng.choice([*PHRASES, *CHORES])}


FAMILIES: dict[str, Family] = {
    "calculator": Family(
        ("calculator", "calculate", "evaluate_expression", "math_eval"),
        ("Evaluate an arithmetic expression.", "A calculator.", "Compute the value of a formula."),
        (Parameter("expression", ("expression", "formula", "input"), "string", "e.g. 2+3*4"),),
        _expression,
        (
            "Use the tool to compute {_a} {_w} {_b}.",
            "What is {_a} {_w} {_b}? Use a tool.",
            "Please calculate {expression} with the calculator.",
            "I need the exact value of {expression}. Use the tool.",
        ),
        "the value of {expression}",
        _expression_result,
        "The result is {result}.",
    ),
    "weather": Family(
        ("get_weather", "current_weather", "weather_lookup", "weather"),
        ("Get the current weather in a city.", "Weather now at a place.", "Look up the weather."),
        (Parameter("city", ("city", "location", "place"), "string", "Name of the city"),),
        _city,
        (
            "What is the weather in {city}?",
            "How is the weather in {city} right now?",
            "Is it cold in {city} today?",
            "Do I need an umbrella in {city}?",
            "Tell me the current temperature in {city}.",
        ),
        "the weather in {city}",
        lambda rng, values: {"temperature": rng.randint(-9, 39), "sky": rng.choice(SKIES)},
        "It is {temperature} degrees and {sky} in {city}.",
    ),
    "currency": Family(
        ("convert_currency", "currency_converter", "exchange", "exchange_money"),
        ("Convert money between currencies.", "Exchange an amount of money."),
        (
            Parameter("amount", ("amount", "value"), "number", "How much money"),
            Parameter("from", ("from", "from_currency", "source"), "string", "Currency code"),
            Parameter("to", ("to", "to_currency", "target"), "string", "Currency code"),
        ),
        _currency,
        (
            "Convert {amount} {from} to {to}.",
            "How much is {amount} {from} in {to}?",
            "I have {amount} {from}. How many {to} do I get?",
        ),
        "{amount} {from} in {to}",
        lambda rng, values: {"amount_out": rng.randint(1, 3000)},
        "{amount} {from} is {amount_out} {to}.",
    ),
    "units": Family(
        ("convert_units", "unit_converter", "unit_convert"),
        ("Convert between units.", "Convert a measurement to another unit."),
        (
            Parameter("value", ("value", "amount", "quantity"), "number", "The number to convert"),
            Parameter("from", ("from_unit", "from", "unit_from"), "string", "Unit to start from"),
            Parameter("to", ("to_unit", "to", "unit_to"), "string", "Unit to end in"),
        ),
        _units,
        (
            "Convert {value} {from} to {to}.",
            "How many {to} are {value} {from}?",
            "What is {value} {from} in {to}?",
        ),
        "{value} {from} in {to}",
        lambda rng, values: {"converted": rng.randint(1, 1500)},
        "{value} {from} is {converted} {to}.",
    ),
    "time": Family(
        ("get_time", "current_time", "world_clock", "local_time"),
        ("Get the local time in a city.", "What time it is somewhere.", "Clock for a city."),
        (Parameter("city", ("city", "location", "place"), "string", "Name of the city"),),
        _city,
        (
            "What time is it in {city}?",
            "Tell me the local time in {city}.",
            "Is it already night in {city}? Give me the time there.",
        ),
        "the time in {city}",
        lambda rng, values: {"time": f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"},
        "It is {time} in {city}.",
    ),
    "reminder": Family(
        ("set_reminder", "create_reminder", "add_reminder"),
        ("Set a reminder.", "Create a reminder for a time.", "Remind the user of something."),
        (
            Parameter("text", ("text", "message", "title"), "string", "What to be reminded of"),
            Parameter("time", ("time", "at", "when"), "string", "Time as HH:MM"),
        ),
        _reminder,
        (
            "Remind me to {text} at {time}.",
            "Set a reminder to {text} at {time}.",
            "At {time} I have to {text}. Please remind me.",
        ),
        "a reminder to {text} at {time}",
        lambda rng, values: {"status": "ok"},
        "Done. I will remind you to {text} at {time}.",
    ),
    "search": Family(
        ("search", "web_search", "search_web", "find_pages"),
        ("Search the web.", "Find pages about a topic.", "Full text search."),
        (Parameter("query", ("query", "q", "terms"), "string", "What to look for"),),
        lambda rng: {"query": rng.choice(TOPICS)},
        (
            "Search for {query}.",
            "Find pages about {query}.",
            "Look up {query} on the web.",
            "I want to read about {query}. Search for it.",
        ),
        "pages about {query}",
        lambda rng, values: {"hits": rng.randint(2, 90)},
        "I found {hits} pages about {query}.",
    ),
    "translate": Family(
        ("translate", "translate_text"),
        ("Translate text into a language.", "Translate a phrase."),
        (
            Parameter("text", ("text", "phrase"), "string", "What to translate"),
            Parameter("to", ("language", "target_language", "to"), "string", "Language to use"),
        ),
        lambda rng: {"text": rng.choice(PHRASES), "to": rng.choice(LANGUAGES)},
        ("Translate '{text}' into {to}.", "How do you say '{text}' in {to}? Use the tool."),
        "'{text}' in {to}",
        lambda rng, values: {"status": "ok"},
        "Done. '{text}' is now in {to}.",
    ),
    "message": Family(
        ("send_message", "send_email", "send_text"),
        ("Send a message to a person.", "Send a short text."),
        (
            Parameter("to", ("to", "recipient"), "string", "Name of the person"),
            Parameter("text", ("text", "body", "message"), "string", "What to say"),
        ),
        _message,
        ("Send {to} the message '{text}'.", "Tell {to}: {text}.", "Write '{text}' to {to}."),
        "to send '{text}' to {to}",
        lambda rng, values: {"status": "sent"},
        "Done. I sent '{text}' to {to}.",
    ),
    "stock": Family(
        ("get_stock_price", "stock_quote", "share_price"),
        ("Get the price of a share.", "Look up a stock price."),
        (Parameter("ticker", ("ticker", "symbol"), "string", "Ticker symbol"),),
        lambda rng: {"ticker": rng.choice(TICKERS)},
        ("What is the price of {ticker}?", "How much is one share of {ticker}?"),
        "the price of {ticker}",
        lambda rng, values: {"price": rng.randint(5, 900)},
        "One share of {ticker} costs {price} dollars.",
    ),
}
