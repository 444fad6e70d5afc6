"""Order and shares by hash: the same everywhere, and fair."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runner.export.layout import lay_out
from runner.export.mixing import mix, shares
from runner.export.policy import Policy
from runner.export.rows import ROW

SIZES = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 2), st.booleans()), max_size=60)


def rows_of(specs: list[tuple[int, int, bool]]) -> np.ndarray:
    rows = np.zeros(len(specs), dtype=ROW)
    for place, (tokens, run, left_out) in enumerate(specs):
        rows[place]["tokens"], rows[place]["run"] = tokens, run
        rows[place]["left_out"], rows[place]["position"] = left_out, place
        rows[place]["line_bytes"] = tokens * 5
        rows[place]["key"], rows[place]["prompt_key"] = place * 977, (place // 2) << 8
    return rows


def test_the_order_is_a_fixed_formula() -> None:
    values = np.array([0, 1, 2**63], dtype=np.uint64)
    assert mix(values, 0).tolist() == [
        12035550249420947055,
        6791897765849424158,
        9717522146979266976,
    ]


def test_a_seed_gives_another_order() -> None:
    values = np.arange(1000, dtype=np.uint64)
    assert not (mix(values, 0) == mix(values, 1)).any()
    assert len(set(mix(values, 0).tolist())) == 1000


def test_shares_are_about_what_was_asked() -> None:
    found = shares(np.arange(100_000, dtype=np.uint64) << np.uint64(8), 3, [0.98, 0.02])
    assert 1_800 < (found == 1).sum() < 2_200


def test_one_share_takes_all() -> None:
    assert set(shares(np.arange(100, dtype=np.uint64), 0, [1.0]).tolist()) == {0}


@given(SIZES, st.booleans(), st.integers(1, 40_000))
def test_every_exported_row_is_in_exactly_one_file(specs, shuffle: bool, part_bytes: int) -> None:
    rows = rows_of(specs)
    policy = Policy(shuffle=shuffle, part_bytes=part_bytes, split={"train": 0.6, "eval": 0.4})
    parts = lay_out(rows, policy, bytes_per_token=8.0)
    written = [row for part in parts for row in part.rows.tolist()]
    assert sorted(written) == np.flatnonzero(rows["left_out"] == 0).tolist()
    assert all(len(part.rows) for part in parts)
    assert shuffle or all(part.in_order for part in parts)


@given(SIZES, st.booleans())
def test_rows_of_one_prompt_are_on_one_side(specs, shuffle: bool) -> None:
    rows = rows_of(specs)
    policy = Policy(shuffle=shuffle, split={"train": 0.5, "eval": 0.5})
    side: dict[int, str] = {}
    for part in lay_out(rows, policy, bytes_per_token=8.0):
        for prompt in rows["prompt_key"][part.rows].tolist():
            assert side.setdefault(prompt, part.split) == part.split


def shuffled(rows: np.ndarray, seed: int = 0, part_bytes: int = 20_000) -> list[np.ndarray]:
    policy = Policy(shuffle=True, seed=seed, part_bytes=part_bytes)
    return [part.rows for part in lay_out(rows, policy, bytes_per_token=8.0)]


def test_a_shuffle_is_of_the_whole_export_and_not_of_each_file() -> None:
    """Neighbours in a shard end as far apart as any two samples: a third of the whole."""
    rows = rows_of([(100, 0, False)] * 5_000)
    files = shuffled(rows)
    assert len(files) > 200
    place = np.empty(5_000)
    place[np.concatenate(files)] = np.arange(5_000) / 5_000
    assert 0.31 < np.abs(np.diff(place)).mean() < 0.36
    assert abs(np.corrcoef(place, np.arange(5_000))[0, 1]) < 0.05
    assert 0.45 < np.mean([part.mean() for part in files[:20]]) / 5_000 < 0.55


def test_the_files_do_not_change_the_order() -> None:
    rows = rows_of([(100, place % 3, False) for place in range(500)])
    whole = np.concatenate(shuffled(rows, part_bytes=2**30)).tolist()
    assert np.concatenate(shuffled(rows)).tolist() == whole
    assert np.concatenate(shuffled(rows, seed=1)).tolist() != whole


def test_samples_of_one_id_from_several_runs_are_not_neighbours() -> None:
    rows = rows_of([(100, 0, False), (100, 1, False)] * 500)
    rows["key"] = np.repeat(np.arange(500), 2)
    order = np.concatenate(shuffled(rows))
    together = (np.diff(rows["key"][order].astype(np.int64)) == 0).sum()
    assert together < 20


def test_a_file_is_about_as_large_as_asked() -> None:
    rows = rows_of([(1000, 0, False)] * 100)
    parts = lay_out(rows, Policy(part_bytes=83_000), bytes_per_token=8.0)
    assert [len(part.rows) for part in parts] == [10] * 10
