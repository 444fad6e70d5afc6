"""Muon for the matrices of the layers, Adam for the rest: fewer steps on a slow core.

Muon (Keller Jordan, 2024) replaces a matrix's momentum by the nearest orthogonal matrix, found
with a few Newton-Schulz steps.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer


def orthogonalized(matrix: Tensor, steps: int = 5) -> Tensor:
    """About the nearest matrix with singular values near one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(Optimizer):
    """Momentum with Nesterov look-ahead, orthogonalized, with decoupled weight decay."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.05
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            for param in group["params"]:
                average = self.state[param].setdefault("average", torch.zeros_like(param))
                average.lerp_(param.grad, 1 - group["momentum"])
                update = orthogonalized(param.grad.lerp(average, group["momentum"]))
                scale = max(1.0, param.shape[0] / param.shape[1]) ** 0.5
                param.mul_(1 - group["lr"] * group["decay"])
                param.add_(update, alpha=-group["lr"] * scale)
