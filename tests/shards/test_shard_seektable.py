"""The seek table: exact, or BadFrame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.shards.frames import BadFrame, Frame
from runner.shards.seektable import make_seek_table, read_seek_table, table_bytes

U32 = st.integers(1, 2**32 - 1)


def reading(data):
    return lambda offset, count: data[offset : offset + count]


def table_of(data):
    return read_seek_table(reading(data), len(data))


def laid_out(sizes):
    frames, offset = [], 0
    for size, raw_size, checksum in sizes:
        frames.append(Frame(offset, size, raw_size, checksum))
        offset += size
    return frames


@given(st.lists(st.tuples(st.integers(1, 100), U32, U32), min_size=1, max_size=30))
def test_a_table_tells_its_frames(sizes):
    frames = laid_out(sizes)
    table = make_seek_table(frames)
    assert len(table) == table_bytes(len(frames))
    assert table_of(bytes(frames[-1].end) + table) == frames


FRAMES = laid_out([(20, 100, 1), (30, 200, 2)])
SEALED = bytes(50) + make_seek_table(FRAMES)


def test_the_bytes_are_those_of_the_standard():
    assert make_seek_table(FRAMES).hex() == (
        "5e2a4d1821000000" "140000006400000001000000" "1e000000c800000002000000"
        "02000000" "80" "b1ea928f"
    )  # fmt: skip


@pytest.mark.parametrize("size", range(len(SEALED)))
def test_a_cut_table_is_bad(size):
    with pytest.raises(BadFrame):
        table_of(SEALED[:size])


def test_bytes_between_frames_and_table_are_bad():
    with pytest.raises(BadFrame, match="50 bytes of frames; there are 51"):
        table_of(bytes(51) + make_seek_table(FRAMES))


def test_no_flipped_bit_changes_the_layout():
    """What a flip of a raw size or checksum does is seen when the frame itself is read."""
    for bit in range(8 * 50, 8 * len(SEALED)):
        data = bytearray(SEALED)
        data[bit // 8] ^= 1 << bit % 8
        try:
            found = table_of(bytes(data))
        except BadFrame:
            continue
        assert [frame[:2] for frame in found] == [frame[:2] for frame in FRAMES], bit


def test_a_table_of_nothing_is_bad():
    with pytest.raises(BadFrame):
        table_of(make_seek_table([]))


def test_a_count_that_reaches_before_the_file_is_bad():
    data = bytearray(SEALED)
    data[-9:-5] = (2**31).to_bytes(4, "little")
    with pytest.raises(BadFrame):
        table_of(bytes(data))
