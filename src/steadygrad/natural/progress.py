"""How a run on music or text is put into words: its title, its lines, and the numbers under the bar.

ptb, 1 ahead · sgd-cr · 500 units · seed 1
━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━   epoch 12 of 30   41,200 tokens/s   14:20   20:10 left at most
train 1.481   valid 1.523 (best 1.519)   ‖g‖ 3.1 (max 41)   clipped 61 %   Ω 0.012   ρ 1.08   rate 0.005   210 updates/s
"""

from __future__ import annotations

from typing import Any

from ..training.progress import Words, clock, short


class NaturalWords(Words):
    """The words of a run on music or text.

    Args:
        predictions: how many make an epoch.
        per_nat: how many units of the figure of merit a nat is.
    """

    unit = "tokens"

    def __init__(self, predictions: int, per_nat: float) -> None:
        self._predictions, self._per_nat = predictions, per_nat
        self._valid: float | None = None
        self._best: float | None = None
        self._radius: float | None = None

    def title(self, config: Any) -> str:
        own = f" {config.path}" if config.path else ""
        ahead = f", {config.ahead} ahead" if config.is_text else ""
        return f"{config.data}{own}{ahead} · {config.algorithm} · {config.hidden} units · seed {config.seed}"

    def done(self, done: int, limit: int) -> str:
        epochs = limit // self._predictions
        return f"epoch {min(epochs, 1 + done // self._predictions)} of {epochs}"

    def pace(self, rate: float) -> str:
        return f"{rate:,.0f} tokens/s"

    def text(self, line: dict[str, Any]) -> str:
        """
        >>> line = {"epoch": 3, "updates": 1200, "train": 1.5, "valid": None, "gradient_norm": 2.0, "clip_rate": 0.5}
        >>> line |= {"omega": 0.01, "spectral_radius": None, "lr": 0.01, "updates_per_second": 9.5}
        >>> line |= {"tokens_per_second": 41200.0, "seconds": 61}
        >>> NaturalWords(1000, 1.0).text(line)[:53]
        'epoch   3     1,200 updates  train 1.5000  valid –   '
        """
        return (
            f"epoch {line['epoch']:3d}  {line['updates']:8,} updates  train {_figure(line['train'])}  "
            f"valid {_figure(line['valid'])}  ‖g‖ {short(line['gradient_norm'])} clipped {100 * line['clip_rate']:3.0f} %  "
            f"Ω {short(line['omega'])} ρ {_figure(line['spectral_radius'])}  rate {line['lr']:<8.3g} "
            f"{line['updates_per_second']:.3g} updates/s  {line['tokens_per_second']:,.0f} tokens/s  {clock(line['seconds'])}"
        )

    def numbers(self, line: dict[str, Any], loss: float | None) -> str:
        if line["valid"] is not None:  # at the end of an epoch; between, what was found there is still shown
            self._valid, self._radius = line["valid"], line["spectral_radius"]
            self._best = line["valid"] if self._best is None else min(self._best, line["valid"])
        train = line["train"] if loss is None else loss * self._per_nat
        valid = _figure(self._valid).strip()
        best = "" if self._best is None else f" (best {_figure(self._best).strip()})"
        most = short(line["gradient_norm_max"], 0)
        return (
            f"train {_figure(train).strip()}   valid {valid}{best}   ‖g‖ {short(line['gradient_norm'], 0)} (max {most})   "
            f"clipped {100 * line['clip_rate']:.0f} %   Ω {short(line['omega'], 0)}   "
            f"ρ {_figure(self._radius).strip()}   rate {line['lr']:.3g}   "
            f"{line['updates_per_second']:.3g} updates/s"
        )


def _figure(value: float | None) -> str:
    return "–".ljust(6) if value is None else f"{value:<6.4f}"
