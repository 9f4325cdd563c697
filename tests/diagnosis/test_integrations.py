"""Against the real Lightning and the real TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.diagnosis import read_jsonl
from steadygrad.diagnosis.board import picture

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Lightning's and TensorBoard's own, of which there are many
]


def trained(updates: int = 5) -> sg.Watch:
    torch.manual_seed(0)
    model = nn.GRU(3, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = sg.watch(model, every=2, optimizer=optimizer)
    for _ in range(updates):
        optimizer.zero_grad()
        model(torch.randn(20, 4, 3))[0][-1].square().sum().backward()
        optimizer.step()
    return watch


def test_lines_of_json_can_be_read_again(tmp_path: Path) -> None:
    watch = trained()
    again = read_jsonl(watch.to_jsonl(tmp_path / "looks.jsonl"))
    assert [look.to_json() for look in again] == [look.to_json() for look in watch.looks]
    assert again[1].cells[0].gates["z"] == watch.looks[1].cells[0].gates["z"]
    assert [each.kind for each in sg.diagnosis.findings_of(again)] == [each.kind for each in watch.findings]
    (tmp_path / "other.jsonl").write_text('{"update": 1}\n')
    with pytest.raises(ValueError, match="wrote, but line 1 is not one"):
        read_jsonl(tmp_path / "other.jsonl")


def test_tensorboard(tmp_path: Path) -> None:
    board = pytest.importorskip("torch.utils.tensorboard", reason="tensorboard is not installed (extra 'tensorboard')")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    watch = trained()
    with board.SummaryWriter(tmp_path) as writer:
        watch.to_tensorboard(writer)
        watch.to_tensorboard(writer)  # nothing new: nothing is written twice
    found = reader.EventAccumulator(str(tmp_path))
    found.Reload()
    horizons = found.Scalars("gradients/l0/horizon")
    assert [(each.step, each.value) for each in horizons] == [
        (look.update, float(look.cells[0].horizon)) for look in watch.looks
    ]
    assert found.Scalars("gradients/gradient_norm")[0].value == pytest.approx(watch.looks[0].norm, rel=1e-6)
    assert [each.step for each in found.Images("gradients/l0/error")] == [4]
    with pytest.raises(
        TypeError, match="writer must have add_scalar and add_image, as SummaryWriter has, not be a str"
    ):
        watch.to_tensorboard("runs")


def test_the_picture_is_pale_where_the_error_has_died_out() -> None:
    looks = trained().looks
    image = picture(looks, "l0")
    assert image.shape == (3, 20, 3)
    darkness = 255 - image.astype(int).mean(-1)
    assert (np.diff(darkness, axis=1) >= 0).mean() > 0.9
    assert darkness[0, -1] > darkness[0, 0] + 50


def lightning_parts() -> tuple[Any, Any]:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed (extra 'lightning')")

    class Recall(lightning.LightningModule):
        def __init__(self, broken: bool = False) -> None:
            super().__init__()
            self.rnn, self.read, self.broken = nn.LSTM(3, 8), nn.Linear(8, 2), broken

        def training_step(self, batch: Any, index: int) -> Tensor:
            if self.broken and index == 3:
                raise RuntimeError("broken on purpose")
            (x,) = batch
            loss = self.read(self.rnn(x.transpose(0, 1))[0][-1]).square().mean()
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.rnn(batch[0].transpose(0, 1))

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    return lightning, Recall


def fit(tmp_path: Path, callback: Any, module: Any, **options: Any) -> Any:
    lightning, _ = lightning_parts()
    from lightning.pytorch.loggers import CSVLogger

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(32, 20, 3))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        callbacks=[callback],
        logger=CSVLogger(str(tmp_path)),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
        **options,
    )
    trainer.fit(module, loader, loader)
    return trainer


def test_the_lightning_callback_logs_and_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, Recall = lightning_parts()
    callback = sg.lightning.Watch(every=3, page=tmp_path / "gradients.html")
    module = Recall()
    fit(tmp_path, callback, module, gradient_clip_val=0.001)
    assert callback.watch is not None
    looks = callback.watch.looks
    assert [look.update for look in looks] == [0, 3, 6, 9, 12, 15]  # 2 epochs of 8 updates; validation does not count
    assert [cell.name for cell in looks[0].cells] == ["rnn l0"]
    assert [look.norm_used for look in looks] == pytest.approx([0.001] * 6, rel=1e-2)
    assert all(look.norm > 0.01 for look in looks)
    rows = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()
    column = rows[0].split(",").index("gradients/rnn_l0/horizon")
    logged = [row.split(",")[column] for row in rows[1:] if row.split(",")[column]]
    assert [float(value) for value in logged] == [look.cells[0].horizon for look in looks]
    assert "rnn l0" in capsys.readouterr().out
    assert "rnn l0" in (tmp_path / "gradients.html").read_text(encoding="utf-8")
    assert not module.rnn._forward_hooks


def test_accumulated_batches_are_one_update_in_lightning(tmp_path: Path) -> None:
    _, Recall = lightning_parts()
    callback = sg.lightning.Watch(every=1, print_findings=False)
    fit(tmp_path, callback, Recall(), accumulate_grad_batches=4)
    assert callback.watch is not None
    assert [look.update for look in callback.watch.looks] == [0, 1, 2, 3]
    assert [len(look.cells) for look in callback.watch.looks] == [4, 4, 4, 4]


def test_the_training_is_the_same_with_the_callback(tmp_path: Path) -> None:
    lightning, Recall = lightning_parts()
    ends = []
    for callback in (sg.lightning.Watch(every=1, print_findings=False), lightning.Callback()):
        torch.manual_seed(1)
        module = Recall()
        fit(tmp_path, callback, module)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in module.parameters()]))
    assert torch.equal(*ends)


def test_a_training_that_breaks_is_still_shown(tmp_path: Path) -> None:
    _, Recall = lightning_parts()
    callback = sg.lightning.Watch(every=1, page=tmp_path / "gradients.html", print_findings=False)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        fit(tmp_path, callback, Recall(broken=True))
    assert callback.watch is not None
    assert len(callback.watch.looks) == 3
    assert (tmp_path / "gradients.html").exists()


def test_the_callback_checks_its_argument() -> None:
    lightning_parts()
    with pytest.raises(ValueError, match="every must be a whole number of at least 1, not 0"):
        sg.lightning.Watch(every=0)
