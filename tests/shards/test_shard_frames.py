"""Frames: whole and intact, or BadFrame; never other lines."""

import random
import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from runner.shards.frames import (
    BadFrame,
    decode_frame,
    find_intact_frame,
    measure_bytes,
    new_compressor,
    new_decompressor,
    split_lines,
    walk_frames,
)

LINES = st.lists(st.binary(max_size=300).filter(lambda one: b"\n" not in one), min_size=1)


def encode(content, level=3):
    return new_compressor(level).compress(content)


def decode(data):
    return decode_frame(data, new_decompressor())[1]


def reading(data):
    return lambda offset, count: data[offset : offset + count]


@given(LINES)
def test_lines_come_back(lines):
    assert split_lines(decode(encode(b"\n".join([*lines, b""])))) == lines


RAW_SIZES = [1, 255, 256, 257, 65_791, 65_792, 131_072, 300_000, 9_000_000]


@pytest.mark.parametrize("level", [1, 3, 9])
@pytest.mark.parametrize("raw_size", RAW_SIZES)
def test_a_frame_is_measured_as_long_as_it_is(raw_size, level):
    content = bytes(7 * i % 251 for i in range(1000)) * (raw_size // 1000 + 1)
    content = content.replace(b"\n", b" ")[: raw_size - 1] + b"\n"
    data = encode(content, level)
    frame = measure_bytes(data + b"more")
    assert (frame.size, frame.raw_size) == (len(data), raw_size)
    assert decode(data) == content


def test_incompressible_content_is_measured():
    data = encode(random.Random(5).randbytes(400_000).replace(b"\n", b"") + b"\n")
    assert measure_bytes(data).size == len(data)


SMALL = encode(b'{"id":"a","ids":[1,2,3]}\n{"id":"b","ids":[1,2,3,4]}\n')


@pytest.mark.parametrize("size", range(len(SMALL)))
def test_a_cut_frame_is_bad(size):
    with pytest.raises(BadFrame):
        decode(SMALL[:size])


def test_every_flipped_bit_is_bad():
    content = decode(SMALL)
    for bit in range(8 * len(SMALL)):
        data = bytearray(SMALL)
        data[bit // 8] ^= 1 << bit % 8
        try:
            assert decode(bytes(data)) == content, bit
        except BadFrame:
            continue


@given(st.binary(max_size=200))
def test_garbage_is_bad(data):
    with pytest.raises(BadFrame):
        decode(data)


@given(st.binary(max_size=60))
def test_garbage_behind_a_magic_is_bad(data):
    with pytest.raises(BadFrame):
        decode(b"\x28\xb5\x2f\xfd" + data)


def test_two_frames_are_not_one():
    with pytest.raises(BadFrame, match="bytes long"):
        decode(SMALL + SMALL)


def test_a_frame_without_checksum_is_refused():
    with pytest.raises(BadFrame, match="checksum"):
        decode(zstandard.ZstdCompressor(write_checksum=False).compress(b"a\n"))


def test_a_frame_without_content_size_is_refused():
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    with pytest.raises(BadFrame, match="content size"):
        decode(stream.compress(b"a\n") + stream.flush())


@pytest.mark.parametrize("bit", range(5))
def test_other_bits_of_the_descriptor_are_refused(bit):
    """Dictionary id, checksum, reserved and unused: zstd itself would pass over the last one."""
    data = bytearray(SMALL)
    data[4] ^= 1 << bit
    with pytest.raises(BadFrame, match="not a frame of ours"):
        decode(bytes(data))


def test_a_content_that_ends_within_a_line_is_refused():
    with pytest.raises(BadFrame, match="whole lines"):
        decode(encode(b"a\nb"))


def test_an_empty_frame_is_refused():
    with pytest.raises(BadFrame):
        decode(encode(b""))


def test_a_lie_about_the_content_size_costs_no_memory():
    """A header that asks for 1 EiB is refused before a byte is set aside for it."""
    header = b"\x28\xb5\x2f\xfd" + bytes([0b1110_0100]) + struct.pack("<Q", 2**60)
    with pytest.raises(BadFrame, match="cannot come from 1 block"):
        decode(header + SMALL[6:])


def test_a_walk_tells_why_it_stopped():
    frames, why = walk_frames(reading(SMALL * 3), 0)
    assert (len(frames), why) == (3, "")
    assert [frame.offset for frame in frames] == [0, len(SMALL), 2 * len(SMALL)]
    frames, why = walk_frames(reading(SMALL + bytes(9)), 0)
    assert len(frames) == 1
    assert "no frame begins here" in why
    frames, why = walk_frames(reading(SMALL * 2 + SMALL[:-1]), 0)
    assert len(frames) == 2
    assert "ends inside" in why


def test_an_intact_frame_is_found_behind_junk():
    junk = b"\x28\xb5\x2f\xfd junk \x28\xb5"
    data = junk + SMALL[:-2] + SMALL
    frame = find_intact_frame(reading(data), 0, len(data))
    assert frame is not None
    assert frame.offset == len(junk) + len(SMALL) - 2


def test_no_intact_frame_in_junk():
    data = SMALL[:-1] + bytes(50) + SMALL[1:]
    assert find_intact_frame(reading(data), 0, len(data)) is None


@pytest.mark.parametrize("before", [-5, -3, -1, 0, 1])
def test_a_frame_across_the_border_of_a_search_chunk_is_found(before):
    place = 4 * 2**20 + before
    data = bytes(place) + SMALL
    frame = find_intact_frame(reading(data), 0, len(data))
    assert frame is not None
    assert frame.offset == place
