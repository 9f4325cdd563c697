"""With Lightning: the clipper made in configure_optimizers, or on the optimizer that Lightning hands out."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steadygrad.clip import NormClipper, clip_grad_norm_

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning = pytest.importorskip(
        "lightning", reason="lightning is not installed: pip install 'steadygrad[integrations]'"
    )

BATCHES, ACCUMULATED = 6, 2
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own advice on workers, loggers and devices


def network() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def batches() -> Tensor:
    return torch.randn(BATCHES, 4, 3, generator=torch.Generator().manual_seed(0))


class Model(lightning.LightningModule):
    """Automatic optimization with accumulated gradients, or manual with one update for each batch."""

    def __init__(self, manual: bool) -> None:
        super().__init__()
        self.automatic_optimization = not manual
        self.network = network()
        self.clipper: Any = None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = torch.optim.Adam(self.network.parameters(), lr=0.1)
        if self.automatic_optimization:
            self.clipper = NormClipper(optimizer, threshold=0.1)
        return optimizer

    def training_step(self, batch: Tensor, batch_idx: int) -> Any:
        loss = self.network(batch).square().mean()
        if self.automatic_optimization:
            return loss
        optimizer: Any = self.optimizers()
        if self.clipper is None:
            self.clipper = NormClipper(optimizer, threshold=0.1)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return None


@pytest.mark.parametrize("manual", [False, True])
def test_updates_equal_clipping_by_hand(manual: bool, tmp_path: Any) -> None:
    model = Model(manual)
    accumulated = 1 if manual else ACCUMULATED
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        accumulate_grad_batches=accumulated,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(model, torch.utils.data.DataLoader(batches(), batch_size=None))  # pyright: ignore[reportArgumentType]
    by_hand = network()
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=0.1)
    for group in batches().split(accumulated):
        optimizer.zero_grad()
        for x in group:
            (by_hand(x).square().mean() / accumulated).backward()
        clip_grad_norm_(by_hand.parameters(), 0.1)
        optimizer.step()
    assert (model.clipper.stats.steps, model.clipper.stats.clipped) == (BATCHES // accumulated, BATCHES // accumulated)
    for p, q in zip(model.network.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(p.detach(), q.detach(), rtol=1e-5, atol=1e-6)  # float32
