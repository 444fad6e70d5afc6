"""`.pt` files without torch: what `torch.load(weights_only=True)` reads, written by hand.

torch is a gigabyte and is needed here for three small files. A `.pt` is an uncompressed zip with a
pickle and the raw bytes of each tensor; the pickle names `torch._utils._rebuild_tensor_v2` without
importing it. `tests/export` loads these files with a real torch where there is one.
"""

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runner.rundir import replace_file

_STORAGES = {"int64": "LongStorage", "bool": "BoolStorage"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MARK, _TUPLE, _REDUCE, _PERSISTENT, _STOP = b"(", b"t", b"R", b"Q", b"."


def write_torch_file(path: Path, content: Mapping[Any, Any]) -> None:
    """A dict of ints, or of int64 and bool arrays of one dimension, as a `.pt` file."""
    storages: list[bytes] = []
    body = b"".join(_pickled(key) + _value(value, storages) for key, value in content.items())
    data = b"\x80\x02}" + _MARK + body + b"u" + _STOP
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        members = {
            "data.pkl": data,
            "byteorder": b"little",
            **{f"data/{place}": raw for place, raw in enumerate(storages)},
            "version": b"3\n",
        }
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(f"{path.stem}/{name}", _EPOCH), member)
    replace_file(path, buffer.getvalue())


def _pickled(value: str | int) -> bytes:
    """The pickle of a plain value, without its head and end."""
    return pickle.dumps(value, protocol=2)[2:-1]


def _value(value: Any, storages: list[bytes]) -> bytes:
    return _tensor(value, storages) if isinstance(value, np.ndarray) else _pickled(int(value))


def _tensor(array: Any, storages: list[bytes]) -> bytes:
    """`_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)`."""
    storage = (
        _MARK
        + _text("storage")
        + _global("torch", _STORAGES[array.dtype.name])
        + _text(str(len(storages)))
        + _text("cpu")
        + _pickled(len(array))
        + _TUPLE
        + _PERSISTENT
    )
    storages.append(array.astype(array.dtype.newbyteorder("<")).tobytes())
    size, stride = _pickled(len(array)) + b"\x85", _pickled(1) + b"\x85"
    hooks = _global("collections", "OrderedDict") + b")" + _REDUCE
    arguments = _MARK + storage + _pickled(0) + size + stride + b"\x89" + hooks + _TUPLE
    return _global("torch._utils", "_rebuild_tensor_v2") + arguments + _REDUCE


def _global(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()
