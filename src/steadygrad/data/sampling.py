"""Text and music drawn from a trained model.

    text    s_{t+a} ~ softmax(y_t / τ)          y_t [O] from s_1 … s_t; a: how far ahead the model predicts
    music   u_t[k] ~ Bernoulli(sigmoid(y_t[k] / τ))     y_t [88] from u_0 … u_{t−1}, u_0 = 0; each key by itself

One step at a time, the state carried, each draw the input of a later step. τ is the temperature. As it goes to 0 the draws
become the most likely character, and every key whose probability is above ½; that is what τ = 0 takes. A model that predicts
a > 1 ahead fills the a − 1 characters between from earlier steps, so its text is as coherent as its predictions are sharp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import number, whole
from .music import KEYS


@torch.no_grad()
def sample_text(trained: Any, length: int, *, temperature: float = 1.0, seed: int = 0, prompt: str = "") -> str:
    """Text from a trained model of text.

    Args:
        trained: of `steadygrad.experiments.load`, or anything with its `model`, `symbols` and `config`.
        length: how many characters to draw; they are returned without the prompt.
        temperature: τ, at least 0.
        seed: of the draws; the same one gives the same text.
        prompt: what comes before. Where it is shorter than `ahead`, the model begins as if after the end of a line (or a
            space, if it knows no lines).
    """
    symbols = trained.symbols
    if symbols is None:
        raise ValueError(f"trained must be a model of text, not one of music ({trained.config.problem})")
    generator = _checked(length, temperature, seed)
    ahead = trained.config.ahead
    start = next((each for each in ("\n", " ") if each in symbols), symbols[0])
    s = [symbols.index(start)] * max(0, ahead - len(prompt)) + _tokens(prompt, symbols)
    begin, read, state = len(s), 0, None
    for _ in range(length):
        # The next character is predicted by the state after the one `ahead` of it; all up to there is read at once at first.
        upto = len(s) + 1 - ahead
        y, state = trained.model(torch.tensor(s[read:upto]).unsqueeze(1), state)
        read = upto
        s.append(_character(y[-1, 0], temperature, generator))
    return "".join(symbols[token] for token in s[begin:])


@torch.no_grad()
def sample_music(
    trained: Any, length: int, *, temperature: float = 1.0, seed: int = 0, prompt: Tensor | None = None
) -> Tensor:
    """A piano roll from a trained model of music.

    Args:
        trained, length, temperature, seed: as in `sample_text`; `length` counts steps.
        prompt: the steps that come before, [steps, 88] of zeros and ones; None begins a piece. The steps that are drawn
            are returned without it, uint8 [length, 88].
    """
    if trained.symbols is not None:
        raise ValueError(f"trained must be a model of music, not one of text ({trained.config.problem})")
    generator = _checked(length, temperature, seed)
    u = torch.zeros(1, KEYS)
    if prompt is not None:
        if prompt.dim() != 2 or prompt.shape[1] != KEYS or not ((prompt == 0) | (prompt == 1)).all():
            raise ValueError(f"prompt must be [steps, {KEYS}] of zeros and ones, not {list(prompt.shape)}")
        u = torch.cat([u, prompt.float()])
    state, steps = None, list[Tensor]()
    for _ in range(length):
        y, state = trained.model(u.unsqueeze(1), state)
        steps.append(_keys(y[-1, 0], temperature, generator))
        u = steps[-1].float().unsqueeze(0)
    return torch.stack(steps)


def _checked(length: int, temperature: float, seed: int) -> torch.Generator:
    whole("length", length)
    number("temperature", temperature, low=0)
    return torch.Generator().manual_seed(whole("seed", seed, low=0))


def _tokens(prompt: str, symbols: list[str]) -> list[int]:
    places = {symbol: place for place, symbol in enumerate(symbols)}
    strangers = ", ".join(repr(each) for each in dict.fromkeys(prompt) if each not in places)
    if strangers:
        seen = f"characters that the model has seen in training ({len(symbols)} of them)"
        raise ValueError(f"prompt must hold only {seen}, not {strangers}")
    return [places[each] for each in prompt]


def _character(y: Tensor, temperature: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(y.argmax())
    # The largest first taken off, so that no temperature is too small: e^{−∞} is 0, and ∞ − ∞ would be NaN.
    p = torch.softmax((y.double() - y.max()) / temperature, 0)
    return int(torch.multinomial(p, 1, generator=generator))


def _keys(y: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return (y > 0).to(torch.uint8)
    p = torch.sigmoid(y.double() / temperature)
    return torch.bernoulli(p, generator=generator).to(torch.uint8)
