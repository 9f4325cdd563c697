"""Statistics, state through JSON, and the sentence for every bad argument."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clip_cases import (
    clipper_of,
    feed,
    fresh,
    lognormal,
    parameters,
)
from torch import nn
from torch.nn import Parameter

from steadygrad.clip import Auto, ClipStats, NormClipper, Percentile, Spike

INF, NAN = math.inf, math.nan


def test_stats_count_what_happened() -> None:
    clipper = clipper_of(2.0, history=3)
    feed(clipper, [1.0, 4.0, NAN, 3.0])
    stats = clipper.stats
    assert isinstance(stats, ClipStats)
    assert (stats.steps, stats.clipped, stats.skipped, stats.clip_rate) == (4, 2, 1, 0.5)
    assert (stats.norm_before, stats.norm_after, stats.threshold) == (3.0, 2.0, 2.0)
    assert stats.history[0] == (4.0, 2.0)
    assert math.isnan(stats.history[1][0])
    assert stats.history[1][1] == 0.0
    assert stats.history[2] == (3.0, 2.0)
    assert str(stats) == (
        "clipped 2 of 4 gradients (50 %); skipped 1; not finite last: parameter 0 of group 0 (shape 1); "
        "last norm 3 -> 2; threshold 2"
    )
    feed(clipper, [5.0])
    assert stats.steps == 4  # a snapshot
    with pytest.raises(AttributeError):
        stats.steps = 0  # type: ignore[misc]


def test_stats_before_the_first_step_are_readable() -> None:
    stats = clipper_of(Percentile(50), history=0).stats
    assert (stats.clip_rate, stats.history) == (0.0, ())
    assert str(stats) == "clipped 0 of 0 gradients (0 %); threshold inf"


def test_scalar_and_empty_steps_are_judged() -> None:
    optimizer = torch.optim.SGD([Parameter(torch.tensor(1.0))], lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    optimizer.step()
    assert clipper.stats.norm_before == 0.0
    optimizer.param_groups[0]["params"][0].grad = torch.tensor(NAN)
    optimizer.step()
    assert clipper.stats.last_skipped == ("parameter 0 of group 0 (shape scalar)",)


RULES = [
    1.5,
    Auto(warmup=30, window=40),
    Auto(warmup=30, window=40, statistic="mean"),
    Percentile(80, 25),
    Spike(warmup=30),
    Spike(z=1.0, action="skip", warmup=30),
]


@pytest.mark.filterwarnings("ignore:the last 20 updates")  # z = 1 skips a good many
@pytest.mark.parametrize("per", ["all", "group", "parameter"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("stop", [0, 1, 29, 30, 31, 100])
def test_state_dict_through_json_continues_to_the_same_numbers(rule: Any, stop: int, per: Any) -> None:
    norms = lognormal(160)
    norms[[20, 90, 110]] = (INF, NAN, 1e8)
    whole, first, second = (clipper_of(rule, per=per) for _ in range(3))
    met = feed(whole, norms)
    feed(first, norms[:stop])
    second.load_state_dict(json.loads(json.dumps(first.state_dict(), allow_nan=False)))
    assert feed(second, norms[stop:]) == met[stop:]
    assert json.dumps(second.state_dict()) == json.dumps(whole.state_dict())
    assert str(second.stats) == str(whole.stats)


def test_state_of_another_rule_is_refused() -> None:
    others: list[Any] = [(Auto(), Auto(window=500)), (Percentile(5), 1.0), (1.0, "auto"), (Spike(), Spike(z=4))]
    for rule, other in [*others, (Auto(), Auto(statistic="mean")), (Auto(statistic="mean"), Auto())]:
        with pytest.raises(ValueError, match="state must come from a clipper with the threshold"):
            clipper_of(rule).load_state_dict(clipper_of(other).state_dict())
    with pytest.raises(ValueError, match="it lacks clipped, history"):
        clipper_of(1.0).load_state_dict({"steps": 1})


def test_state_of_other_units_is_refused_and_nothing_is_changed() -> None:
    for per, other in (("all", "group"), ("parameter", "all"), ("group", "parameter")):
        with pytest.raises(ValueError, match=f"state must come from a clipper with per='{per}', not '{other}'"):
            clipper_of(1.0, per=per).load_state_dict(clipper_of(1.0, per=other).state_dict())
    three = NormClipper(torch.optim.SGD(parameters([1.0], [2.0], [3.0]), lr=0.0), 1.0, per="parameter")
    one = clipper_of(1.0, per="parameter")
    feed(one, [5.0])
    before = one.state_dict()
    with pytest.raises(ValueError, match=r"with 1 thresholds \(per='parameter'\), not 3"):
        one.load_state_dict(three.state_dict())
    assert one.state_dict() == before


# what version 0.1 wrote after the norms 1, 2, 30 with Auto(warmup=2, multiple=2.0, window=4): μ = (1 + 2 + 10 · 1.5) / 3
OLD = {
    "steps": 3,
    "clipped": 2,
    "skipped": 0,
    "shrunk": 0,
    "last_skipped": [],
    "last": [30.0, 3.0],
    "history": [[1.0, 1.0], [2.0, 2.0], [30.0, 3.0]],
    "threshold": {
        "rule": "auto",
        "warmup": 2,
        "multiple": 2.0,
        "window": 4,
        "norms": [1.0, 2.0, 15.0],
        "sum": 18.0,
        "turn": 1,
        "value": 12.0,
    },
}


def test_old_state_is_read_by_the_same_rule_and_refused_by_the_new() -> None:
    clipper = clipper_of(Auto(warmup=2, multiple=2.0, window=4, statistic="mean"))
    clipper.load_state_dict(OLD)
    assert (clipper.threshold, clipper.stats.steps, clipper.stats.spikes) == (12.0, 3, 0)
    again = clipper_of(Auto(warmup=2, multiple=2.0, window=4, statistic="mean"))
    feed(again, [1.0, 2.0, 30.0])
    assert again.threshold == 12.0
    with pytest.raises(ValueError, match=r"'statistic': 'median'}, not .*'statistic': 'mean'}"):
        clipper_of(Auto(warmup=2, multiple=2.0, window=4)).load_state_dict(OLD)


def test_fixed_threshold_is_not_loaded() -> None:
    clipper = clipper_of(2.0)
    clipper.load_state_dict(clipper_of(1.0).state_dict())
    assert clipper.threshold == 2.0


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"optimizer": [1]}, TypeError, "optimizer must be a torch.optim.Optimizer, not list"),
        ({"threshold": 0.0}, ValueError, "threshold must be a finite number above 0, not 0.0"),
        ({"threshold": INF}, ValueError, "threshold must be a finite number above 0, not inf"),
        ({"threshold": "atuo"}, ValueError, "threshold must be a number, 'auto', Auto"),
        ({"nonfinite": "skipp"}, ValueError, r"nonfinite must be one of .* \(did you mean 'skip'\?\)"),
        ({"history": -1}, ValueError, "history must be a whole number of at least 0, not -1"),
        ({"nonfinite": "shrink"}, ValueError, "'shrink' must know the recurrent matrices"),
        ({"nonfinite": "shrink", "recurrent": []}, ValueError, "recurrent must be parameters of the optimizer"),
        ({"nonfinite": "shrink", "recurrent": fresh()}, ValueError, "recurrent must be .* 2 of 2 are not"),
        ({"recurrent": []}, ValueError, "recurrent must be left out unless nonfinite='shrink', and that is 'skip'"),
        ({"named_parameters": nn.Linear(1, 1)}, TypeError, "named_parameters must be pairs of name and tensor"),
        ({"named_parameters": []}, ValueError, "named_parameters must name the optimizer's parameters"),
        ({"per": "groups"}, ValueError, r"per must be one of .* \(did you mean 'group'\?\)"),
        ({"per": "entry", "threshold": "auto"}, ValueError, "threshold must be a number where per='entry', not 'auto'"),
    ],
)
def test_bad_clipper_argument_is_named_and_nothing_is_attached(
    arguments: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    optimizer = torch.optim.SGD(fresh(), lr=1.0)
    with pytest.raises(error, match=sentence):
        NormClipper(**{"optimizer": optimizer, "threshold": 1.0, **arguments})
    assert "step" not in vars(optimizer)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Auto(warmup=0), "warmup must be a whole number of at least 1, not 0"),
        (lambda: Auto(multiple=0), "multiple must be a finite number above 0, not 0"),
        (lambda: Auto(warmup=50, window=20), "window must be a whole number of at least 50, not 20"),
        (lambda: Auto(statistic="average"), "statistic must be one of 'median', 'mean', not 'average'"),
        (lambda: Spike(z=0), "z must be a finite number above 0, not 0"),
        (lambda: Spike(action="drop"), "action must be one of 'clip', 'skip', not 'drop'"),
        (lambda: Spike(decay=1.0), r"decay must be a number in \[0, 1\), not 1.0"),
        (lambda: Spike(warmup=1), "warmup must be a whole number of at least 2, not 1"),
        (lambda: Percentile(0), r"p must be a number in \(0, 100\], not 0"),
        (lambda: Percentile(50, window=0), "window must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_rule_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_repr_says_how_the_clipper_was_made() -> None:
    assert repr(clipper_of(Auto(), nonfinite="raise")) == (
        "NormClipper(SGD, threshold=Auto(warmup=20, multiple=5.0, window=1000, statistic='median'), nonfinite='raise')"
    )
    assert repr(clipper_of(2.0, per="group")) == "NormClipper(SGD, threshold=2.0, nonfinite='skip', per='group')"
