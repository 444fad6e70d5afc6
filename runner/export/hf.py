"""`hf`: a folder for `datasets.load_from_disk`, written with pyarrow alone.

The layout is that of `DatasetDict.save_to_disk`: Arrow streams named in `state.json`, one folder
for each split, `dataset_dict.json` above them. `datasets` reads the types from the Arrow schema.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from runner.export.columns import SCHEMA, ColumnWriter
from runner.export.formats import Finished, PartFile
from runner.rundir import replace_file


class HuggingFace:
    """See the module."""

    name = "hf"
    bytes_per_token = 5.0
    holds_ids = True
    ordered = True

    def file_name(self, number: int) -> str:
        return f"data-{number:05d}.arrow"

    def open(self, path: Path) -> ColumnWriter:
        file = pa.OSFile(str(path), "wb")
        return ColumnWriter(pa.ipc.new_stream(file, SCHEMA), file)

    def finish(
        self, folder: Path, parts: Mapping[str, Sequence[PartFile]], notes: Mapping[str, int]
    ) -> Finished:
        files = [_write(folder / "dataset_dict.json", {"splits": list(parts)})]
        for split, written in parts.items():
            info = {"citation": "", "description": "", "homepage": "", "license": ""}
            files += [
                _write(folder / split / "state.json", _state(split, written)),
                _write(folder / split / "dataset_info.json", {**info, "features": None}),
            ]
        return Finished(files)


def _state(split: str, written: Sequence[PartFile]) -> dict[str, Any]:
    """The fingerprint follows the content: `datasets` keeps what it computed under it."""
    hashes = " ".join(part.sha256 for part in written)
    return {
        "_data_files": [{"filename": part.path.name} for part in written],
        "_fingerprint": sha256(hashes.encode()).hexdigest()[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }


def _write(path: Path, content: dict[str, Any]) -> Path:
    replace_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    return path
