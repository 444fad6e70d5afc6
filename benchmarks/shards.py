"""What storing samples costs, beside what a user would use instead, all in one run.

    python benchmarks/shards.py [--samples N] [--folder DIR]

Ids: real text (the sources of Python's library) by a vocabulary in the order of frequency, as that
of a tokenizer is; 2,000 output tokens a sample on average, 200 of prompt.
CPU time of this process (the writer's thread included), not wall time: the machine may be shared.
Exit code 1 when a limit is not met.
"""

import argparse
import functools
import io
import random
import re
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zstandard

from runner.ledger import sample_keying
from runner.records import Sample
from runner.shards import ShardReader, ShardWriter, verify

LEVEL = 3
MAX_BYTES_PER_TOKEN = 1.25
MAX_TIMES_PLAIN = 1.3
MAX_LOOKUP_MS = 2.0
MIN_QUICK, MIN_FULL = 60e6, 15e6
"""Tokens per CPU second."""
LOOKED_UP_AMONG = 100_000
ROUNDS = 9
MAX_OWN_RATIO, RARE = 4, 3
PIECE = re.compile(r" ?[A-Za-z]+|\d{1,3}| ?[^\sA-Za-z\d]+\n*|\s+(?!\S)|\s+")


@functools.cache
def text_ids() -> list[int]:
    """Two million ids of text: the files of Python's own library but those that repeat themselves
    (their own zstd-9 ratio is above 4, the rule of the format's first measurements), cut as a
    byte-pair vocabulary cuts it, the frequent pieces low. 10 bits of entropy an id."""
    stdlib, zstd = Path(sysconfig.get_paths()["stdlib"]), zstandard.ZstdCompressor(9)
    pieces: list[str] = []
    for path in sorted(p for p in stdlib.rglob("*.py") if "site-packages" not in p.parts):
        text = path.read_text(errors="replace")
        raw = text.encode()
        if len(raw) <= MAX_OWN_RATIO * len(zstd.compress(raw)):
            pieces += PIECE.findall(text)
    often = Counter(pieces)
    whole = [
        part
        for piece in pieces
        for part in ([piece] if often[piece] > RARE else re.findall(".{1,4}", piece, re.S))
    ]
    rank = {piece: number for number, (piece, _) in enumerate(Counter(whole).most_common())}
    return [rank[piece] for piece in whole]


class Text:
    """Stretches of text, one behind the other: no sample repeats another."""

    def __init__(self) -> None:
        self.at = 0

    def next(self, count: int) -> list[int]:
        text = text_ids()
        if self.at + count > len(text):
            self.at = 0
        self.at += count
        return text[self.at - count : self.at]


def samples(count: int, *, tokens: int = 2000) -> Iterator[Sample]:
    rng, text = np.random.default_rng(7), Text()
    for row in range(count):
        output = text.next(max(8, int(rng.gamma(2.0, tokens / 2.0))))
        prompt = text.next(200 if tokens > 100 else 8)
        yield Sample(
            run_id="bench-B4-thinking-recommended-0123abcd",
            sample_id=f"B4-{row}-0",
            category="B4",
            source="",
            row=row,
            turn=0,
            k=0,
            try_=0,
            prompt_hash=f"{row * 2654435761:032x}",
            mode="thinking",
            sampling_digest="0123456789abcdef",
            input_ids=prompt,
            output_ids=output,
            finish="stop",
            matched_token=output[-1],
            matched_text="",
            finish_length=-1,
            requested_max_new_tokens=32768,
            prompt_echo="same",
            prompt_tokens=len(prompt),
            completion_tokens=len(output),
            cached_tokens=0,
            retractions=0,
            weight_version="default",
            endpoint="http://127.0.0.1:30000",
            launch=1,
            attempt=1,
            sent_at=1_700_000_000.123 + row,
            finished_at=1_700_000_050.456 + row,
            latency_s=50.333,
        )


def cpu(work: Callable[[], Any], *, times: int = 3) -> tuple[float, Any]:
    """The best of some: (CPU seconds, what it gave)."""
    return in_turn(work, times=times)[0]


def in_turn(*works: Callable[[], Any], times: int = ROUNDS) -> list[tuple[float, Any]]:
    """For each the best of some rounds: (CPU seconds, what it gave). One after the other in each
    round, so that what else the machine does slows one as it does the other."""
    best: list[tuple[float, Any]] = [(float("inf"), None)] * len(works)
    for _ in range(times):
        for number, work in enumerate(works):
            start = time.process_time()
            result = work()
            best[number] = min(best[number][0], time.process_time() - start), result
    return best


def write_shards(folder: Path, lines: list[bytes]) -> None:
    for old in folder.glob("*"):
        old.unlink()
    with ShardWriter(folder, keying=sample_keying, level=LEVEL) as writer:
        for line in lines:
            writer.put(line)


def write_plain(path: Path, lines: list[bytes]) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor(LEVEL).stream_writer(file) as out:
        for line in lines:
            out.write(line + b"\n")


def read_plain(path: Path) -> int:
    with zstandard.open(path, "rb") as file:
        return sum(1 for _ in io.BufferedReader(file))


def bytes_in(folder: Path, pattern: str = "*") -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        missed = compare(folder, asked.samples) + look_up(folder)
    for one in missed:
        print(f"MISSED: {one}")
    return int(bool(missed))


def compare(folder: Path, count: int) -> list[str]:
    made = list(samples(count))
    tokens = sum(len(one.input_ids) + len(one.output_ids) for one in made)
    lines = [msgspec.json.encode(one) for one in made]
    ours, plain = folder / "ours", folder / "plain.jsonl.zst"
    (encode_s, _), (plain_encode_s, _) = in_turn(
        lambda: write_shards(ours, lines), lambda: write_plain(plain, lines)
    )
    (decode_s, found), (plain_decode_s, plain_found) = in_turn(
        lambda: sum(1 for _ in ShardReader(ours).lines()), lambda: read_plain(plain)
    )
    assert found == plain_found == count
    table = pa.Table.from_pylist([msgspec.to_builtins(one) for one in made])
    parquet, arrow = folder / "samples.parquet", folder / "samples.arrow"
    parquet_s, _ = cpu(lambda: pq.write_table(table, parquet, compression="zstd"))
    arrow_s, _ = cpu(lambda: write_arrow(table, arrow))
    parquet_read_s, _ = cpu(lambda: pq.read_table(parquet))
    arrow_read_s, _ = cpu(lambda: pyarrow.ipc.open_file(str(arrow)).read_all())
    quick_s, quick = cpu(lambda: verify(ours))
    full_s, full = cpu(lambda: verify(ours, full=True, keying=sample_keying))
    assert quick.ok
    assert full.ok
    size = bytes_in(ours, "*.zst")
    print(f"{count:,} samples, {tokens:,} tokens; CPU seconds")
    print(f"{'':<28}{'bytes/token':>12}{'encode':>9}{'decode':>9}")
    for name, total, encoded, decoded in (
        ("our shards", size, encode_s, decode_s),
        ("JSONL.zst, one stream", plain.stat().st_size, plain_encode_s, plain_decode_s),
        ("Parquet zstd (int64 lists)", parquet.stat().st_size, parquet_s, parquet_read_s),
        ("Arrow file, zstd", arrow.stat().st_size, arrow_s, arrow_read_s),
    ):
        print(f"{name:<28}{total / tokens:>12.3f}{encoded:>9.2f}{decoded:>9.2f}")
    print("(Parquet and Arrow: from and to columns in memory, not from and to lines)")
    encode, decode = encode_s / plain_encode_s, decode_s / plain_decode_s
    print(f"of one stream: encode {encode:.2f} times, decode {decode:.2f} times")
    print(
        f"verify: quick {tokens / quick_s / 1e6:.0f} M, full {tokens / full_s / 1e6:.0f} M tokens/s"
    )
    return failed(
        ("bytes per token", size / tokens, MAX_BYTES_PER_TOKEN),
        ("encode, times plain", encode, MAX_TIMES_PLAIN),
        ("decode, times plain", decode, MAX_TIMES_PLAIN),
        ("quick verify, s per M tokens", quick_s / tokens * 1e6, 1e6 / MIN_QUICK),
        ("full verify, s per M tokens", full_s / tokens * 1e6, 1e6 / MIN_FULL),
    )


def write_arrow(table: pa.Table, path: Path) -> None:
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_file(str(path), table.schema, options=options) as out:
        out.write_table(table)


def look_up(folder: Path) -> list[str]:
    """One sample of many, by id; the index is in memory, as in a process that looks up several."""
    many = folder / "many"
    write_shards(many, [msgspec.json.encode(s) for s in samples(LOOKED_UP_AMONG, tokens=40)])
    reader = ShardReader(many, keying=sample_keying)
    reader.get("B4-0-0")
    wanted = random.Random(3).sample(range(LOOKED_UP_AMONG), 300)
    start = time.process_time()
    for row in wanted:
        assert reader.get(f"B4-{row}-0") is not None
    each_ms = (time.process_time() - start) / len(wanted) * 1000
    print(f"one sample of {LOOKED_UP_AMONG:,} by id: {each_ms:.2f} ms CPU")
    return failed(("look-up, ms", each_ms, MAX_LOOKUP_MS))


def failed(*limits: tuple[str, float, float]) -> list[str]:
    """The figures that are above their limit, as text."""
    return [f"{name} {found:.3g}, limit {most:.3g}" for name, found, most in limits if found > most]


if __name__ == "__main__":
    sys.exit(main())
