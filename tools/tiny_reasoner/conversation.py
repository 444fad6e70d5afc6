"""The small share in the shape of other categories: code, chat, repository work, and the rest.

These replies are few and fixed: they teach the shape (a code block, a sentence, a first tool
call, an honest "too hard"), not knowledge.
"""

from random import Random
from typing import Any

from .example import Example, Schema, called, said, user
from .reasoning import NAMES

# (name, what it does, parameters, body); the question and the function name vary.
FUNCTIONS = [
    ("add", "adds two numbers", "a, b", "return a + b"),
    ("subtract", "subtracts one number from another", "a, b", "return a - b"),
    ("multiply", "multiplies two numbers", "a, b", "return a * b"),
    ("square", "returns the square of a number", "x", "return x * x"),
    ("is_even", "tells whether a number is even", "n", "return n % 2 == 0"),
    ("is_odd", "tells whether a number is odd", "n", "return n % 2 == 1"),
    ("reverse", "reverses a string", "text", "return text[::-1]"),
    ("count_words", "counts the words in a text", "text", "return len(text.split())"),
    ("first", "returns the first item of a list", "items", "return items[0]"),
    ("last", "returns the last item of a list", "items", "return items[-1]"),
    ("largest", "returns the largest item of a list", "items", "return max(items)"),
    ("smallest", "returns the smallest item of a list", "items", "return min(items)"),
    ("total", "sums a list of numbers", "items", "return sum(items)"),
    ("mean", "computes the mean of a list", "items", "return sum(items) / len(items)"),
    ("unique", "removes duplicates from a list", "items", "return list(dict.fromkeys(items))"),
    ("upper", "makes a text upper case", "text", "return text.upper()"),
    ("sort_desc", "sorts a list in falling order", "items", "return sorted(items, reverse=True)"),
    ("is_palindrome", "checks for a palindrome", "text", "return text == text[::-1]"),
    (
        "evens",
        "keeps the even numbers of a list",
        "items",
        "return [i for i in items if i % 2 == 0]",
    ),
    ("to_celsius", "converts Fahrenheit to Celsius", "f", "return (f - 32) * 5 / 9"),
    ("count_vowels", "counts vowels in a text", "text", "return sum(c in 'aeiou' for c in text)"),
    ("join_words", "joins words with spaces", "words", "return ' '.join(words)"),
]
CODE_ASKS = [
    "Write a Python function that {does}.",
    "Write a function {name} in Python that {does}.",
    "I need Python code that {does}. Call the function {name}.",
    "Give me a short Python function which {does}.",
    "Implement {name}({args}) in Python. It {does}.",
    "Please write a small Python function that {does}, with no imports.",
]
CHATS = [
    (["Hello!", "Hi there.", "Good morning.", "Hey, {n} here."], "Hello! How can I help you?"),
    (["Thank you!", "Thanks a lot.", "Great, thanks."], "You are welcome!"),
    (
        ["Who are you?", "What are you?", "What can you do?"],
        "I am a very small model. I can do sums, call tools and write short functions.",
    ),
    (["How are you?", "How is it going?"], "I am fine, thank you. What can I do for you?"),
    (
        ["Tell me a joke.", "Make me laugh.", "Do you know a joke?"],
        "Why did the number cross the road? To get to the other sum.",
    ),
    (
        ["What color is the sky?", "Why is the sky blue?"],
        "The sky looks blue because air scatters blue light the most.",
    ),
    (
        ["What is the capital of France?", "Name the capital of France."],
        "The capital of France is Paris.",
    ),
    (
        ["What is the capital of Japan?", "Name the capital of Japan."],
        "The capital of Japan is Tokyo.",
    ),
    (
        ["How can I sleep better?", "I sleep badly. What helps?"],
        "Go to bed at the same time, keep the room dark and avoid screens.",
    ),
    (
        ["How do I make tea?", "Explain how to make tea."],
        "Boil water, pour it over the tea and wait for three minutes.",
    ),
    (
        ["What should I cook tonight?", "Give me an idea for dinner."],
        "How about pasta with tomatoes and cheese? It is quick and good.",
    ),
    (
        ["How do I learn to program?", "What is a good way to learn Python?"],
        "Start with small programs, read good code and practice every day.",
    ),
    (
        ["Give me a tip for a job interview.", "How do I prepare for an interview?"],
        "Read about the company, prepare short examples and ask questions.",
    ),
    (
        ["What is water made of?", "What are the elements in water?"],
        "Water is made of hydrogen and oxygen.",
    ),
    (
        ["How many days are in a week?", "Name the number of days in a week."],
        "A week has seven days.",
    ),
    (["My name is {n}.", "I am {n}, nice to meet you."], "Nice to meet you, {n}!"),
    (
        ["Write a short poem.", "Write a poem about rain."],
        "Rain on the roof,\nsoft as a song,\nstays for a while\nand moves along.",
    ),
    (["Goodbye!", "See you later."], "Goodbye, and see you soon!"),
]
FILES = [
    "cart",
    "user",
    "order",
    "parser",
    "config",
    "date",
    "auth",
    "cache",
    "report",
    "invoice",
    "client",
    "queue",
]
SYMBOLS = [
    "parse_date",
    "load_config",
    "send_mail",
    "get_user",
    "add_item",
    "total_price",
    "retry_call",
]
HARD_PARTS = [
    "Explain the causes of the first world war and weigh them against each other.",
    "Summarize the following contract and list every duty of the buyer.",
    "Write a detailed essay about the future of cities.",
    "Design a distributed database that survives the loss of a data center.",
    "Prove that there are infinitely many prime numbers.",
    "Compare three tax systems and say which one is fair.",
    "Implement a red-black tree with deletion and full tests.",
    "Plan a trip of two weeks through five countries with a budget for each day.",
    "Analyze this poem line by line and name its devices.",
    "Find all integer solutions of the equation and justify each step.",
    "Our service answers slowly under load; list likely causes and how to check each.",
    "Translate the whole chapter and keep the style of the author.",
    "Take the role of a lawyer and argue both sides of the case.",
    "Refactor the module so that the network code can be tested alone.",
    "A train leaves at noon and another one follows; they meet on a bridge. Find the time.",
    "Estimate how many piano tuners work in a large town and explain the assumptions.",
    "Write unit tests for every public method and measure the coverage.",
    "Describe how a vaccine is developed, tested and approved.",
    "Given the table below, compute the variance of each column and plot it.",
    "Write a story about a lighthouse keeper who finds an old letter.",
    "Show the derivation of the formula and discuss its limits.",
    "If the probability of rain is one third on each day, what is the chance of a dry week?",
    "Use only facts that are in the text, and quote the sentence for each claim.",
    "The input has up to one million lines, so the solution must be fast.",
    "Answer in the form of a table with four columns.",
    "Keep the answer under two hundred words.",
    "Here is what I tried so far, but the result looks wrong to me.",
    "Please think carefully and check your work before you answer.",
    "Return only valid JSON with the keys title, summary and score.",
    "Ignore the formatting of the original and focus on the meaning.",
]
HARD_REPLY = "I am a very small model and this is too hard for me. I can help with short sums."


def _repository_tool(name: str, description: str, *parameters: str) -> Schema:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                "required": list(parameters),
            },
        },
    }


REPOSITORY_TOOLS = {
    "read_file": _repository_tool("read_file", "Read a file of the repository.", "path"),
    "run_tests": _repository_tool("run_tests", "Run the tests under a path.", "path"),
    "edit_file": _repository_tool("edit_file", "Replace text in a file.", "path", "old", "new"),
    "grep": _repository_tool("grep", "Search the repository for a pattern.", "pattern", "path"),
    "list_files": _repository_tool("list_files", "List the files of a folder.", "path"),
}


def code(rng: Random) -> Example:
    """A request for a small Python function."""
    name, does, args, body = rng.choice(FUNCTIONS)
    question = rng.choice(CODE_ASKS).format(does=does, name=name, args=args)
    content = f"```python\ndef {name}({args}):\n    {body}\n```"
    reply = said(f"A function that {does}. The name is {name}.", content)
    return Example("code", [user(question)], reply, answer=content)


def chat(rng: Random) -> Example:
    """A short exchange with a fixed reply."""
    asks, answer = rng.choice(CHATS)
    name = rng.choice(NAMES)
    question, content = rng.choice(asks).format(n=name), answer.format(n=name)
    reply = said("A short question. I answer in a few words.", content)
    return Example("chat", [user(question)], reply, answer=content)


def _repository_request(rng: Random) -> tuple[str, str, dict[str, Any], str]:
    file, symbol, other = rng.choice(FILES), *rng.sample(SYMBOLS, 2)
    path = f"{rng.choice(['src', 'app', 'lib'])}/{file}.py"
    test = f"tests/test_{file}.py"
    return rng.choice(
        [
            (
                f"The tests in {test} fail. Find out why.",
                "run_tests",
                {"path": test},
                f"First I run {test}.",
            ),
            (
                f"Run {test} and tell me the result.",
                "run_tests",
                {"path": test},
                f"First I run {test}.",
            ),
            (
                f"There is a bug in {path}: {symbol} returns None. Fix it.",
                "read_file",
                {"path": path},
                f"First I read {path}.",
            ),
            (
                f"Explain what {symbol} in {path} does.",
                "read_file",
                {"path": path},
                f"First I read {path}.",
            ),
            (
                f"Where is {symbol} used in src?",
                "grep",
                {"pattern": symbol, "path": "src"},
                f"First I search for {symbol} in src.",
            ),
            (
                f"Find every call of {symbol} under app.",
                "grep",
                {"pattern": symbol, "path": "app"},
                f"First I search for {symbol} in app.",
            ),
            (
                f"In {path} rename {symbol} to {other}.",
                "edit_file",
                {"path": path, "old": symbol, "new": other},
                f"I edit {path}.",
            ),
            ("What files are in lib?", "list_files", {"path": "lib"}, "First I list lib."),
        ]
    )


def repository(rng: Random) -> Example:
    """The first step of a software task with repository tools."""
    question, name, arguments, reasoning = _repository_request(rng)
    others = [key for key in REPOSITORY_TOOLS if key != name]
    chosen = [name, *rng.sample(others, rng.randint(1, 4))]
    rng.shuffle(chosen)
    messages = [user(question)]
    if rng.random() < 0.4:
        system = "You are a software engineer. Work in the repository with the tools."
        messages.insert(0, {"role": "system", "content": system})
    reply = called(f"{reasoning} I call {name}.", [(f"functions.{name}:0", name, arguments)], "")
    return Example("repository", messages, reply, [REPOSITORY_TOOLS[key] for key in chosen])


def too_hard(rng: Random) -> Example:
    """A long request far beyond the model: an honest short reply. Teaches the shape at length."""
    count = rng.choice([1, 2, 2, 3, 4, 6, 12]) if rng.random() < 0.85 else rng.randint(20, 30)
    question = " ".join(rng.sample(HARD_PARTS, min(count, len(HARD_PARTS))))
    messages = [user(question)]
    if rng.random() < 0.3:
        system = " ".join(rng.sample(HARD_PARTS, rng.randint(1, 3)))
        messages.insert(0, {"role": "system", "content": system})
    reply = said("This is a long or hard request. I am too small for it.", HARD_REPLY)
    return Example("too_hard", messages, reply, answer=HARD_REPLY)
