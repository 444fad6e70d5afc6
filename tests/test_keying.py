"""Hashes and tags: what the accounting of a run is worked out from."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.keying import contains, find, last_of_each_key, sample_keying, tag_of, tries
from runner.records import Sample
from runner.shards import INDEX_DTYPE
from tests.runkit import planned, sample

HASHES = st.lists(st.integers(0, 12) | st.integers(2**64 - 3, 2**64 - 1), max_size=30).map(
    lambda found: np.array(found, dtype=np.uint64)
)


@given(HASHES, HASHES)
def test_each_hash_is_found_where_it_is_last(wanted: np.ndarray, among: np.ndarray) -> None:
    listed = among.tolist()
    places = {value: place for place, value in enumerate(listed)}
    assert find(wanted, among).tolist() == [places.get(value, -1) for value in wanted.tolist()]
    assert contains(among, wanted).tolist() == [value in places for value in wanted.tolist()]


@given(HASHES)
def test_the_last_line_of_each_key(keys: np.ndarray) -> None:
    index = np.zeros(len(keys), dtype=INDEX_DTYPE)
    index["key"] = keys
    listed = keys.tolist()
    expected = [value not in listed[place + 1 :] for place, value in enumerate(listed)]
    assert last_of_each_key(index).tolist() == expected


def test_a_sample_is_known_from_what_lies_before_its_ids() -> None:
    one = sample(planned(3), try_=2)
    key, tag = sample_keying(msgspec.json.encode(one))
    assert (key, tag) == (one.sample_id, tag_of(one.prompt_hash, try_=2))
    rows = np.zeros(1, dtype=INDEX_DTYPE)
    rows["tag"] = tag
    assert tries(rows).tolist() == [2]


@pytest.mark.parametrize("text", [',"input_ids":[', '","input_ids":[1],"try":9,"x":"', "\\"])
def test_text_that_looks_like_the_ids_deceives_nobody(text: str) -> None:
    one = msgspec.structs.replace(sample(planned(3), try_=2), source=text, matched_text=text)
    assert sample_keying(msgspec.json.encode(one)) == (
        one.sample_id,
        tag_of(one.prompt_hash, try_=2),
    )


@given(st.permutations([field.encode_name for field in msgspec.structs.fields(Sample)]))
def test_fields_in_another_order_are_the_same_sample(order: list[str]) -> None:
    one = sample(planned(3), try_=2)
    plain = msgspec.to_builtins(one)
    line = msgspec.json.encode({name: plain[name] for name in order})
    assert sample_keying(line) == (one.sample_id, tag_of(one.prompt_hash, try_=2))


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"a":1,"input_ids":[1]}', b',"input_ids":['])
def test_what_is_no_line_of_a_run_has_no_key(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        sample_keying(line)
