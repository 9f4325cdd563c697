"""`sg.lightning.Watch()`: a callback for Lightning that watches the recurrent layers of the module that is trained.

Needs lightning (or pytorch_lightning): pip install 'steadygrad[lightning]'. It is loaded here and nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback, LightningModule, Trainer
    except ImportError:
        try:
            from pytorch_lightning import Callback, LightningModule, Trainer
        except ImportError:
            raise ImportError("sg.lightning needs Lightning: pip install 'steadygrad[lightning]'") from None

from .checks import whole
from .diagnosis import Watch as _Watch


class Watch(Callback):
    """Looks at one optimizer step in `every`, and logs what it sees to the trainer's loggers.

    Logged are, for every recurrent layer, horizon, growth, Ω, gates and saturation, and the norms of all gradients, as
    `gradients/…`, with the module's `log` left alone: every look is sent to each logger with the trainer's global step.

    Args:
        every: optimizer steps from one look to the next.
        page: where to write the page when training ends, or stops with an error; None: nowhere.
        print_findings: whether to print the findings at the end, on the first process alone.

    Attributes:
        watch: the `steadygrad.Watch`, from the start of the training on; it stays readable after it.

    Example:
        trainer = lightning.Trainer(callbacks=[sg.lightning.Watch(every=100, page="gradients.html")])
    """

    def __init__(self, every: int = 100, *, page: str | Path | None = None, print_findings: bool = True) -> None:
        super().__init__()
        self.every = whole("every", every)
        self.page = None if page is None else Path(page)
        self.print_findings = print_findings
        self.watch: _Watch | None = None
        self._logged = -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attaches it: optimizers are there by now."""
        optimizers = trainer.optimizers
        # With several optimizers, a training step counts as one update, not each of their steps.
        optimizer = getattr(optimizers[0], "optimizer", optimizers[0]) if len(optimizers) == 1 else None
        self.watch = _Watch(pl_module, self.every, optimizer=optimizer)
        self._logged = -1

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Sends what is new to the loggers."""
        if self.watch is None or not self.watch.has_look_after(self._logged):
            return
        look = self.watch.looks[-1]
        self._logged = look.update
        numbers = {f"gradients/{name.replace(' ', '_')}": value for name, value in self.watch.scalars(look).items()}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Detaches it, prints the findings and writes the page."""
        self._finish(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """The same: a training that broke is the one to look at."""
        self._finish(trainer)

    def _finish(self, trainer: Trainer) -> None:
        if self.watch is None:
            return
        self.watch.detach()
        if trainer.is_global_zero:
            if self.print_findings:
                print(self.watch)
            if self.page is not None:
                self.watch.page(self.page)
