// Units of one step of a plain or gated cell, for one instruction set, with the weights as they lie: rows of W_ih and W_hh.
//
// a = W_ih x + W_hh h + b as dot products along the rows of both, a few rows of the batch and a few units at a time.

#include "gated_cells.hpp"
#include "inference.hpp"
#include "problem.hpp"

#define SG_INLINE __attribute__((always_inline))

namespace steadygrad {
namespace {

constexpr int64_t kRowsAtOnce = 64;              // rows of the batch whose sums are kept between products and nonlinearity
constexpr int kTileRows = SG_ROWS > 6 ? 4 : 2;  // with kTileUnits of them, as many sums as registers hold beside the factors
constexpr int kTileUnits = 4, kUnitsOfOneRow = 8;

// sums[m][n] += A[m] . W[n], lane by lane.
template <class T, int M, int N>
SG_INLINE inline void add_dots(int64_t K, const T* a, const T* w, Vector<T> (&sums)[M][N]) {
  int64_t k = 0;
  for (; k + kWidth<T> <= K; k += kWidth<T>) {
    Vector<T> right[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) right[n] = load(w + n * K + k);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const Vector<T> left = load(a + m * K + k);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] += left * right[n];
    }
  }
  if (k == K) return;
  Vector<T> right[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) right[n] = load_part(w + n * K + k, K - k);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    const Vector<T> left = load_part(a + m * K + k, K - k);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[m][n] += left * right[n];
  }
}

// Of one row and a block of units: what W_ih x and W_hh h come to, gate by gate. Where only their sum is needed, it is in `x`.
template <class T> struct Sums {
  T x[4 * kUnitBlock], h[4 * kUnitBlock];
};

template <class T> struct Block {
  const CellStep& s;
  int64_t row, unit;  // the first ones
  Sums<T>* sums;

  const T* weights_of(const void* matrix, int64_t gate, int64_t n, int64_t width) const {
    return static_cast<const T*>(matrix) + (gate * s.hidden + unit + n) * width;
  }
  T bias(const void* given, int64_t gate, int64_t n) const {
    return given ? static_cast<const T*>(given)[gate * s.hidden + unit + n] : T(0);
  }

  // Rows m to m + M, units n to n + N of the block, one gate.
  template <int M, int N> void tile(int64_t gate, int64_t m, int64_t n) const {
    const bool apart = s.gates == 3 && gate == 2;  // the GRU's reset gate stands between the two products
    Vector<T> found[M][N] = {};
    if (!s.tokens)
      add_dots<T, M, N>(s.inputs, static_cast<const T*>(s.x) + (row + m) * s.inputs, weights_of(s.weights.ih, gate, n, s.inputs), found);
    const T* h = s.h ? static_cast<const T*>(s.h) + (row + m) * s.hidden : nullptr;
    const T* hh = weights_of(s.weights.hh, gate, n, s.hidden);
    if (h && !apart) add_dots<T, M, N>(s.hidden, h, hh, found);
    for (int j = 0; j < N; ++j) {
      const T of_x = bias(s.weights.bias_ih, gate, n + j), of_h = bias(s.weights.bias_hh, gate, n + j);
      for (int i = 0; i < M; ++i) {
        T value = sum<T>(found[i][j]) + (apart ? of_x : of_x + of_h);
        if (s.tokens) value += weights_of(s.weights.ih, gate, n + j, s.inputs)[s.tokens[row + m + i]];
        sums[m + i].x[gate * kUnitBlock + n + j] = value;
      }
    }
    if (!apart) return;
    Vector<T> of_state[M][N] = {};
    if (h) add_dots<T, M, N>(s.hidden, h, hh, of_state);
    for (int j = 0; j < N; ++j)
      for (int i = 0; i < M; ++i)
        sums[m + i].h[gate * kUnitBlock + n + j] = sum<T>(of_state[i][j]) + bias(s.weights.bias_hh, gate, n + j);
  }

  // N units of one gate: their rows of the weights stay in the first-level cache while all rows of the batch pass.
  template <int N> void units(int64_t gate, int64_t rows, int64_t n) const {
    int64_t m = 0;
    for (; m + kTileRows <= rows; m += kTileRows) tile<kTileRows, N>(gate, m, n);
    for (; m + 2 <= rows; m += 2) tile<2, N>(gate, m, n);
    for (; m < rows; ++m) tile<1, N>(gate, m, n);
  }

  void multiply(int64_t rows, int64_t count) const {
    for (int64_t gate = 0; gate < s.gates; ++gate) {
      int64_t n = 0;
      if (rows == 1)
        for (; n + kUnitsOfOneRow <= count; n += kUnitsOfOneRow) tile<1, kUnitsOfOneRow>(gate, 0, n);
      for (; n + kTileUnits <= count; n += kTileUnits) units<kTileUnits>(gate, rows, n);
      for (; n < count; ++n) units<1>(gate, rows, n);
    }
  }
};

// h' of one vector of units, from their sums.
template <class T, class Sigma> struct Plain {
  static Vector<T> next(const CellStep& s, const Sums<T>& sums, int64_t at, int64_t row, int64_t j) {
    const Vector<T> value = Sigma::value(load(sums.x + at));
    if (s.leak == 0) return value;
    const Vector<T> kept = T(1 - s.leak) * value;
    return s.h ? kept + T(s.leak) * load_row(static_cast<const T*>(s.h) + row * s.hidden, j, s.hidden) : kept;
  }
};
template <class T, class Cell> struct Gated {
  static Vector<T> next(const CellStep& s, const Sums<T>& sums, int64_t at, int64_t row, int64_t j) {
    Vector<T> gates[Cell::kGates], memory, h, before = {};
    T* c = Cell::kHasMemory ? static_cast<T*>(s.c) + row * s.hidden : nullptr;
    if (Cell::kHasMemory) before = load_row<T>(c, j, s.hidden);
    else if (s.h) before = load_row(static_cast<const T*>(s.h) + row * s.hidden, j, s.hidden);
    Vector<T> ax[Cell::kGates], ah[Cell::kGates];
    for (int gate = 0; gate < Cell::kGates; ++gate)
      ax[gate] = load(sums.x + at + gate * kUnitBlock), ah[gate] = load(sums.h + at + gate * kUnitBlock);
    Cell::step(ax, ah, before, gates, memory, h);
    if (Cell::kHasMemory) store_row(c, memory, j, s.hidden);
    return h;
  }
};

template <class T, class Cell> void units_of(const CellStep& s, int64_t first, int64_t end) {
  alignas(64) Sums<T> sums[kRowsAtOnce];
  __builtin_memset(sums, 0, (s.rows < kRowsAtOnce ? s.rows : kRowsAtOnce) * sizeof sums[0]);
  for (int64_t unit = first; unit < end; unit += kUnitBlock) {
    const int64_t count = end - unit < kUnitBlock ? end - unit : kUnitBlock;
    for (int64_t row = 0; row < s.rows; row += kRowsAtOnce) {
      const int64_t rows = s.rows - row < kRowsAtOnce ? s.rows - row : kRowsAtOnce;
      Block<T>{s, row, unit, sums}.multiply(rows, count);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t at = 0; at < count; at += kWidth<T>) {
          const Vector<T> h = Cell::next(s, sums[r], at, row + r, unit + at);
          store_row(static_cast<T*>(s.output) + (row + r) * s.output_row, h, unit + at, s.hidden);
          store_row(static_cast<T*>(s.next) + (row + r) * s.hidden, h, unit + at, s.hidden);
        }
    }
  }
}

template <class T> void units(const CellStep& s, int64_t first, int64_t end) {
  if (s.gates == Gru<T>::kGates) return units_of<T, Gated<T, Gru<T>>>(s, first, end);
  if (s.gates == Lstm<T>::kGates) return units_of<T, Gated<T, Lstm<T>>>(s, first, end);
  switch (s.nonlinearity) {
    case kTanh: return units_of<T, Plain<T, Tanh<T>>>(s, first, end);
    case kRelu: return units_of<T, Plain<T, Relu<T>>>(s, first, end);
    case kSigmoid: return units_of<T, Plain<T, Sigmoid<T>>>(s, first, end);
    default: return units_of<T, Plain<T, Identity<T>>>(s, first, end);
  }
}

}  // namespace

extern const InferenceKernel SG_JOIN(inference_float_, SG_ISA);
extern const InferenceKernel SG_JOIN(inference_double_, SG_ISA);
const InferenceKernel SG_JOIN(inference_float_, SG_ISA) = {sizeof(float), units<float>};
const InferenceKernel SG_JOIN(inference_double_, SG_ISA) = {sizeof(double), units<double>};

}  // namespace steadygrad
