"""What a server's log tells: its last lines that say something, and the likely cause of death.

Pure functions over text, but for `tail_text` and `tail_lines`, which read the end of a file, and
`LogLife`, which follows one.
Patterns were collected from the messages of SGLang 0.5.x, PyTorch, Transformers and llama.cpp; an
unknown message only means that no cause is named, the lines are shown in any case.
"""

import re
from pathlib import Path

from runner.records import Record

TAIL_BYTES = 1 << 16
READ_BYTES = 1 << 20
"""Read at once; a log that grows faster than this between two looks is alive in any case."""
ASKED = re.compile(rb'"(GET|HEAD) /\S* HTTP/[\d.]+"')
"""Access lines of uvicorn for questions about the server itself."""
CAUSE_LINES = 200
"""How far back a cause is looked for: the tracebacks of eight processes, not the whole start."""
HARMLESS = re.compile(r"\bignor(e|ed|ing)\b|\bskip(ped|ping)?\b|Warning\b", re.IGNORECASE)
"""SGLang says `Ignore import error when loading ...` for every model that it cannot import."""
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MEANINGLESS = re.compile(r"^[\s\-=*^~|#.]*$|^\s+\[-")
"""Nothing but rules, and the usage lines that argparse prints before what is wrong."""
LINE_CHARS = 400


class Cause(Record, frozen=True, kw_only=True):
    """A known way to die: a short key for code, a sentence for a person."""

    key: str
    sentence: str


def _cause(key: str, sentence: str, *patterns: str) -> tuple[re.Pattern[str], Cause]:
    return re.compile("|".join(patterns), re.IGNORECASE), Cause(key=key, sentence=sentence)


CAUSES: list[tuple[re.Pattern[str], Cause]] = [
    _cause(
        "port_in_use",
        "the port is taken by another process: choose another server.port, or 0 for a free one",
        r"address already in use",
        r"port \d+ .{0,40}(is|already) (in use|taken|occupied)",
        r"couldn't bind",
        r"errno 98\b",
    ),
    _cause(
        "kv_too_small",
        "no memory is left for the KV cache: raise mem_fraction_static in server.flags, lower "
        "context-length, or spread the model over more GPUs",
        r"increase [`'\"]?(--)?mem[-_]fraction[-_]static",
        r"\(increase .{0,20}mem.fraction.static",
    ),
    _cause(
        "out_of_memory",
        "out of memory: lower mem_fraction_static, chunked_prefill_size or max_running_requests "
        "in server.flags (llama.cpp: n_ctx, n_parallel), or free the device",
        r"out of memory",
        r"OutOfMemoryError",
        r"not enough memory",
        r"cannot allocate memory",
        r"(unable|failed) to allocate",
        r"std::bad_alloc",
        r"MemoryError",
        r"hipErrorOutOfMemory",
    ),
    _cause(
        "missing_package",
        "a Python package is missing in the server's environment: check server.python",
        r"ModuleNotFoundError",
        r"No module named",
        r"ImportError: cannot import name",
    ),
    _cause(
        "unknown_flag",
        "the server does not know a flag or its value: check the names in server.flags",
        r"unrecognized arguments?",
        r"unknown flag",
        r"unknown argument",
        r"invalid choice",
        r"error: argument ",
        r"error: ambiguous option",
        r"flag .{1,80} (expects|allows) ",
    ),
    _cause(
        "needs_remote_code",
        "the model's repository has code of its own: read it, then set model.trust_remote_code",
        r"trust_remote_code=True",
        r"requires you to execute the .{0,40} file",
    ),
    _cause(
        "no_access",
        "the model's repository refuses access: accept its licence and log in, or use a local copy",
        r"GatedRepoError",
        r"gated repo",
        r"40[13] Client Error",
    ),
    _cause(
        "missing_model",
        "the model's files were not found: check the model's path or id, and that it is downloaded",
        r"model file .{0,300} (not found|does not exist|is missing)",
        r"failed to (open|load) (GGUF|model)",
        r"gguf_init_from_file",
        r"model loading error",
        r"Repository ?Not ?Found",
        r"LocalEntryNotFoundError",
        r"is not a local folder and is not a valid model identifier",
        r"Can(not|'t) (find any model weights|load the configuration|load tokenizer)",
        r"does not appear to have a file named",
        r"FileNotFoundError.{0,300}\.(safetensors|json|gguf|bin|model)",
        r"SafetensorError",
    ),
    _cause(
        "no_gpu",
        "no usable GPU: check the driver, CUDA_VISIBLE_DEVICES and that torch is the GPU build",
        r"no CUDA-capable device",
        r"CUDA driver version is insufficient",
        r"Found no NVIDIA driver",
        r"Torch not compiled with CUDA",
        r"No (accelerator|supported device)",
        r"invalid device ordinal",
    ),
    _cause(
        "gpu_error",
        "the GPU or its driver failed: look at dmesg for Xid lines and at nvidia-smi",
        r"illegal memory access",
        r"device-side assert",
        r"uncorrectable ECC",
        r"CUDA error",
        r"unspecified launch failure",
    ),
    _cause(
        "collective_error",
        "the GPUs could not talk to each other (NCCL): check the topology and NCCL_* variables",
        r"NCCL (error|WARN)",
        r"ncclSystemError",
        r"ncclUnhandledCudaError",
    ),
    _cause(
        "watchdog",
        "the server's own watchdog found it stuck and ended it",
        r"watchdog timeout",
        r"soft watchdog",
    ),
    _cause("disk_full", "the disk is full", r"no space left on device"),
    _cause("open_files", "too many open files: raise `ulimit -n`", r"too many open files"),
    _cause(
        "child_died",
        "one of the server's own processes died: often the kernel's out-of-memory killer (dmesg)",
        r"Subprocess \S+ .{0,40}crashed",
        r"SIGQUIT received.{0,80}one child failed",
    ),
]
SIGNAL_CAUSES = {
    "SIGKILL": "killed from outside: often the kernel's out-of-memory killer (look at dmesg), or "
    "SGLang ending its own tree after one of its processes died",
    "SIGILL": "this build of the server needs CPU instructions that this machine lacks",
    "SIGBUS": "bus error: often a full /dev/shm",
    "SIGSEGV": "the server crashed (segmentation fault): a bug in it, or in a driver",
    "SIGABRT": "the server aborted itself: see its last lines",
}


def find_cause(log_tail: str) -> Cause | None:
    """The first cause in table order of which the last lines show a sign."""
    lines = meaningful_lines(log_tail, count=CAUSE_LINES)
    text = "\n".join(line for line in lines if not HARMLESS.search(line))
    return next((cause for pattern, cause in CAUSES if pattern.search(text)), None)


def likely_cause(log_tail: str, *, signal: str | None = None) -> str:
    """A sentence for a person on why a server died, from its log and its signal; "" if unknown."""
    cause = find_cause(log_tail)
    if cause is not None:
        return cause.sentence
    return SIGNAL_CAUSES.get(signal or "", "")


def meaningful_lines(text: str, *, count: int) -> list[str]:
    """The last `count` lines that say something: no blank ones, rules, colours, repetitions; long
    ones are cut; of a progress bar (redrawn by carriage returns) only its last state."""
    kept: list[str] = []
    for line in text.split("\n"):
        shown = ANSI.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()[:LINE_CHARS]
        if not MEANINGLESS.match(shown) and kept[-1:] != [shown]:
            kept.append(shown)
    return kept[-count:] if count else []


def tail_text(path: Path, *, max_bytes: int = TAIL_BYTES, since_bytes: int = 0) -> str:
    """The end of a file as text, of what came after the first `since_bytes`, from a whole line on;
    "" when the file does not exist."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(since_bytes, size - max_bytes))
        text = file.read(max_bytes).decode(errors="replace")
    return text if size - since_bytes <= max_bytes else text.partition("\n")[2]


class LogLife:
    """How far a log has grown, not counting the lines that our own questions leave in it.

    A server that answers /health with 503 for ever, or whose load is asked for while it hangs,
    writes one access line for each: that is no life.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = 0
        self._bytes = 0

    def bytes(self) -> int:
        """Bytes so far of lines that say something. Reads what is new."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            data = file.read(READ_BYTES)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) == READ_BYTES and not end:
            end = len(data)
        self._read_to += end
        self._bytes += sum(len(line) for line in data[:end].splitlines() if not ASKED.search(line))
        return self._bytes


def tail_lines(path: Path, *, count: int) -> list[str]:
    return meaningful_lines(tail_text(path), count=count)
