"""A data set on the Hugging Face hub, by `datasets` (extra `hub`), or a local folder that it loads.

Known by id, config, split and commit: a revision that is no commit is looked up once, at the start,
and the commit is what is loaded, so that a run never mixes two states of a set. With a full commit
id nothing is asked of the hub until rows are needed, and a finished run needs no hub at all.
Whole sets are fetched into the library's own cache, which goes on where a broken download stopped;
`streaming` keeps nothing and reads from the front until the last wanted row.

The only module that knows `datasets`, which it imports late.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.config import HubSource as HubConfig
from runner.errors import ConfigError, MachineError, RunnerError
from runner.prompts.onefile import sha256_of
from runner.prompts.source import RowNumbers, pick
from runner.prompts.tables import BATCH_ROWS, without_padding

_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubSource:
    """One split of one data set. Making it looks up its commit when `revision` is none.

    Raises:
        MachineError: the extra is not installed, or the hub cannot be reached or refuses.
        ConfigError: there is no such data set or revision.
    """

    def __init__(self, hub: HubConfig, where: str) -> None:
        self.name = ""
        self._hub, self._where = hub, where
        self._folder = Path(hub.id).expanduser() if Path(hub.id).expanduser().is_dir() else None
        self._commit = "" if self._folder is not None else self._resolve()
        self._content = _folder_hash(self._folder) if self._folder is not None else ""
        self._loaded: Any = None

    @property
    def identity(self) -> dict[str, Any]:
        hub = self._hub
        found: dict[str, Any] = {"config": hub.config, "split": hub.split}
        if hub.first_rows is not None:
            found["first_rows"] = hub.first_rows
        if self._content:
            return {"folder_sha256": self._content, **found}
        return {"hub": hub.id, "commit": self._commit, **found}

    def __len__(self) -> int:
        limit = self._hub.first_rows
        if not self._hub.streaming:
            rows = len(self._load())
            return rows if limit is None else min(rows, limit)
        if limit is not None:
            return limit
        known = (self._load().info.splits or {}).get(self._hub.split)
        if known is None or not known.num_examples:
            raise ConfigError(
                "This data set does not say how many rows it has, and a stream has no end to count "
                "from.",
                where=f"{self._where}.first_rows",
                found="null",
                next_step="say how many of its first rows to choose from, or streaming=false",
            )
        return int(known.num_examples)

    def read(
        self, rows: RowNumbers, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Any]]:
        data = self._load()
        if columns is not None and data.column_names:
            data = data.select_columns([c for c in columns if c in data.column_names])
        with self._attributed():
            yield from self._stream(data, rows) if self._hub.streaming else _mapped(data, rows)

    def _stream(self, data: Any, rows: RowNumbers) -> Iterator[tuple[int, Any]]:
        given = 0
        for row, value in pick(data, rows):
            given += 1
            yield row, without_padding(value)
        if given < len(rows):
            raise ConfigError(
                "The data set ends before its last wanted row.",
                where=f"{self._where}.first_rows",
                found=f"{given:,} of {len(rows):,} chosen rows are there",
                next_step="lower first_rows to the number of rows that the data set has",
            )

    def _load(self) -> Any:
        if self._loaded is None:
            datasets = _import_datasets(self._where)
            datasets.disable_progress_bars()
            hub = self._hub
            pinned = {"revision": self._commit} if self._commit else {}
            with self._attributed():
                self._loaded = datasets.load_dataset(
                    str(self._folder) if self._folder is not None else hub.id,
                    hub.config,
                    split=hub.split,
                    streaming=hub.streaming,
                    **pinned,
                )
        return self._loaded

    def _resolve(self) -> str:
        revision = self._hub.revision
        if revision is not None and _COMMIT.fullmatch(revision):
            return revision
        _import_datasets(self._where)
        from huggingface_hub import HfApi

        with self._attributed():
            return str(HfApi().dataset_info(self._hub.id, revision=revision).sha)

    @contextmanager
    def _attributed(self) -> Iterator[None]:
        """What the libraries raise, as a message for a person."""
        from datasets.exceptions import DatasetsError
        from huggingface_hub.errors import HfHubHTTPError

        # Its bases are OSError and the root of whichever HTTP library this version is made with.
        kinds = (DatasetsError, *HfHubHTTPError.__bases__, ValueError)
        try:
            yield
        except RunnerError:
            raise
        except kinds as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> RunnerError:
        from datasets.exceptions import DatasetNotFoundError
        from huggingface_hub.errors import (
            GatedRepoError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        found = f"{self._hub.id}: {_first_line(error)}"
        chain = [error, error.__cause__, error.__context__]
        text = " ".join(str(e) for e in chain if e is not None)
        if any(isinstance(e, GatedRepoError) for e in chain) or "gated dataset" in text:
            return MachineError(
                "This data set is gated: it needs a token of an account that accepted its terms.",
                where=f"{self._where}.id",
                found=found,
                next_step="accept them on the data set's page, then set HF_TOKEN for this command",
            )
        missing = (DatasetNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)
        if any(isinstance(e, missing) for e in chain) and not _network(chain):
            return ConfigError(
                "The hub has no such data set or revision (or it is private, and HF_TOKEN is not "
                "set).",
                where=f"{self._where}.id",
                found=f"{found} (revision {self._hub.revision or 'main'})",
                next_step="check id and revision; a private one needs HF_TOKEN",
            )
        if isinstance(error, ValueError) and not _network(chain):
            return ConfigError(
                "The data set cannot be loaded with these settings.",
                where=self._where,
                found=found,
                next_step="check its config, split and revision on the data set's page",
            )
        return MachineError(
            "The hub cannot be reached, or stopped answering.",
            where=f"{self._where}.id",
            found=found,
            next_step="the same command goes on with what was fetched; a revision that is a full "
            "commit id needs no look-up (an earlier run.json has it under identity.prompts); "
            "source=bundled or source=file need no network",
        )


def _mapped(data: Any, rows: RowNumbers) -> Iterator[tuple[int, Any]]:
    batches = data.select(rows).with_format("arrow").iter(batch_size=BATCH_ROWS)
    at = 0
    for batch in batches:
        part = rows[at : at + batch.num_rows]
        at += batch.num_rows
        for row, value in zip(part.tolist(), batch.to_pylist(), strict=True):
            yield row, without_padding(value)


def _network(chain: Sequence[BaseException | None]) -> bool:
    from huggingface_hub.errors import HfHubHTTPError

    kinds = (ConnectionError, HfHubHTTPError.__bases__[0])
    return any(isinstance(e, kinds) and getattr(e, "response", None) is None for e in chain)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _folder_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if not any(part.startswith(".") for part in name.split("/")):
            digest.update(f"{name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _import_datasets(where: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MachineError(
            "Reading the hub needs the package `datasets`.",
            where=where,
            found=str(error),
            next_step="pip install 'rawtok[hub]'",
        ) from error
    return datasets
