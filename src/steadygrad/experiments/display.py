"""What a run shows while it works: a live display on a terminal, or a line for each check; and TensorBoard.

A display gets every check (`check`), and the progress in between (`tick`). It changes nothing in the run. The text
of the lines is in `Words`: a run counts updates, or the tokens of its epochs. The live display is a bar (terminal.py):

temporal-order · sgd-cr (norm clipping and Ω), optimizer adam · length 50–200 · seed 1
━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━   52 %   104,000 of 200,000 updates   1,210/s   1:20 left at most
loss 0.41   wrong 12.30 %   ‖g‖ 3.1 (max 41)   clipped 61 %   Ω 0.012   ρ 1.08   horizon 140   length 46–69
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import problem as problems
from .config import ALGORITHMS, DRAWN, Config

if TYPE_CHECKING:
    from rich.console import Console

    from ..snapshots import Snapshot

_log = logging.getLogger("steadygrad")
PROGRESS = ("auto", "plain", "none")
SMOOTHING = 0.05
"""The weight of the newest loss in the loss that is shown live."""


class Display:
    """Shows nothing: what 'none' asks for, and the base of the others."""

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        """While this lasts the display is there. `done`: how far the run had come before, of `limit`."""
        yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        """A check was made: its line of metrics.jsonl, and its look at the gradients."""

    def say(self, text: str) -> None:
        """Something the user should know, between two checks."""

    def tick(self, done: int, seconds: float, loss: float) -> None:
        """Time has passed: how far the run has come, the seconds so far, and the loss of the last update."""


class Words:
    """The text of a run on a drawn problem. `unit` is the field of its lines that tells how far the run has come."""

    unit = "updates"
    pace = "{:,.0f}/s"

    def __init__(self, threshold: float | None = None) -> None:
        self._threshold = threshold

    def title(self, config: Config) -> str:
        length = f"length {config.length[0]}–{config.length[1]}"
        return f"{problems.title(config.problem)} · {method(config)} · {length} · seed {config.seed}"

    def done(self, done: int, limit: int) -> str:
        return f"{done:,} of {limit:,} {self.unit}"

    def text(self, line: dict[str, Any]) -> str:
        """A line of metrics by itself."""
        return (
            f"{line['updates']:8,} updates  loss {short(line['loss'])} wrong {100 * line['error']:6.2f} %  "
            f"‖g‖ {short(line['gradient_norm'])} clipped {100 * line['clip_rate']:3.0f} %  Ω {short(line['omega'])} "
            f"ρ {fixed(line['spectral_radius'], '.3f')}  horizon {line['horizon']:4d}  length {line['low']}–{line['high']}  "
            f"{line['updates_per_second']:.0f}/s  {clock(line['seconds'])}"
        )

    def numbers(self, line: dict[str, Any], loss: float | None) -> str:
        """The last line of metrics under the bar, with a smoothed loss of now."""
        return (
            f"loss {short(loss, 0)}   wrong {100 * line['error']:.2f} %   {_gradient(line)}   "
            f"ρ {fixed(line['spectral_radius'], '.3f')}   horizon {line['horizon']}   length {line['low']}–{line['high']}"
        )

    def remark(self, line: dict[str, Any]) -> str:
        """What a line of metrics needs to be understood, said once: why every update was clipped."""
        if self._threshold is None or line["clip_rate"] < 1 or line["gradient_norm"] is None:
            return ""
        threshold, self._threshold = self._threshold, None
        usual = f"the threshold {threshold:g} is below the usual gradient norm {short(line['gradient_norm'], 0)}"
        return f"clipped every update: {usual}, so an update goes by the gradient's direction and not by its norm"


class DataWords(Words):
    """The text of a run on a data set: `predictions` make an epoch, `per_nat` units of the score a nat."""

    unit = "tokens"
    pace = "{:,.0f} tokens/s"

    def __init__(self, predictions: int, per_nat: float, threshold: float | None = None) -> None:
        super().__init__(threshold)
        self._predictions, self._per_nat = predictions, per_nat
        self._valid = self._best = self._radius = math.nan  # of the last epoch, and the best so far: shown as a dash

    def title(self, config: Config) -> str:
        own = f" {config.path}" if config.path else ""
        ahead = f", {config.ahead} ahead" if config.is_text else ""
        name = problems.title(config.problem)
        return f"{name}{own}{ahead} · {method(config)} · {config.hidden} units · seed {config.seed}"

    def done(self, done: int, limit: int) -> str:
        epochs = limit // self._predictions
        return f"epoch {min(epochs, 1 + done // self._predictions)} of {epochs}"

    def text(self, line: dict[str, Any]) -> str:
        return (
            f"epoch {line['epoch']:3d}  {line['updates']:8,} updates  train {fixed(line['train']):<6}  "
            f"valid {fixed(line['valid']):<6}  ‖g‖ {short(line['gradient_norm'])} clipped {100 * line['clip_rate']:3.0f} %  "
            f"Ω {short(line['omega'])} ρ {fixed(line['spectral_radius']):<6}  rate {line['lr']:<8.3g} "
            f"{line['updates_per_second']:.3g} updates/s  {line['tokens_per_second']:,.0f} tokens/s  {clock(line['seconds'])}"
        )

    def numbers(self, line: dict[str, Any], loss: float | None) -> str:
        if line["valid"] is not None:  # at the end of an epoch; between, what was found there is still shown
            self._valid, self._radius = line["valid"], line["spectral_radius"]
            self._best = min(line["valid"], self._best)
        train = line["train"] if loss is None else loss * self._per_nat
        best = "" if math.isnan(self._best) else f" (best {fixed(self._best)})"
        return (
            f"train {fixed(train)}   valid {fixed(self._valid)}{best}   {_gradient(line)}   "
            f"ρ {fixed(self._radius)}   rate {line['lr']:.3g}   {line['updates_per_second']:.3g} updates/s"
        )


def words(config: Config, problem: Any) -> Words:
    """The text of a run's lines."""
    threshold = None if config.threshold == "auto" else config.threshold
    if config.form == DRAWN:
        return Words(threshold)
    return DataWords(problem.predictions("train"), problem.per_nat, threshold)


def method(config: Config) -> str:
    """What is done to the gradient, and the optimizer, which is chosen independently.

    >>> method(Config("addition", "sgd", optimizer="adam"))
    'sgd (plain gradient), optimizer adam'
    """
    return f"{config.algorithm} ({ALGORITHMS[config.algorithm]}), optimizer {config.optimizer}"


class Plain(Display):
    """One line of text for each check."""

    def __init__(self, words: Words) -> None:
        self._words = words

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        self.say(self._words.title(config))
        yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        self.say(self._words.text(line))
        if remark := self._words.remark(line):
            self.say(remark)

    def say(self, text: str) -> None:
        try:
            print(text, flush=True)
        except UnicodeEncodeError:  # what the terminal or pipe does not know, such as Ω, is replaced
            encoding = sys.stdout.encoding or "ascii"
            print(text.encode(encoding, "replace").decode(encoding), flush=True)


class Live(Display):
    """A bar, the time left, and the last check, on the terminal if there is no other console."""

    def __init__(self, console: Console | None = None, words: Words | None = None) -> None:
        import rich.live  # noqa: F401  # ImportError here where rich is not installed

        self._console, self._words = console, words or Words()
        self._line: dict[str, Any] = {}
        self._loss: float | None = None
        self._rate = 0.0
        self._ticked: tuple[float, int] | None = None

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        from ..terminal import LiveBar

        self._limit, self._max_seconds = limit, max_seconds
        with LiveBar(limit, self._console, self._words.title(config)) as self._bar:
            yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        self._line = line
        if line["loss"] is not None:
            self._loss = line["loss"]
        if remark := self._words.remark(line):
            self.say(remark)
        self._refresh(line[self._words.unit], line["seconds"])

    def say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)

    def tick(self, done: int, seconds: float, loss: float) -> None:
        if self._ticked is not None:
            before, made = self._ticked
            now = (done - made) / max(seconds - before, 1e-9)
            self._rate = now if self._rate == 0 else self._rate + SMOOTHING * (now - self._rate)
        self._ticked = (seconds, done)
        self._loss = loss if self._loss is None else self._loss + SMOOTHING * (loss - self._loss)
        self._refresh(done, seconds)

    def _refresh(self, done: int, seconds: float) -> None:
        times = [(self._limit - done) / self._rate] if self._rate > 0 else []
        if self._max_seconds is not None:
            times.append(self._max_seconds - seconds)
        left = f"{clock(max(0.0, min(times)))} left at most" if times else ""
        beside = self._words.done(done, self._limit), self._words.pace.format(self._rate), clock(seconds), left
        below = self._words.numbers(self._line, self._loss) if self._line else ""
        self._bar.show(done, "  ".join(beside), below)


class Board(Display):
    """Writes what the checks found to a folder that TensorBoard reads."""

    def __init__(self, folder: Path, unit: str) -> None:
        from ..analysis import board

        self._board = board.Board(folder, unit)

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        with self._board.opened(done):
            yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        self._board.add(line, None if seen is None else seen.norms)


def displays(directory: Path, progress: str, tensorboard: bool, words: Words) -> list[Display]:
    """What shows the progress of the run in `directory`: 'auto', 'plain' or 'none', and TensorBoard."""
    shown: list[Display] = [Display() if progress == "none" else Plain(words)]
    if progress == "auto" and sys.stdout.isatty():
        try:
            shown = [Live(words=words)]
        except ImportError:
            _log.warning("the live display needs rich: pip install 'steadygrad[train]'; here are plain lines instead")
    if tensorboard:
        shown.append(Board(directory / "tensorboard", words.unit))
    return shown


def _gradient(line: dict[str, Any]) -> str:
    norm, most, omega = (short(line[name], 0) for name in ("gradient_norm", "gradient_norm_max", "omega"))
    return f"‖g‖ {norm} (max {most})   clipped {100 * line['clip_rate']:.0f} %   Ω {omega}"


def short(value: float | None, width: int = 7) -> str:
    """A number of two digits in `width` characters; a dash where there is none."""
    return fixed(value, ".2g").ljust(width)


def fixed(value: float | None, form: str = ".4f") -> str:
    """A number in this format; a dash where there is none."""
    return "–" if value is None or not math.isfinite(value) else format(value, form)


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> clock(59.6), clock(3725)
    ('1:00', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
