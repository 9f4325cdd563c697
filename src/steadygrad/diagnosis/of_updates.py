"""Findings about whole gradients: clipping, spikes, skipped updates, parameters that no error reaches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from .advice import share, times
from .findings import Finding, Rule, Seen

ENOUGH = 10
"""Fewer norms than this say nothing about what is usual."""
FEW, BEFORE = 5, 20
"""A norm is held against the median of up to `BEFORE` norms that came before it, and at least `FEW`."""
SAME = 1e-4
"""A norm after clipping that is within this share of the one before was not clipped."""


def norms_of(seen: Seen) -> list[tuple[float, float | None]]:
    """(before, after clipping) of the updates that are known: all of a clipper's, else those that were looked at."""
    found: list[tuple[float, float | None]] = []
    for look in seen.looks:
        if look.clipping is not None:
            found += look.clipping.history
        else:
            found.append((look.norm, look.norm_used))
    return found


def _is_clipped(before: float, after: float) -> bool:
    if not (math.isfinite(before) and after < before * (1 - SAME)):
        return False
    # torch.amp.GradScaler divides by a power of two: that is no clipping
    power = math.log2(before / after) if after > 0 else 0.5
    return abs(power - round(power)) > SAME or power < 1


def _plainly(number: float) -> str:
    """Two digits, without an exponent where a person would write none."""
    return f"{float(f'{number:.2g}'):g}"


def clips_always(seen: Seen) -> Iterator[Finding]:
    """The share of updates that were clipped."""
    pairs = [(before, after) for before, after in norms_of(seen) if after is not None and math.isfinite(before)]
    if len(pairs) < ENOUGH:
        return
    rate = sum(_is_clipped(before, after) for before, after in pairs) / len(pairs)
    usual, after = statistics.median(before for before, _ in pairs), statistics.median(after for _, after in pairs)
    said = (
        f"Clipping engages on {share(rate)} of {len(pairs)} updates: the usual norm is {usual:.3g}, and {after:.3g} is "
    )
    said += "left of it, so the size of the gradient is lost."
    advice = f"Raise the threshold to {_plainly(2 * usual)}, or use sg.NormClipper(optimizer, threshold='auto')."
    yield Finding("clips-always", "", rate, 0.9, True, said, advice)


def spikes(seen: Seen) -> Iterator[Finding]:
    """The largest jump of the norm that the optimizer took, against the usual one before it."""
    used = [before if after is None else after for before, after in norms_of(seen)]
    used = [norm for norm in used if math.isfinite(norm) and norm > 0]
    if len(used) < ENOUGH:
        return
    # Against what came just before: norms that fall from a large start are no spikes.
    usuals = [statistics.median(used[max(0, at - BEFORE) : at]) for at in range(FEW, len(used))]
    factor, largest, usual = max((norm / usual, norm, usual) for norm, usual in zip(used[FEW:], usuals, strict=True))
    said = (
        f"The gradient spikes: its norm was {largest:.3g} once, {times(factor)} times the usual {usual:.2g} before it, "
    )
    said += "and was not clipped."
    advice = f"Clip at {_plainly(5 * usual)} (sg.NormClipper(optimizer, threshold={_plainly(5 * usual)}))."
    yield Finding("spikes", "", factor, 20.0, True, said, advice)


def skipped(seen: Seen) -> Iterator[Finding]:
    """Updates that a clipper did not make."""
    clipping = next((look.clipping for look in reversed(seen.looks) if look.clipping is not None), None)
    if clipping is None or clipping.steps == 0:
        return
    lost = clipping.skipped + clipping.shrunk
    rate = lost / clipping.steps
    blame = f" (last because of {', '.join(clipping.last_skipped[:2])})" if clipping.last_skipped else ""
    said = f"{lost:,} of {clipping.steps:,} updates were not made: the gradient was not finite{blame}."
    advice = "Lower the learning rate, clip errors inside the layer (clip_error=1.0), and see what is not finite first."
    yield Finding("skipped", "", rate, 0.01, True, said, advice)


def no_gradient(seen: Seen) -> Iterator[Finding]:
    """Parameters whose gradient is None or 0 at every look."""
    largest: dict[str, float] = {}
    for look in seen.looks:
        for name, norm in look.gradients.items():
            # one that is not finite is reached by an error, if by a bad one
            value = 0.0 if norm is None else math.inf if math.isnan(norm) else norm
            largest[name] = max(largest.get(name, 0.0), value)
    if not largest:
        return
    names = [name for name, norm in largest.items() if norm == 0.0]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    said = (
        f"{shown} {'gets' if len(names) == 1 else 'get'} no gradient at any look: unused, cut off by detach(), or dead."
    )
    advice = (
        "Use what it belongs to in the loss, or freeze it (requires_grad_(False)) and leave it out of the optimizer."
    )
    if any("weight_hh" in name and name.endswith("_reverse") for name in names):
        advice += " A reversed direction has seen one step when it is at the last: read its last state, or output[0]."
    yield Finding("no-gradient", shown, len(names), 0.0, True, said, advice)


RULES: tuple[Rule, ...] = (clips_always, spikes, skipped, no_gradient)
