"""Findings about errors on their way back through time, and about the recurrent matrix that carries them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from ..eigen import spectral_radius
from ..recurrence import nonlinearity
from .advice import give_alpha, memory_bias, raise_bias, times
from .findings import Finding, Rule, Seen
from .look import CellLook, Look

LONG = 16
"""A way of fewer steps is too short to call anything forgetful."""


def not_finite(seen: Seen) -> Iterator[Finding]:
    """The first look with a fault: the cell where it arose, and how to keep it from there."""
    ill = [look for look in seen.looks if _origin(look) is not None]
    if not ill:
        yield Finding("not-finite", "", 0.0, 0.0, True, "All values were finite.", "")
        return
    where, what, advice = _origin(ill[0]) or ("", "", "")
    often = f", and at {len(ill)} of {len(seen.looks)} looks" if len(ill) > 1 else ""
    said = f"{where}{what} is not finite, first at update {ill[0].update}{often}."
    yield Finding("not-finite", where.strip(": "), len(ill) / len(seen.looks), 0.0, True, said, advice)


def _origin(look: Look) -> tuple[str, str, str] | None:
    faulty = [cell for cell in look.cells if cell.fault is not None]
    # A fault of the forward pass arose in the lowest layer that has one, an error's in the highest.
    forward = [cell for cell in faulty if cell.fault is not None and cell.fault.what != "error"]
    cell = forward[0] if forward else faulty[-1] if faulty else None
    if cell is not None and cell.fault is not None:
        return f"{cell.name}: the ", str(cell.fault), _cure(cell)
    broken = [name for name, norm in look.gradients.items() if norm is not None and not math.isfinite(norm)]
    if broken:
        advice = "Look at what comes after the recurrent layers (the loss, a division, a logarithm of 0)."
        return "", f"the gradient of {broken[0]}", advice
    return None


def _cure(cell: CellLook) -> str:
    assert cell.fault is not None
    what = cell.fault.what
    if what == "input":
        return "Look for NaN or infinity in the data, or in the layers before it."
    if what.startswith("parameter"):
        return "An earlier update broke it: go back to a checkpoint, and clip with sg.NormClipper, which skips such updates."
    if what == "error":
        return f"Clip errors inside the layer (clip_error=1.0), or make weight_hh_{cell.cell} smaller (sg.init.orthogonal_)."
    return (
        f"Make weight_hh_{cell.cell} smaller (sg.init.orthogonal_), or use a bounded nonlinearity (tanh); "
        "then clip with sg.NormClipper."
    )


def explodes(seen: Seen) -> Iterator[Finding]:
    """The growth of the error on its way back."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        growth = seen.median(cells, lambda cell: cell.growth if cell.fault is None else math.nan)
        if math.isnan(growth) or not last.ratios:
            continue
        said = f"{name} explodes: the error grows {times(growth)}-fold on its way back through {last.steps} steps."
        advice = "Clip the gradient (sg.NormClipper(optimizer, threshold='auto'))"
        per_step = growth ** (1 / max(last.room, 1))
        if last.kind in ("tanh", "relu", "sigmoid", "identity"):
            advice += f", multiply weight_hh_{last.cell} by {1 / per_step:.2f}"
        advice += f", or {give_alpha(seen.alphas.get(last.layer))}."
        yield Finding("explodes", name, growth, 100.0, True, said, advice)


def forgets(seen: Seen) -> Iterator[Finding]:
    """The horizon, against the steps that there are."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        if last.room < LONG or last.fault is not None:
            continue
        kept = seen.median(cells, lambda cell: cell.horizon / cell.room if cell.room else math.nan)
        said = f"{name} forgets: the error keeps 1 % after {round(kept * last.room)} of {last.room} steps."
        advice = _to_remember(seen, last)
        yield Finding("forgets", name, kept, 0.25, False, said, advice)


def _to_remember(seen: Seen, cell: CellLook) -> str:
    ways = [give_alpha(seen.alphas.get(cell.layer))]
    if cell.kind in ("LSTM", "GRU"):
        ways.append(raise_bias(cell, "f" if cell.kind == "LSTM" else "z", memory_bias(cell.room)))
    elif cell.kind in ("tanh", "relu", "identity"):
        ways.append("begin with an orthogonal recurrent matrix (sg.init.orthogonal_)")
    text = ", or ".join(ways)
    return text[0].upper() + text[1:] + "."


def late_loss(seen: Seen) -> Iterator[Finding]:
    """Steps that no error reaches, where the loss speaks to a few alone."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        if last.room < LONG or last.fault is not None or not last.spoken_to <= 0.1:
            continue
        reached = seen.median(cells, lambda cell: cell.reached)
        silent = round((1 - reached) * last.steps)
        said = f"{name} hears of the loss at {max(1, round(last.spoken_to * last.steps))} of {last.steps} steps, and "
        said += f"{silent} get less than 1 % of its error."
        advice = "Give more steps a loss of their own, or begin with shorter sequences and let them grow."
        yield Finding("late-loss", name, reached, 0.25, False, said, advice)


def layers_differ(seen: Seen) -> Iterator[Finding]:
    """The largest errors of a layer and of the one above it, of the same module."""
    recent = seen.recent()
    for name, cells in recent.items():
        last = cells[-1]
        if not last.cell.startswith("l") or not last.cell[1:].removesuffix("_reverse").isdigit():
            continue
        number = int(last.cell[1:].removesuffix("_reverse"))
        above = replace(last, cell=last.cell.replace(str(number), str(number + 1))).name
        if above not in recent:
            continue
        own, other = (seen.median(each, lambda cell: max(cell.norms, default=0.0)) for each in (cells, recent[above]))
        if not (math.isfinite(own) and math.isfinite(other)) or own == 0 or other == 0:
            continue
        apart = max(own / other, other / own)
        said = f"The errors of {name} and {above} differ {times(apart)}-fold: {own:.1e} and {other:.1e} at most."
        small = own < other
        advice = (
            f"Draw weight_ih_l{number + 1} anew: it is too {'small' if small else 'large'}; "
            "or put a LayerNorm or a skip connection between them."
        )
        yield Finding("layers-differ", name, apart, 1e4, True, said, advice)


def contracting(seen: Seen) -> Iterator[Finding]:
    """Plain cells: what the largest singular value lets through at most (Pascanu et al. 2013, eq. 6)."""
    for name, cell, weight in _plain(seen):
        gamma, bound = nonlinearity.get(cell.kind).bound, 0.0
        sigma_max = torch.linalg.matrix_norm(weight.double().cpu(), 2).item()
        bound = cell.leak + (1 - cell.leak) * gamma * sigma_max
        through = math.exp(min(0.0, cell.room * math.log(max(bound, 1e-300))))
        said = f"{name}: whatever its input, at most {through:.0e} of the error gets through {cell.room} steps: "
        said += f"σ_max of weight_hh_{cell.cell} is {sigma_max:.3g}, and 1/γ is {1 / gamma:g}."
        factor = 1 / (gamma * max(sigma_max, 1e-300))
        advice = f"Begin with sg.init.orthogonal_{f'(layer, gain={1 / gamma:g})' if gamma < 1 else '(layer)'}, "
        advice += f"or multiply weight_hh_{cell.cell} by {times(factor)}."
        yield Finding("contracting", name, through, 0.01, False, said, advice)


def matrix_too_large(seen: Seen) -> Iterator[Finding]:
    """Plain cells: γ ρ far above 1."""
    for name, cell, weight in _plain(seen):
        if cell.leak > 0:
            continue
        gamma = nonlinearity.get(cell.kind).bound
        rho = spectral_radius(weight.cpu())
        said = (
            f"{name}: ρ of weight_hh_{cell.cell} is {rho:.3g}, {times(gamma * rho)} times what keeps an error steady "
        )
        said += f"(1/γ = {1 / gamma:g})."
        advice = f"Multiply weight_hh_{cell.cell} by {1 / max(gamma * rho, 1e-300):.2f}, and lower the learning rate."
        yield Finding("matrix-too-large", name, gamma * rho, 1.5, True, said, advice)


def _plain(seen: Seen) -> Iterator[tuple[str, CellLook, torch.Tensor]]:
    for name, cells in seen.recent().items():
        cell = cells[-1]
        weight = seen.weights.get(f"{cell.layer} {cell.cell}".strip())
        known = cell.kind in nonlinearity.NONLINEARITIES and weight is not None and bool(weight.isfinite().all())
        if known and weight is not None and cell.room >= LONG and cell.call == 0:
            yield name, cell, weight


RULES: tuple[Rule, ...] = (not_finite, explodes, forgets, late_loss, layers_differ, contracting, matrix_too_large)
