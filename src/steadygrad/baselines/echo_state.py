"""An echo state network with leaky integration units: a frozen reservoir, and a read-out by ridge regression.

    h_t = (1 − a) h_{t−1} + a tanh(W h_{t−1} + W_in u_t + b)         a = `leak` in (0, 1];  h_0 = 0      (Jaeger et al. 2007)
    y_t = W_out [1, h_t]                                             or W_out [1, h_t, u_t] with `read_inputs`

W, W_in and b are drawn once (reservoir.py); only W_out is learned, from streamed sums (ridge.py): what is kept does not grow
with the number of sequences or of steps. `leak` here is Jaeger's a, the share of what is new; `sg.RNN(leak=λ)` takes the
share of what is kept, λ = 1 − a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import checks
from . import reservoir, series
from . import ridge as regression
from .estimator import Estimator

NOT_FITTED = "EchoState must be fitted first: call fit(inputs, targets) or partial_fit(inputs, targets)"


class EchoState(Estimator):
    """A frozen random reservoir with a linear read-out, in the style of scikit-learn: `fit`, `predict`, `score`.

    Args:
        hidden_size: the units of the reservoir, H.
        radius: ρ, the spectral radius of W, above 0. Above 1 the echo of an input need not die out.
        sparsity: the share of recurrent weights that are 0, in [0, 1).
        input_scaling: the largest |weight| of the inputs, above 0: one number, or one for each channel.
        bias_scaling: the largest |bias|, at least 0.
        leak: a in (0, 1]; 1 are plain units. (`sg.RNN`'s leak is 1 − a.)
        washout: how many first steps of every sequence the read-out is not fitted to.
        ridge: λ, at least 0; or several of them to choose from by cross-validation; None tries 10⁻¹⁴ … 10² times the mean
            over states of Σ (h − h̄)².
        folds: of the cross-validation, at least 2. Sequences are dealt out to them in turn; a call with fewer sequences than
            folds is cut along time. Each costs one [K, K] matrix (ridge.py); none are needed where ridge is one number.
        read_inputs: whether the read-out sees the inputs beside the states.
        input_size, output_size: read from the first data; needed for integer tokens and integer classes.
        seed: of the reservoir.
        dtype: of the reservoir, torch.float64 or torch.float32; sums and read-out are float64.

    Shapes:
        inputs [T, B, I] or [T, I], tensors or numpy arrays, or integer tokens [T, B] in place of one-hot vectors. targets
        [S, B, O] or [S, O], or integer classes [S, B], at all T steps or at those of `steps`, a slice. Outputs are shaped as
        targets, for classes [S, B, O].

    Example:
        >>> import torch
        >>> from steadygrad.baselines import EchoState
        >>> u = torch.rand(2000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> delayed = u.roll(3, 0)
        >>> network = EchoState(100, radius=0.9, washout=50, seed=1)
        >>> network.fit(u[:1500], delayed[:1500]).score(u[1500:], delayed[1500:]) > 0.99
        True

    Reference:
        Jaeger 2001, "The echo state approach to analysing and training recurrent neural networks"; Jaeger, Lukoševičius,
        Popovici & Siewert 2007, "Optimization and applications of echo state networks with leaky-integrator neurons".
    """

    NO_GRADIENTS = "EchoState has no gradients: its reservoir is frozen, and fit solves for its read-out in closed form"
    TAKES_DTYPE = ("weight_hh", "weight_ih", "bias")
    STAYS_DOUBLE = ("leak_used", "sums", "read_out", "penalty")

    weight_hh: Tensor | None
    weight_ih: Tensor | None
    bias: Tensor | None
    leak_used: Tensor | None
    sums: Tensor | None
    read_out: Tensor | None
    penalty: Tensor | None

    def __init__(
        self,
        hidden_size: int = 300,
        *,
        radius: float = 0.9,
        sparsity: float = 0.9,
        input_scaling: float | Sequence[float] = 1.0,
        bias_scaling: float = 0.0,
        leak: float = 1.0,
        washout: int = 0,
        ridge: float | Sequence[float] | None = None,
        folds: int = 5,
        read_inputs: bool = False,
        input_size: int | None = None,
        output_size: int | None = None,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.hidden_size = checks.whole("hidden_size", hidden_size)
        self.radius = checks.number("radius", radius, low=0, open_low=True)
        self.sparsity = checks.number("sparsity", sparsity, low=0, high=1, open_high=True)
        for scaling in input_scaling if isinstance(input_scaling, Sequence) else (input_scaling,):
            checks.number("input_scaling", scaling, low=0, open_low=True)
        self.input_scaling = input_scaling
        self.bias_scaling = checks.number("bias_scaling", bias_scaling, low=0)
        self.leak = checks.number("leak", leak, low=0, high=1, open_low=True)
        self.washout = checks.whole("washout", washout, low=0)
        for penalty in ridge if isinstance(ridge, Sequence) else () if ridge is None else (ridge,):
            checks.number("ridge", penalty, low=0)
        if isinstance(ridge, Sequence) and not ridge:
            raise ValueError("ridge must be a number, several numbers or None, not an empty list")
        self.ridge = ridge
        self.folds = checks.whole("folds", folds, low=2)
        self.read_inputs = checks.flag("read_inputs", read_inputs)
        self.input_size = None if input_size is None else checks.whole("input_size", input_size)
        self.output_size = None if output_size is None else checks.whole("output_size", output_size)
        self.seed = checks.whole("seed", seed, low=0)
        self.make_room(dtype)
        self.sequences = 0

    # Fitting

    def fit(self, inputs: Any, targets: Any, steps: slice | None = None) -> EchoState:
        """Forget what was fitted, keep the reservoir, and fit the read-out to these sequences.

        Args:
            inputs, targets: see the class.
            steps: the steps that the targets belong to; all by default.

        Returns:
            This network.
        """
        self.sums = self.read_out = self.penalty = None
        self.sequences = 0
        return self.partial_fit(inputs, targets, steps).solve()

    @torch.no_grad()
    def partial_fit(self, inputs: Any, targets: Any, steps: slice | None = None) -> EchoState:
        """Add more sequences to what the read-out is fitted to; it is solved for when it is next needed.

        Every sequence begins at h_0 = 0, so one series must come whole. The arguments are those of `fit`.
        """
        sequence, _ = self._inputs(inputs)
        batch = sequence.shape[1]
        first, stop = series.read_steps(steps, len(sequence))
        size = self.output_size if self.sums is None else self._outputs(self.sums)
        wanted, _ = series.read_targets(targets, stop - first, batch, size)
        start = self._after_washout(first, stop)
        fold = self._fold_of(stop - start, batch)
        if self.sums is None:
            K = 1 + self.hidden_size + (self._weights().weight_ih.shape[1] if self.read_inputs else 0) + wanted.shape[2]
            self.sums = torch.zeros(self._folds, K, K, dtype=torch.float64, device=sequence.device)
        for piece in reservoir.pieces(self._weights(), self.leak, sequence, stop):
            low, high = max(start, piece.begin), piece.begin + len(piece.states)
            if low < high:
                features = self._features(piece)[low - piece.begin :]
                rows = wanted[low - first : high - first, piece.which], fold[low - start : high - start, piece.which]
                regression.add(self.sums, features.flatten(0, 1), rows[0].flatten(0, 1), rows[1].flatten())
        self.read_out = self.penalty = None
        self.sequences += batch
        return self

    @torch.no_grad()
    def solve(self) -> EchoState:
        """Solve for the read-out now, if sequences were added since the last time."""
        if self.read_out is None:
            if self.sums is None:
                raise RuntimeError(NOT_FITTED)
            total, outputs = self.sums.sum(0), self._outputs(self.sums)
            penalties = [float(self.ridge)] if isinstance(self.ridge, (int, float)) else list(self.ridge or ())
            penalties = penalties or regression.candidates(total, outputs)
            errors = (
                regression.cross_validate(self.sums, penalties, outputs) if len(penalties) > 1 else total.new_zeros(1)
            )
            chosen = penalties[int(errors.argmin())]
            self.read_out = regression.solve(total, [chosen], outputs)[0]
            self.penalty = total.new_tensor(chosen)
        return self

    # Using

    @torch.no_grad()
    def predict(self, inputs: Any, steps: slice | None = None) -> Any:
        """The read-out at every step, or at those of `steps`: a tensor, or a numpy array where the inputs are one.

        The washout is not taken off: the first steps of a sequence are there, and are as wrong as h_0 = 0 makes them.
        """
        self.solve()
        sequence, is_alone = self._inputs(inputs)
        first, stop = series.read_steps(steps, len(sequence))
        assert self.read_out is not None
        b, W = self.read_out[0], self.read_out[1:]
        outputs = torch.empty(stop - first, sequence.shape[1], len(b), dtype=self.dtype, device=sequence.device)
        for piece in reservoir.pieces(self._weights(), self.leak, sequence, stop):
            low, high = max(first, piece.begin), piece.begin + len(piece.states)
            if low < high:
                features = self._features(piece)[low - piece.begin :].double()
                outputs[low - first : high - first, piece.which] = (features @ W + b).to(self.dtype)
        outputs = outputs.squeeze(1) if is_alone else outputs
        return outputs.numpy() if isinstance(inputs, np.ndarray) else outputs

    def score(self, inputs: Any, targets: Any, steps: slice | None = None) -> float:
        """After the washout: R², the mean over outputs, as scikit-learn's regressors; for classes, the share that is right."""
        self.solve()
        assert self.read_out is not None
        sequence, _ = self._inputs(inputs)
        first, stop = series.read_steps(steps, len(sequence))
        start = self._after_washout(first, stop)
        wanted, is_class = series.read_targets(targets, stop - first, sequence.shape[1], self.read_out.shape[1])
        wanted = wanted[start - first :].double()
        outputs = self.predict(sequence, slice(start, stop)).double()
        if is_class:
            return (outputs.argmax(-1) == wanted.argmax(-1)).double().mean().item()
        errors = (outputs - wanted).square().sum((0, 1))
        return (1 - errors / (wanted - wanted.mean((0, 1))).square().sum((0, 1))).mean().item()

    def forward(self, inputs: Any, steps: slice | None = None) -> Tensor:
        """`predict`, for use as a module; a backward pass that comes to it is refused."""
        return self.without_gradient(torch.as_tensor(self.predict(inputs, steps)))

    @property
    def ridge_(self) -> float:
        """The λ of the read-out, given or chosen."""
        penalty = self.solve().penalty
        assert penalty is not None
        return penalty.item()

    # The reservoir

    def use(self, weight_hh: Any, weight_ih: Any, bias: Any = None) -> EchoState:
        """Take this reservoir as it is (W [H, H], W_in [H, I], b [H]) in place of a drawn one, and forget what was fitted."""
        W, W_in = (torch.as_tensor(given).detach().to(self.dtype).clone() for given in (weight_hh, weight_ih))
        b = W.new_zeros(len(W)) if bias is None else torch.as_tensor(bias).detach().to(self.dtype).clone()
        H = self.hidden_size
        if W.shape != (H, H) or W_in.dim() != 2 or len(W_in) != H or b.shape != (H,):
            raise ValueError(
                f"weight_hh, weight_ih and bias must be [{H}, {H}], [{H}, I] and [{H}], "
                f"not {list(W.shape)}, {list(W_in.shape)} and {list(b.shape)}"
            )
        return self._take(reservoir.Weights(W, W_in, b))

    def _take(self, weights: reservoir.Weights) -> EchoState:
        self.weight_hh, self.weight_ih, self.bias = (tensor.to(self.dtype) for tensor in weights)
        self.leak_used = torch.tensor(self.leak, dtype=torch.float64)
        self.sums = self.read_out = self.penalty = None
        return self

    def _weights(self) -> reservoir.Weights:
        assert self.weight_hh is not None
        assert self.weight_ih is not None
        assert self.bias is not None
        return reservoir.Weights(self.weight_hh, self.weight_ih, self.bias)

    def _inputs(self, given: Any) -> tuple[Tensor, bool]:
        """The inputs as [T, B, I] or tokens [T, B], and whether they were one sequence alone; draws the reservoir."""
        if isinstance(given, Tensor) and given.requires_grad:
            raise RuntimeError(self.NO_GRADIENTS)
        size = self.input_size if self.weight_ih is None else self.weight_ih.shape[1]
        sequence, is_alone = series.read_inputs(given, size)
        if self.weight_hh is None:
            drawn = reservoir.draw(
                self.hidden_size,
                size or sequence.shape[2],
                radius=self.radius,
                sparsity=self.sparsity,
                input_scaling=self.input_scaling,
                bias_scaling=self.bias_scaling,
                seed=self.seed,
            )
            self._take(drawn).to(sequence.device)
        return sequence.to(self.dtype) if sequence.is_floating_point() else sequence, is_alone

    def _features(self, piece: reservoir.Piece) -> Tensor:
        if not self.read_inputs:
            return piece.states
        inputs = piece.inputs
        if not inputs.is_floating_point():
            inputs = nn.functional.one_hot(inputs, self._weights().weight_ih.shape[1])
        return torch.cat([piece.states, inputs.to(piece.states)], -1)

    def check_state(self, state: dict[str, Any]) -> None:
        """Refuses a state of other units or another leak than this network's: it would predict something else."""
        W, leak = state["weight_hh"], state["leak_used"]
        if W is not None and len(W) != self.hidden_size:
            raise ValueError(f"hidden_size must be {len(W)} to load this state, not {self.hidden_size}")
        if leak is not None and leak.item() != self.leak:
            raise ValueError(f"leak must be {leak.item()} to load this state, not {self.leak}")

    # Sums

    @property
    def _folds(self) -> int:
        return 1 if isinstance(self.ridge, (int, float)) else self.folds

    def _outputs(self, sums: Tensor) -> int:
        return sums.shape[1] - 1 - self.hidden_size - (self._weights().weight_ih.shape[1] if self.read_inputs else 0)

    def _after_washout(self, first: int, stop: int) -> int:
        start = max(first, self.washout)
        if start >= stop:
            raise ValueError(
                f"washout must leave a step that has a target: it is {self.washout}, the last is step {stop}"
            )
        return start

    def _fold_of(self, steps: int, batch: int) -> Tensor:
        """The fold of every row, [steps, batch]."""
        if batch < self._folds <= steps:
            return (torch.arange(steps) * self._folds // steps).unsqueeze(1).expand(-1, batch)
        return ((torch.arange(batch) + self.sequences) % self._folds).expand(steps, -1)
