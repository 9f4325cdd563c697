"""A network whose recurrent matrix has no eigenvalue but 0, and whose gradients explode.

W_rec = 3 · [[1, 1], [−1, −1]],   W_in u = (−1.5, 3) at every step,   W_rec² = 0
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checks import whole


def counterexample(steps: int = 200) -> tuple[nn.RNN, Tensor]:
    """A tanh network with ρ(W_rec) = 0 whose gradients explode: the eigenvalue is not enough.

        W_rec = 3 · [[1, 1], [−1, −1]],   W_in u = (−1.5, 3) at every step,   W_rec² = 0

    Its only eigenvalue is 0, so by the paper's wording (λ_1 < 1/γ = 1) every long-term component should vanish. But
    σ_max = 6, and the slopes do not commute with W_rec: with the second unit saturated, diag(σ') ≈ diag(1, 0), and
    W_rec diag(1, 0) = [[3, 0], [−3, 0]] multiplies its own image by 3 at every step. The constant input leads the
    state through such places again and again: the network is chaotic, and ‖∂x_t/∂x_k‖ grows by about e^0.5 per step
    along almost every trajectory. Nothing is balanced on an edge: small changes of weights, input and start leave
    this as it is.

    Args:
        steps: length T of the input.

    Returns:
        The network, a torch.nn.RNN(1, 2) in float64, and its input of ones [T, 1, 1].

    Example:
        >>> rnn, inputs = counterexample(steps=50)
        >>> from steadygrad.analysis import conditions
        >>> found = conditions(rnn.weight_hh_l0, "tanh")
        >>> found.rho < 1e-6, found.vanishing_guaranteed
        (True, False)

    Reference: Pascanu et al. 2013, section 2.1, eq. 6; two-unit chaos of this kind: Wang 1991, "Period-doublings to
    chaos in a simple neural network".
    """
    whole("steps", steps)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        rnn = nn.RNN(1, 2, nonlinearity="tanh", bias=False, dtype=torch.float64)
        rnn.get_parameter("weight_hh_l0").copy_(torch.tensor([[3.0, 3.0], [-3.0, -3.0]]))
        rnn.get_parameter("weight_ih_l0").copy_(torch.tensor([[-1.5], [3.0]]))
    return rnn, torch.ones(steps, 1, 1, dtype=torch.float64)
