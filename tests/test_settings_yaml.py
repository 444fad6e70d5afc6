"""The config in a run directory: complete, readable, without secrets."""

import yaml

from runner.config import flatten
from runner.provenance import settings_yaml
from tests.test_experiments import config


def test_secrets_are_masked_and_everything_else_is_exact() -> None:
    made = config(
        "tracking.uri=http://me:hunter22@host:5000",
        "+server.env.HF_TOKEN=hunter22",
        'gates={truncated: "<= 0.15"}',
    )
    text = settings_yaml(made)
    assert "hunter22" not in text
    read = dict(flatten(yaml.safe_load(text)))
    assert read["tracking.uri"] == "http://***@host:5000"
    hidden = ("tracking.uri", "server.env.HF_TOKEN")
    for key, value in flatten(made):
        if key not in hidden:
            assert read.get(key, value) == (list(value) if isinstance(value, tuple) else value), key
