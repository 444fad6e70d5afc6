"""First on PYTHONPATH, this makes a process's syncs fail after so many: a disk that goes bad."""

import errno
import os
from collections.abc import Callable


def failing(sync: Callable[[int], None], left: list[int]) -> Callable[[int], None]:
    def attempt(fd: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    return attempt


if "SYNCS_BEFORE_FAILURE" in os.environ:
    _left = [int(os.environ["SYNCS_BEFORE_FAILURE"])]
    os.fsync = failing(os.fsync, _left)
    if hasattr(os, "fdatasync"):
        os.fdatasync = failing(os.fdatasync, _left)
