// The equations of the gated cells, for one vector of units at one step. Row vectors; h and c: the state before the step.
//
// GRU   r = s(a_r), z = s(a_z), m = W_hn h + b_hn, n = tanh(a_n + r m), h' = (1 - z) n + z h
//       dn = e (1 - z)(1 - n^2);  errors before the gates: g_r = dn m r(1 - r), g_z = e (h - n) z(1 - z), g_m = dn r
//       sent back: v = e z + [g_r, g_z, g_m] W_hh;  W_ih sees dn in place of g_m
// LSTM  i, f, o = s(a), g = tanh(a_g), c' = f c + i g, p = tanh(c'), h' = o p
//       d = e_c + e o(1 - p^2);  errors: [d g i(1 - i), d c f(1 - f), d i(1 - g^2), e p o(1 - o)]
//       sent back: v = errors W_hh to h, v_c = d f to c
//
// Omega's immediate derivative is sum P (x) h + errors (x) w over all pairs, w = factor * v. P is the derivative of the dot
// product of v and w in the gates' inputs W_hh h, with h, c, x and the errors e, e_c of the step's result held constant;
// gamma = w W_hh^T.
#pragma once
#include "vector.hpp"

namespace {

// factor * x. The factor alone may leave float32 where x is tiny or huge; their product does not.
template <class T> inline Vector<T> scaled(double factor, Vector<T> x) {
  const double size = __builtin_fabs(factor);
  if (size < 1e30 && size > 1e-30) return T(factor) * x;
  for (int64_t lane = 0; lane < kWidth<T>; ++lane) x[lane] = T(factor * double(x[lane]));
  return x;
}

// A gate's s(x) = 1 / (1 + exp(-x)). The plain cell's Sigmoid is slower by a quarter: it takes exp of -|x| alone.
template <class T> inline Vector<T> gate_of(Vector<T> x) {
#if SG_VECTOR_BYTES == 64 && defined(__AVX512DQ__)
  // 2^t, t = n + f: AVX-512 rounds t to n and scales by 2^n in one instruction each, and needs no limits to t. Where x is far from
  // 0, t is rounded to more than an ulp of s(x): 5e-7 of it at x = -8, below 2e-7 for x > -4.
  if constexpr (sizeof(T) == 4) {
    constexpr float kPower[] = {1.5345801e-4f, 1.3399945e-3f, 9.6184891e-3f, 5.5503286e-2f, 2.4022646e-1f, 6.9314718e-1f, 1.0f};
    const Vector<T> t = x * -1.44269504f;
    const __m512 n = _mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Vector<T> f = (Vector<T>)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Vector<T> power = splat<T>(kPower[0]);
#pragma GCC unroll 8
    for (int i = 1; i < 7; ++i) power = power * f + kPower[i];
    return 1 / (1 + (Vector<T>)_mm512_scalef_ps((__m512)power, n));
  }
#endif
  constexpr T limit = Types<T>::kExpLimit;
  const Exponential<T> e = exponential<T>(at_least<T>(at_most<T>(-x, limit), -limit));
  return 1 / (1 + (e.power * e.p + e.power));
}

// One sequence's rows at one step: what the forward pass left.
template <class T> struct Kept {
  const T *gates, *memory, *after;  // after: h'
  const T *before, *memory_before;  // h and the LSTM's c; null: zeros
  int64_t hidden, gate_step;        // gate_step: entries from a gate to the next
  Vector<T> gate(int64_t index, int64_t j) const { return load_row(gates + index * gate_step, j, hidden); }
  Vector<T> h(int64_t j) const { return before ? load_row(before, j, hidden) : Vector<T>{}; }
};

template <class T> struct Gru {
  using V = Vector<T>;
  static constexpr int kGates = 3;
  static constexpr bool kHasMemory = false;  // whether c is a part of the state
  V r, z, n, m, h, e, dn;

  // From W_ih x and W_hh h (biases included), a vector of each for every gate: the gates, m and h'.
  static void step(const V ax[kGates], const V ah[kGates], V before, V gates[kGates], V& memory, V& h) {
    gates[0] = gate_of<T>(ax[0] + ah[0]);
    gates[1] = gate_of<T>(ax[1] + ah[1]);
    memory = ah[2];
    gates[2] = Tanh<T>::value(ax[2] + gates[0] * memory);
    h = gates[2] + gates[1] * (before - gates[2]);
  }

  template <bool kOmega> Gru(const Kept<T>& kept, int64_t j, V error, V, std::integral_constant<bool, kOmega>) : e(error) {
    r = kept.gate(0, j), z = kept.gate(1, j), n = kept.gate(2, j);
    m = load_row(kept.memory, j, kept.hidden), h = kept.h(j);
    dn = e * (1 - z) * (1 - n * n);
  }
  void errors(V out[kGates]) const {
    out[0] = dn * m * (r * (1 - r));
    out[1] = e * (h - n) * (z * (1 - z));
    out[2] = dn * r;
  }
  V direct() const { return e * z; }
  V input_error(const V errors[kGates], int gate) const { return gate == 2 ? dn : errors[gate]; }
  void omega(V w, double, const V gamma[kGates], V P[kGates]) const {
    const V not_z = 1 - z, slope = 1 - n * n, rr = r * (1 - r);
    const V t = gamma[0] * m * rr + gamma[2] * r;
    const V to_z = e * (w + gamma[1] * (h - n) * (1 - 2 * z) - t * slope);
    const V a_n = -e * not_z * slope * (gamma[1] * z + 2 * n * t);
    P[0] = ((gamma[0] * m * (1 - 2 * r) + gamma[2]) * dn + a_n * m) * rr;
    P[1] = to_z * (z * not_z);
    P[2] = gamma[0] * dn * rr + a_n * r;
  }
};

template <class T> struct Lstm {
  using V = Vector<T>;
  static constexpr int kGates = 4;
  static constexpr bool kHasMemory = true;
  V i, f, g, o, c, h_after, p, e, d;

  // The same; `before` is c, `memory` c'.
  static void step(const V ax[kGates], const V ah[kGates], V before, V gates[kGates], V& memory, V& h) {
    gates[0] = gate_of<T>(ax[0] + ah[0]);
    gates[1] = gate_of<T>(ax[1] + ah[1]);
    gates[2] = Tanh<T>::value(ax[2] + ah[2]);
    gates[3] = gate_of<T>(ax[3] + ah[3]);
    memory = gates[1] * before + gates[0] * gates[2];
    h = gates[3] * Tanh<T>::value(memory);
  }

  // p is needed by d and by Omega alone, where it always comes multiplied by o: h' / o, a third of the price of its tanh, will do.
  // Where o is 0 or h' left the numbers' range, both are nearly so: all that p is multiplied by is 0, too.
  template <bool kNeedsP>
  Lstm(const Kept<T>& kept, int64_t j, V error, V error_d, std::integral_constant<bool, kNeedsP>) : e(error), d(error_d) {
    i = kept.gate(0, j), f = kept.gate(1, j), g = kept.gate(2, j), o = kept.gate(3, j);
    c = kept.memory_before ? load_row(kept.memory_before, j, kept.hidden) : V{};
    h_after = load_row(kept.after, j, kept.hidden);
    p = kNeedsP ? h_after / at_least<T>(o, Types<T>::kSmallest) : V{};
  }
  void receive(V error_c) { d = error_c + e * o * (1 - p * p); }
  void errors(V out[kGates]) const {
    out[0] = d * g * (i * (1 - i));
    out[1] = d * c * (f * (1 - f));
    out[2] = d * i * (1 - g * g);
    out[3] = e * h_after * (1 - o);
  }
  V input_error(const V errors[kGates], int gate) const { return errors[gate]; }
  void omega(V, double factor, const V gamma[kGates], V P[kGates]) const {
    const V w_c = scaled<T>(factor, d * f), slope_g = 1 - g * g, slope_p = 1 - p * p;
    const V ii = i * (1 - i), ff = f * (1 - f);
    const V to_d = f * w_c + gamma[0] * g * ii + gamma[1] * c * ff + gamma[2] * i * slope_g;
    const V to_c = e * o * (gamma[3] * (1 - o) - 2 * p * to_d) * slope_p;
    P[0] = (d * (gamma[0] * g * (1 - 2 * i) + gamma[2] * slope_g) + to_c * g) * ii;
    P[1] = (d * (w_c + gamma[1] * c * (1 - 2 * f)) + to_c * c) * ff;
    P[2] = (d * (gamma[0] * ii - 2 * g * i * gamma[2]) + to_c * i) * slope_g;
    P[3] = e * (gamma[3] * p * (1 - 2 * o) + to_d * slope_p) * (o * (1 - o));
  }
};

}  // namespace
