"""Where to clip: a fixed threshold, or one taken from the norms ‖g_1‖, ‖g_2‖, … of the updates before.

    fixed:       θ_n = θ
    Auto:        θ_n = m · q50 / min(q50/q10, 100)        q: quantiles of the last w norms, so mostly θ_n = m · q10
      warm-up:   the same, but at most 1; θ_1 = 1
    Auto(statistic="mean"), the paper's heuristic:
                 θ_n = m · μ_n,    μ_n = mean(a_{n−w}, …, a_{n−1}),    a_i = min(‖g_i‖, 10 μ_i)
      warm-up:   θ_n = m · median(‖g_1‖, …, ‖g_{n−1}‖);    θ_1 = ∞
    Percentile:  θ_n = the smallest of the last w norms that at least p % of them do not exceed;    θ_1 = ∞
    Spike:       θ_n = μ_n + z s_n        μ, s: running mean and deviation of a_i = min(‖g_i‖, θ_i), decay d
                 μ_{n+1} = d μ_n + (1−d) a_n,    s²_{n+1} = d s²_n + (1−d) (a_n − μ_n)²,    s at least μ/100
      warm-up:   θ_n = ∞; then μ = the median of those norms, s = 1.4826 times their median deviation from it

Norms that are not finite never come here, and a norm of 0 is passed over, since it says nothing about the scale of the
others. Every quantile is one of the norms: the largest that at most that fraction of the others lies below.

"One good heuristic for setting this threshold is to look at statistics on the average norm over a sufficiently large
number of updates" (Pascanu et al. 2013, section "Scaling down the gradients").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadygrad import checks


@dataclass(frozen=True)
class Auto:
    """A multiple of the ordinary norms of the recent updates; or, by name, the paper's multiple of the average norm.

    statistic="median":

        θ_n = multiple · q50 / spread,    spread = min(q50 / q10, 100)

    q50 is the median of the last `window` norms, q10 their tenth percentile. Where norms are ordinary they lie close
    together, and θ is a few times the median. Where they explode they differ by orders of magnitude, and even their
    median is an exploded one: there the spread leads back to what the quiet updates have. In the first `warmup`
    updates θ is at most 1 besides: a network may explode at its first update, and a short step does no harm.

    statistic="mean":

        θ_n = multiple · μ_n,    μ_n = mean(a_{n−window}, …, a_{n−1}),    a_i = min(‖g_i‖, 10 μ_i)

    No norm counts for more than ten times the average it met, so that one explosion, however large, raises the
    threshold by at most 9/window of itself, while a lasting change of scale is followed within one window. The first
    `warmup` updates are clipped at `multiple` times their median so far, and enter the first average bounded by ten
    times that median. The first update is not clipped at all. A network that explodes from its first update on has a
    large average too, and is not helped.

    Args:
      warmup: how many updates the start takes, as above.
      multiple: how many times the ordinary norm a norm may be, above 0.
      window: how many updates are remembered, at least `warmup`.
      statistic: "median" or "mean".

    Example:
      >>> Auto(multiple=3)
      Auto(warmup=20, multiple=3.0, window=1000, statistic='median')

    Reference: Pascanu, Mikolov & Bengio 2013, section "Scaling down the gradients" (the mean).
    """

    warmup: int = 20
    multiple: float = 5.0
    window: int = 1000
    statistic: Literal["median", "mean"] = "median"

    def __post_init__(self) -> None:
        checks.whole("warmup", self.warmup)
        object.__setattr__(self, "multiple", checks.number("multiple", self.multiple, low=0, open_low=True))
        checks.whole("window", self.window, low=self.warmup)
        checks.one_of("statistic", self.statistic, ("median", "mean"))


@dataclass(frozen=True)
class Percentile:
    """The p-th percentile of the last `window` norms, before clipping.

        θ_n = the smallest of ‖g_{n−window}‖, …, ‖g_{n−1}‖ that at least p % of them do not exceed

    It is always one of those norms (no interpolation: between an ordinary norm and an explosion lies no threshold).
    About (100 − p) % of the updates are clipped. `Percentile(10)` over a long window is AutoClip.

    Args:
      p: above 0 and at most 100, the largest norm of the window.
      window: how many updates are remembered.

    Example:
      >>> Percentile(90, window=200)
      Percentile(p=90.0, window=200)

    Reference: Seetharaman et al. 2020, "AutoClip: adaptive gradient clipping for source separation networks".
    """

    p: float
    window: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.number("p", self.p, low=0, high=100, open_low=True))
        checks.whole("window", self.window)


@dataclass(frozen=True)
class Spike:
    """Clips or skips updates whose norm leaves the running mean of the norms by more than z deviations.

        θ_n = μ_n + z s_n

    A norm enters the mean μ and the deviation s as at most θ: one spike moves them little, and a lasting change of
    scale is followed, since each update beyond θ widens s. This holds for skipped updates too. Norms that lie closer
    together than 1 % of their mean count as 1 % apart. The first `warmup` updates are only watched: μ and s start from
    their median and their median deviation, which single spikes among them do not move.

    Args:
      z: how many deviations above the mean a norm may be, above 0.
      action: "clip" scales the gradient to the norm θ; "skip" makes no update.
      decay: how much of the mean is kept at each update, from 0 to below 1; 0.97 remembers some 30 updates.
      warmup: how many updates are watched first, at least 2.

    Example:
      >>> Spike(z=4, action="skip")
      Spike(z=4.0, action='skip', decay=0.97, warmup=25)

    Reference: Kumar et al. 2025, "ZClip: adaptive spike mitigation for LLM pre-training".
    """

    z: float = 3.0
    action: Literal["clip", "skip"] = "clip"
    decay: float = 0.97
    warmup: int = 25

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", checks.number("z", self.z, low=0, open_low=True))
        checks.one_of("action", self.action, ("clip", "skip"))
        object.__setattr__(self, "decay", checks.number("decay", self.decay, low=0, high=1, open_high=True))
        checks.whole("warmup", self.warmup, low=2)


Threshold = float | Literal["auto"] | Auto | Percentile | Spike
