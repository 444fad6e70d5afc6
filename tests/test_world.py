"""What must not change under a run is compared by name, and a change is shown as a table."""

from dataclasses import replace

import pytest

from runner.config import EngineKind, Server, ServerKind
from runner.engines.base import EngineInfo
from runner.errors import ConfigError
from runner.world import (
    WEIGHTS,
    Change,
    changes,
    check_world,
    flags_world,
    server_world,
    table,
    weight_versions,
)

HASH, OTHER = "a" * 64, "b" * 64


def server(**flags: object) -> Server:
    return Server(name="s", kind=ServerKind.sglang, engine=EngineKind.sglang, flags=flags)


def test_only_what_is_told_in_both_is_compared() -> None:
    assert changes({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == [
        Change(name="b", was="2", now="3")
    ]
    assert check_world({}, {"template": HASH}, []) == []


def test_a_change_is_refused_with_what_was_and_what_is() -> None:
    with pytest.raises(ConfigError) as caught:
        check_world({"template": HASH, "x": "1"}, {"template": OTHER, "x": "1"}, [])
    text = str(caught.value)
    assert "template  aaaaaaaaaaaa  bbbbbbbbbbbb" in text
    assert "resume.accept=[template]" in text
    assert "\n  x " not in text


def test_what_is_accepted_goes_on_and_is_told() -> None:
    before, now = {"template": HASH, "flag.dtype": ""}, {"template": OTHER, "flag.dtype": "half"}
    assert len(check_world(before, now, ["template", "flag.*"])) == 2
    with pytest.raises(ConfigError, match=r"accept=\[flag.dtype\]"):
        check_world(before, now, ["template"])


@pytest.mark.parametrize(
    "name",
    ["dtype", "quantization", "kv-cache-dtype", "kv_cache_dtype", "attention-backend",
     "speculative-algorithm", "speculative_num_steps"],
)  # fmt: skip
def test_each_flag_that_changes_numerics_counts_under_either_spelling(name: str) -> None:
    assert changes(flags_world(server()), flags_world(server(**{name: "x"})))


def test_other_flags_do_not() -> None:
    assert not changes(flags_world(server()), flags_world(server(**{"mem-fraction-static": 0.8})))


def test_a_server_of_somebody_else_has_no_flags_here() -> None:
    assert flags_world(replace(server(dtype="half"), kind=ServerKind.external)) == {}


def test_a_server_tells_its_version_and_numerics_in_keys_and_in_its_command() -> None:
    command = "--model-path m --attention-backend torch_native --speculative-num-steps=3 --tp 2"
    raw = {"server_info": {"dtype": "auto", "quantization": None, "launch_command": command}}
    told = server_world([EngineInfo(kind="sglang", version="0.5.23", raw=raw)])
    assert told == {
        "server.version": "0.5.23",
        "server.dtype": "auto",
        "server.attention-backend": "torch_native",
        "server.speculative": "speculative-num-steps=3",
    }


def test_endpoints_that_differ_are_told_as_such() -> None:
    infos = [EngineInfo(kind="sglang", version=v) for v in ("2", "1", "2")]
    assert server_world(infos) == {"server.version": "1 and 2"}
    assert server_world([EngineInfo(kind="sglang")]) == {}


def test_the_table_lines_up() -> None:
    lines = table([Change(name="long name", was="", now="x")]).splitlines()
    assert lines == ["  what       was        is", "  long name  (not set)  x"]


def told(*versions: str) -> dict[str, str]:
    return server_world(EngineInfo(kind="sglang", weight_version=one) for one in versions)


def test_other_weights_at_the_next_attempt_are_another_world() -> None:
    assert told("v1") == {WEIGHTS: "v1"}
    assert told("") == {}
    with pytest.raises(ConfigError, match=r"accept=\[server.weight_version\]"):
        check_world(told("v1"), told("v2"), [])
    (change,) = check_world(told("v1"), told("v2"), [WEIGHTS])
    assert weight_versions(told("v2"), [change]) == {"v1", "v2"}
    assert weight_versions({}) == frozenset()


def test_servers_with_different_weights_are_not_one_run() -> None:
    check_world({}, told("v1", "v1"), [])
    with pytest.raises(ConfigError, match="do not serve the same weights"):
        check_world({}, told("v1", "v2"), [])
    check_world({}, told("v1", "v2"), ["server.*"])
    assert weight_versions(told("v1", "v2")) == {"v1", "v2"}
