"""Every result draws itself: on the Axes it is given or on its own, with labels, and with the numbers it holds."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from analysed_networks import Minimal, OverTime, Paired
from torch import nn

import steadygrad as sg

matplotlib = pytest.importorskip("matplotlib")
from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

A = sg.analysis
U = torch.randn(12, 3, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    previous = matplotlib.get_backend()
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(previous)


def latch() -> nn.Module:
    rnn = nn.GRU(1, 1, bias=False)
    with torch.no_grad():
        rnn.weight_hh_l0.zero_()
        rnn.weight_hh_l0[2] = 8.0
    return rnn


RESULTS: dict[str, Callable[[], Any]] = {
    "jacobian_norms": lambda: A.jacobian_norms(nn.LSTM(3, 4), U, error=torch.ones(4)),
    "jacobian_norms of dead units": lambda: A.jacobian_norms(nn.RNN(3, 4, nonlinearity="relu"), -9 * U.abs()),
    "jacobian_norms over no lag": lambda: A.jacobian_norms(nn.RNN(3, 4), U[:1]),
    "temporal_components": lambda: A.temporal_components(nn.GRU(3, 4), U, torch.sum),
    "temporal_components of one step": lambda: A.temporal_components(nn.LSTM(3, 4), U, torch.sum, t=1),
    "temporal_components of no error": lambda: A.temporal_components(nn.LSTM(3, 4), U, lambda h: 0 * h.sum()),
    "lyapunov_spectrum": lambda: A.lyapunov_spectrum(nn.LSTM(3, 4), U),
    "lyapunov_spectrum of one sequence": lambda: A.lyapunov_spectrum(OverTime(Minimal()), U[:, :1]),
    "lyapunov_spectrum with lost directions": lambda: A.lyapunov_spectrum(OverTime(Paired()), U),
    "fixed_points": lambda: A.fixed_points(nn.RNN(3, 4), starts=10),
    "fixed_points of one unit": lambda: A.fixed_points(latch()),
    "no fixed point": lambda: A.FixedPoints(),
    "one fixed point": lambda: A.fixed_points(nn.LSTM(3, 4), starts=10)[0],
    "linear_growth": lambda: A.linear_growth(torch.tensor([[0.5, 1.0], [0.0, 0.5]]), torch.ones(2)),
    "linear_growth of nothing": lambda: A.linear_growth(torch.eye(2), torch.zeros(2)),
    "conditions": lambda: A.conditions(nn.RNN(3, 4)),
    "conditions of a GRU": lambda: A.conditions(nn.GRU(3, 4)),
    "conditions of an LSTM": lambda: A.conditions(nn.LSTM(3, 4)),
    "conditions of zeros": lambda: A.conditions(torch.zeros(2, 2), "tanh"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_drawn_on_its_own_axes_or_on_those_given(name: str):
    result = RESULTS[name]()
    own = result.plot()
    assert isinstance(own, Axes)
    assert own.get_title()
    own.figure.canvas.draw()  # warnings are errors
    _, ax = pyplot.subplots()
    assert result.plot(ax) is ax
    assert result.plot(ax=ax) is ax


def lines(ax: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in ax.lines}


def test_the_jacobian_norms_are_drawn_as_powers_of_ten():
    torch.manual_seed(0)
    found = A.jacobian_norms(nn.GRU(3, 4), U, error=torch.ones(4))
    ax = found.plot()
    drawn = lines(ax)
    assert list(drawn) == ["upper bound", "largest singular value", "along the given error", "smallest singular value"]
    expected = (found.log_largest / math.log(10)).tolist()
    assert drawn["largest singular value"].get_ydata().tolist() == pytest.approx(expected)
    assert "lag" in ax.get_xlabel()
    ax.figure.canvas.draw()
    assert any("10^" in label.get_text() for label in ax.get_yticklabels())


def test_a_smallest_value_far_below_does_not_flatten_the_others():
    found = A.jacobian_norms(nn.LSTM(3, 4), U.repeat(20, 1, 1))
    ax = found.plot()
    (label,) = [label for label in lines(ax) if label.startswith("smallest")]
    assert f"down to $10^{{{found.log_smallest[-1].item() / math.log(10):.0f}}}$" in label
    low, high = ax.get_ylim()
    span = (found.log_bound.max() - found.log_largest.min()).item() / math.log(10)
    assert span > 0.3 * (high - low)


def test_each_parameter_has_a_line_of_its_components_by_step():
    found = A.temporal_components(nn.LSTM(3, 4), U, torch.sum)
    drawn = lines(found.plot())
    assert list(drawn) == ["weight_hh", "weight_ih", "bias_ih", "bias_hh"]
    assert list(drawn["bias_ih"].get_xdata()) == list(range(1, 13))
    assert math.isnan(drawn["weight_hh"].get_ydata()[0])  # h_0 = 0: no component, a gap


def test_of_many_parameters_the_largest_are_drawn_and_the_legend_says_so():
    class Many(Minimal):
        def __init__(self) -> None:
            super().__init__()
            self.scales = nn.ParameterList([nn.Parameter(torch.full((4,), 0.1 * k)) for k in range(5)])

        def forward(self, input: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            product = torch.ones(4, dtype=state.dtype)
            for scale in self.scales:
                product = product + scale
            return super().forward(input, state * product)

    ax = A.temporal_components(OverTime(Many()), U, torch.sum).plot()
    assert len(ax.lines) == 6
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "largest 6 of 9 parameters"


def test_the_exponents_are_drawn_by_rank_and_lost_ones_are_counted():
    found = A.lyapunov_spectrum(OverTime(Paired()), U)
    ax = found.plot()
    assert lines(ax)["mean"].get_ydata().tolist() == pytest.approx(found.exponents[:6].tolist())
    assert "4 more: −∞" in ax.get_title()


def test_fixed_points_are_marked_by_kind():
    ax = A.fixed_points(latch()).plot()
    drawn = lines(ax)
    assert list(drawn) == ["attractor (2)", "repeller (1)"]
    assert sorted(drawn["attractor (2)"].get_xdata()) == pytest.approx([-0.9993, 0.9993], abs=1e-3)


def test_growth_is_drawn_as_far_as_is_asked():
    growth = A.linear_growth(torch.tensor([[2.0]]), torch.ones(1))
    (line,) = growth.plot(lags=30).lines
    expected = [lag * math.log10(2) for lag in range(31)]
    assert list(line.get_ydata()) == pytest.approx(expected)
    with pytest.raises(ValueError, match="lags must be a whole number of at least 1, not 0"):
        growth.plot(lags=0)


@pytest.mark.parametrize("name", RESULTS)
def test_without_matplotlib_one_sentence_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch):
    result = RESULTS[name]()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^plot needs matplotlib: pip install 'steadygrad\[train\]'$"):
        result.plot()
