"""Digests are pinned: a changed one would turn every user's runs into other runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from runner.config import Config, IdentityKind, parse
from runner.identity import (
    KeyClass,
    class_of,
    digest_of,
    identity_of,
    run_name,
    unclassified_keys,
)
from runner.plugins import register_schema

CONF = str(Path(__file__).resolve().parent.parent / "conf")
FACTS = {
    "model.fingerprint": "f" * 64,
    "template_kwargs": {"thinking": True},
    "prompts": {"B4": "p"},
}


def config(*overrides: str) -> Config:
    register_schema()
    with initialize_config_dir(CONF, version_base="1.3"):
        return parse(compose("config", overrides=["paths.outputs=/o", *overrides]))


def digest(*overrides: str) -> str:
    return digest_of(identity_of(config(*overrides), FACTS))


def test_every_key_of_the_schema_has_a_class() -> None:
    assert unclassified_keys() == []


def test_the_golden_digests_hold() -> None:
    assert digest()[:16] == "a6460e63fbe23756"
    assert digest("sampling=greedy")[:16] == "dad60a855fac02d9"
    assert digest("mode=instant", "seed=7")[:16] == "2408dcf2644e3fac"


@pytest.mark.parametrize(
    "override",
    ["sampling.temperature=0.5", "sampling.top_k=3", "seed=1", "mode=instant", "sampling=greedy"],
)
def test_an_identity_key_moves_the_digest(override: str) -> None:
    assert digest(override) != digest()


@pytest.mark.parametrize(
    "override",
    [
        "client.concurrency=2",
        "task_name=other",
        "category.count=3",
        "category.n=2",
        "tracking=none",
        "server.port=999",
        "tags=[x]",
        "canary.count=0",
        "~validators.thinking",
        "sampling.top_p=0.95",  # what recommended says for this model
    ],
)
def test_a_plan_or_free_key_does_not(override: str) -> None:
    assert digest(override) == digest()


def test_how_a_server_was_started_does_not_matter_but_what_it_speaks_does() -> None:
    external = "server=external", "server.urls=[http://h:1]"
    assert digest("server=sglang") == digest(*external)
    assert digest("server=sglang") != digest()


def test_a_key_at_its_default_is_left_out() -> None:
    assert "sampling.min_p" not in identity_of(config(), FACTS)
    assert "sampling.min_p" in identity_of(config("sampling.min_p=0.1"), FACTS)


def test_full_identity_takes_client_and_flags_in() -> None:
    full = replace(config("client.concurrency=3"), identity=IdentityKind.full)
    other = replace(config("client.concurrency=4"), identity=IdentityKind.full)
    assert digest_of(identity_of(full, FACTS)) != digest_of(identity_of(other, FACTS))


def test_an_unknown_key_has_no_class() -> None:
    with pytest.raises(KeyError):
        class_of("nobody.knows")
    assert class_of("category.parts.ANY.count") is KeyClass.PLAN


def test_a_run_is_named_for_people_with_the_digest_at_the_end() -> None:
    assert (
        run_name(config(), "0123456789abcdef") == "tiny_reasoner-B4-thinking-recommended-01234567"
    )
