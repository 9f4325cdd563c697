"""GRU and LSTM: one step, its Jacobian and the derivatives in its parameters, in closed form.

GRU, state h [H] (σ is the sigmoid, d the drive W_ih u + b_ih):

    r = σ(a_r),  a_r = d_r + W_hr h + b_hr      n  = tanh(a_n),  a_n = d_n + r ⊙ m,  m = W_hn h + b_hn
    z = σ(a_z),  a_z = d_z + W_hz h + b_hz      h' = (1 − z) ⊙ n + z ⊙ h

    J = diag(z) + diag(q_r) W_hr + diag(q_z) W_hz + diag(q_n r) W_hn
    q_n = ∂h'/∂a_n = (1 − z) tanh'(a_n),   q_z = ∂h'/∂a_z = (h − n) σ'(a_z),   q_r = ∂h'/∂a_r = q_n m σ'(a_r)

LSTM, state [h, c] [2H]:

    c' = f ⊙ c + i ⊙ g,   h' = o ⊙ tanh(c'),   i, f, o = σ(a_i), σ(a_f), σ(a_o),   g = tanh(a_g),   a = d + W_hh h + b_hh

    J = [I  diag(p)] [diag(q_o) W_ho      0   ]    p = ∂h'/∂c' = o tanh'(c'),   q_o = tanh(c') σ'(a_o)
        [0     I   ] [      C         diag(f) ]    C = diag(g σ'(a_i)) W_hi + diag(c σ'(a_f)) W_hf + diag(i tanh'(a_g)) W_hg

So the LSTM's J is singular where W_ho is, or an entry of c' is 0. Slopes come from the pre-activations (sigma.py): they
stay right where gates are saturated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..recurrence import cells
from ..recurrence.options import Options
from .layer import Components, Layer, rank_of, rows_apart
from .sigma import slope


@dataclass(frozen=True)
class GatedLayer(Layer):
    """What both share: W_hh [G H, H], W_ih [G H, D], and biases [G H] or None. Gates lie in torch's order."""

    weight_hh: Tensor
    weight_ih: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    @property
    def hidden(self) -> int:
        return self.weight_hh.shape[1]

    def drive(self, u: Tensor) -> Tensor:
        return cells.project(u, self.weight_ih, self.bias_ih)

    def recurrent(self, h: Tensor) -> Tensor:
        """W_hh h + b_hh [B, G H]."""
        return linear(h, self.weight_hh, self.bias_hh)

    def parameters(self) -> Components:
        biases = {"bias_ih": self.bias_ih, "bias_hh": self.bias_hh}
        present = {name: bias for name, bias in biases.items() if bias is not None}
        return {"weight_hh": self.weight_hh, "weight_ih": self.weight_ih, **present}

    def components(self, by_input: Tensor, by_state: Tensor, h: Tensor, u: Tensor) -> Components:
        """From ∂E/∂(W_ih u + b_ih) and ∂E/∂(W_hh h + b_hh), both [B, G H]."""
        found = {
            "weight_hh": by_state.T @ h,
            "weight_ih": by_input.T @ u,
            "bias_ih": by_input.sum(0),
            "bias_hh": by_state.sum(0),
        }
        return {name: found[name] for name in self.parameters()}


class _GRUStep(NamedTuple):
    """Each [B, H]."""

    r: Tensor
    z: Tensor
    n: Tensor
    m: Tensor
    slope_r: Tensor
    slope_n: Tensor
    q_r: Tensor
    q_z: Tensor
    q_n: Tensor


class GRULayer(GatedLayer):
    """The state is h."""

    name = "a GRU"

    @property
    def size(self) -> int:
        return self.weight_hh.shape[1]

    def next(self, s: Tensor, drive: Tensor) -> Tensor:
        return cells.step(drive, (s,), self.weight_hh, self.bias_hh, Options(mode="GRU"))[0]

    def _step(self, h: Tensor, drive: Tensor) -> _GRUStep:
        d_r, d_z, d_n = drive.chunk(3, -1)
        m_r, m_z, m = self.recurrent(h).chunk(3, -1)
        a_r, a_z = d_r + m_r, d_z + m_z
        r, z = torch.sigmoid(a_r), torch.sigmoid(a_z)
        a_n = d_n + r * m
        n, slope_r, slope_n = torch.tanh(a_n), slope(a_r, "sigmoid"), slope(a_n, "tanh")
        q_n = torch.sigmoid(-a_z) * slope_n
        return _GRUStep(r, z, n, m, slope_r, slope_n, q_n * m * slope_r, (h - n) * slope(a_z, "sigmoid"), q_n)

    def jacobian_at(self, s: Tensor, drive: Tensor) -> Tensor:
        at = self._step(s, drive)
        W_r, W_z, W_n = self.weight_hh.chunk(3)
        through_gates = _rows(at.q_r, W_r) + _rows(at.q_z, W_z) + _rows(at.q_n * at.r, W_n)
        return torch.diag_embed(at.z) + through_gates

    def pull_back(self, e: Tensor, s: Tensor, drive: Tensor, u: Tensor) -> tuple[Components, Tensor]:
        at = self._step(s, drive)
        by_input = torch.cat([at.q_r * e, at.q_z * e, at.q_n * e], -1)
        by_state = torch.cat([at.q_r * e, at.q_z * e, at.q_n * at.r * e], -1)
        return self.components(by_input, by_state, s, u), at.z * e + by_state @ self.weight_hh

    def gap(self, s: Tensor, drive: Tensor) -> Tensor:
        # F(h) − h = (1 − z)(n − h): zero where n = h, and small wherever the update gate z is near 1.
        return self._step(s, drive).n - s

    def gap_jacobian(self, s: Tensor, drive: Tensor) -> Tensor:
        at = self._step(s, drive)
        W_r, _, W_n = self.weight_hh.chunk(3)
        new = _rows(at.slope_n * at.m * at.slope_r, W_r) + _rows(at.slope_n * at.r, W_n)
        return new - torch.eye(self.size, dtype=s.dtype)


class _LSTMStep(NamedTuple):
    """Each [B, H]; q: the derivative of c' (of h' for o, with c' held) in that gate's pre-activation."""

    f: Tensor
    p: Tensor
    q_i: Tensor
    q_f: Tensor
    q_g: Tensor
    q_o: Tensor


class LSTMLayer(GatedLayer):
    """The state is [h, c], one vector."""

    name = "an LSTM"
    states = ("hc",)
    state_is = "2H"

    @property
    def size(self) -> int:
        return 2 * self.weight_hh.shape[1]

    def next(self, s: Tensor, drive: Tensor) -> Tensor:
        h, c = s.chunk(2, -1)
        return torch.cat(cells.step(drive, (h, c), self.weight_hh, self.bias_hh, Options(mode="LSTM")), -1)

    def _step(self, s: Tensor, drive: Tensor) -> _LSTMStep:
        h, c = s.chunk(2, -1)
        a_i, a_f, a_g, a_o = (drive + self.recurrent(h)).chunk(4, -1)
        i, f, g, o = torch.sigmoid(a_i), torch.sigmoid(a_f), torch.tanh(a_g), torch.sigmoid(a_o)
        after = f * c + i * g
        return _LSTMStep(
            f=f,
            p=o * slope(after, "tanh"),
            q_i=g * slope(a_i, "sigmoid"),
            q_f=c * slope(a_f, "sigmoid"),
            q_g=i * slope(a_g, "tanh"),
            q_o=torch.tanh(after) * slope(a_o, "sigmoid"),
        )

    def _right(self, at: _LSTMStep) -> Tensor:
        """The right factor of J: [B, 2H, 2H]."""
        W_i, W_f, W_g, W_o = self.weight_hh.chunk(4)
        C = _rows(at.q_i, W_i) + _rows(at.q_f, W_f) + _rows(at.q_g, W_g)
        return torch.cat([_beside(_rows(at.q_o, W_o), torch.zeros_like(C)), _beside(C, torch.diag_embed(at.f))], -2)

    def jacobian_at(self, s: Tensor, drive: Tensor) -> Tensor:
        at = self._step(s, drive)
        above, below = self._right(at).chunk(2, -2)
        return torch.cat([above + _rows(at.p, below), below], -2)

    def factors(self, s: Tensor, drive: Tensor) -> list[Tensor]:
        at = self._step(s, drive)
        left = torch.eye(self.size, dtype=s.dtype)
        left[: self.hidden, self.hidden :] = torch.diag(at.p[0])
        return [left, *rows_apart(self._right(at)[0])]

    def rank(self, s: Tensor, drive: Tensor, J: Tensor) -> Tensor:
        return rank_of(self._right(self._step(s, drive)))

    def pull_back(self, e: Tensor, s: Tensor, drive: Tensor, u: Tensor) -> tuple[Components, Tensor]:
        at = self._step(s, drive)
        e_h, e_c = e.chunk(2, -1)
        e_c = e_c + at.p * e_h
        gates = torch.cat([at.q_i * e_c, at.q_f * e_c, at.q_g * e_c, at.q_o * e_h], -1)
        before = torch.cat([gates @ self.weight_hh, at.f * e_c], -1)
        return self.components(gates, gates, s[:, : self.hidden], u), before

    def spread(self, draw: Tensor, drive: Tensor) -> Tensor:
        # c acts through tanh(c'), which 3 saturates; beyond it c' is linear in c, which Newton's method covers.
        return torch.cat([2 * draw[:, : self.hidden] - 1, 6 * draw[:, self.hidden :] - 3], 1)


def _rows(scales: Tensor, weight: Tensor) -> Tensor:
    """diag(scales) · weight: [B, H, H]."""
    return scales.unsqueeze(-1) * weight


def _beside(left: Tensor, right: Tensor) -> Tensor:
    return torch.cat([left, right], -1)
