"""No secret leaves: by its key, inside a URL, inside a longer text."""

import pytest

from runner.tracking.masking import MASK, is_secret, mask_text, mask_uri, mask_value


@pytest.mark.parametrize(
    "key",
    [
        "api_key", "server.api_key", "server.flags.api-key", "apiKey", "OPENAI_API_KEY", "password",
        "db.passwd", "HF_TOKEN", "hf_token", "token", "auth_token", "secret", "client_secret",
        "aws_secret_access_key", "credentials", "Authorization", "env.GITHUB_TOKEN", "accessToken",
    ],
)  # fmt: skip
def test_a_secret_key_is_seen(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "sampling.max_new_tokens", "budget.output_tokens", "stop_token_ids", "tokenizer", "tokens",
        "eos_token", "profile.pad_token", "tokens_per_s", "matched_token", "model.id", "keyboard",
        "prompt_hash", "tokenizer.eos_token",
    ],
)  # fmt: skip
def test_words_of_this_field_are_not_secrets(key: str) -> None:
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("uri", "masked"),
    [
        ("http://u:p@host:5000", "http://***@host:5000"),
        ("postgresql://u:p%40w@db/x", "postgresql://***@db/x"),
        ("https://token@host/a", "https://***@host/a"),
        ("http://u:p@ss@host/x", "http://***@host/x"),
        ("http://host:5000/a?b=c@d", "http://host:5000/a?b=c@d"),
        ("sqlite:////a/b@c/mlflow.db", "sqlite:////a/b@c/mlflow.db"),
    ],
)
def test_credentials_of_an_address(uri: str, masked: str) -> None:
    assert mask_uri(uri) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("server.flags.api-key=abc seed=1", "server.flags.api-key=*** seed=1"),
        ("serve --api-key abc --port 1", "serve --api-key *** --port 1"),
        ('{"api_key": "a b", "seed": 1}', '{"api_key": ***, "seed": 1}'),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("see http://u:p@h/x", "see http://***@h/x"),
        ("max_new_tokens=5 eos_token=2", "max_new_tokens=5 eos_token=2"),
        ("the token limit is high", "the token limit is high"),
    ],
)
def test_secrets_inside_a_text(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize("value", [None, "", True, False])
def test_what_can_not_be_a_secret_stays(value: object) -> None:
    assert mask_value("api_key", value) is value


@pytest.mark.parametrize("value", ["abc", 1234, 1.5])
def test_a_secret_value_is_masked_whatever_its_type(value: str | int | float) -> None:
    assert mask_value("password", value) == MASK


def test_a_plain_number_stays_a_number() -> None:
    assert mask_value("seed", 7) == 7


@pytest.mark.parametrize("piece", ["x", "a.", "a-", "a:", "://", "token ", "a='", 'password="'])
def test_long_texts_take_no_time_to_speak_of(piece: str) -> None:
    text = piece * 20_000  # a quadratic pattern runs into the suite's own timeout here
    assert mask_text(text)
