"""Flags against the server's own --help, asked of real processes."""

import sys
from pathlib import Path

import pytest

from runner.config import Restart, Server, ServerKind
from runner.errors import ConfigError
from runner.servers.flags import check_flags, installed_flags, known_flags, unknown_flags

HELP = """usage: sglang serve [-h] --model-path MODEL_PATH
                    [--only-in-usage X]

Model and tokenizer:
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The path. See also --not-an-option in the docs.
  --mem-fraction-static MEM_FRACTION_STATIC
  --tp-size TP_SIZE, --tensor-parallel-size TP_SIZE
  --skip-tokenizer-init
  --moe-dense-tp-size N Only for dense layers
  --max-running-requests N
"""
KNOWN = known_flags(HELP)


def test_the_declared_options_are_read_and_nothing_that_text_mentions() -> None:
    assert KNOWN == [
        "help",
        "model-path",
        "model",
        "mem-fraction-static",
        "tp-size",
        "tensor-parallel-size",
        "skip-tokenizer-init",
        "moe-dense-tp-size",
        "max-running-requests",
    ]


@pytest.mark.parametrize(
    "name",
    ["tp-size", "tp_size", "--tp-size", "tp", "mem_fraction_static", "skip_tokenizer_init"],
)
def test_every_spelling_that_argparse_takes_is_known(name: str) -> None:
    assert unknown_flags([name], KNOWN) == {}


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("mem-fraction-statc", "mem-fraction-static"),
        ("max-runing-requests", "max-running-requests"),
        ("t", ""),  # the beginning of two options
        ("xyzzy", ""),
    ],
)
def test_an_unknown_flag_comes_with_the_closest_one(name: str, close: str) -> None:
    found = unknown_flags([name], KNOWN)
    assert list(found) == [name]
    assert found[name] == close


def launcher(tmp_path: Path, body: str) -> Server:
    """A config whose server is a small program of ours."""
    program = tmp_path / "server.py"
    program.write_text(body)
    return Server(
        name="s", kind=ServerKind.sglang, command=[sys.executable, str(program)], flags={"tp": 8}
    )


def helpful(tmp_path: Path) -> Server:
    return launcher(tmp_path, f"print({HELP!r})")


def test_known_flags_pass(tmp_path: Path) -> None:
    assert check_flags(helpful(tmp_path))


def test_an_unknown_flag_names_its_key_and_the_closest(tmp_path: Path) -> None:
    config = helpful(tmp_path)
    config.flags["mem-fraction-statc"] = 0.8
    with pytest.raises(ConfigError, match="did you mean mem-fraction-static") as caught:
        check_flags(config)
    assert caught.value.where == "server.flags.mem-fraction-statc"


def test_a_rung_of_the_ladder_is_checked_too(tmp_path: Path) -> None:
    config = helpful(tmp_path)
    config.restart = Restart(ladder=[{"tp": 1}, {"max-runing": 1}])
    with pytest.raises(ConfigError) as caught:
        check_flags(config)
    assert caught.value.where == "server.restart.ladder[1].max-runing"


def test_a_flag_that_is_left_out_of_argv_is_not_checked(tmp_path: Path) -> None:
    config = helpful(tmp_path)
    config.flags |= {"gone": None, "off": False}
    assert check_flags(config)


@pytest.mark.parametrize("body", ["raise SystemExit(1)", "print('no options here')"])
def test_help_that_cannot_be_had_refuses_nothing(tmp_path: Path, body: str) -> None:
    assert not check_flags(launcher(tmp_path, body))


def test_a_program_that_is_not_there_refuses_nothing(tmp_path: Path) -> None:
    config = helpful(tmp_path)
    config.command = [str(tmp_path / "nothing")]
    assert not check_flags(config)


def test_another_kind_of_server_is_not_asked() -> None:
    assert check_flags(Server(name="l", kind=ServerKind.llamacpp, flags={"whatever": 1}))


def environment(tmp_path: Path) -> tuple[Server, Path]:
    """An interpreter that has an sglang 1.2.3, and the file that counts how often it is asked."""
    packages = tmp_path / "packages"
    (packages / "sglang-1.2.3.dist-info").mkdir(parents=True)
    (packages / "sglang-1.2.3.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 1.2.3\n")
    (packages / "sglang").mkdir()
    (packages / "sglang" / "__init__.py").touch()
    asked = tmp_path / "asked"
    (packages / "sglang" / "launch_server.py").write_text(
        f"open({str(asked)!r}, 'a').write('x')\nprint({HELP!r})"
    )
    config = Server(name="s", kind=ServerKind.sglang, env={"PYTHONPATH": str(packages)})
    return config, asked


def test_the_answer_is_kept_by_interpreter_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config, asked = environment(tmp_path)
    assert installed_flags(config) == KNOWN
    assert installed_flags(config) == KNOWN
    assert asked.read_text() == "x"
    metadata = tmp_path / "packages" / "sglang-1.2.3.dist-info" / "METADATA"
    metadata.write_text("Name: sglang\nVersion: 1.2.4\n")
    assert installed_flags(config) == KNOWN
    assert asked.read_text() == "xx"


def test_a_cache_that_cannot_be_written_only_means_asking_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config, asked = environment(tmp_path)
    assert installed_flags(config) == KNOWN
    assert installed_flags(config) == KNOWN
    assert asked.read_text() == "xx"
