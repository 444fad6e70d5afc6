"""Lets torchvision import beside a CPU-only torch: Python runs this file at every start.

torchvision registers fake kernels for two of its C++ operators at import, and fails where its
compiled library did not declare them. Declaring them just before is enough, since nothing here
calls them. torch is not imported before torchvision is.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Finds nothing; it is only told that torchvision is about to be imported."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            declare()
        return None


def declare() -> None:
    """Declare the operators unless a compiled torchvision has."""
    import torch

    for name in OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", SIGNATURE)


sys.meta_path.insert(0, BeforeTorchvision())
