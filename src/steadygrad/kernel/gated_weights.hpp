// The weight gradients of the gated cells, with Omega, once all errors are known.
//
// dW_hh^T = sum h (x) (errors + P) + w (x) errors,   dW_ih^T = sum x (x) errors of the input,   dx = errors W_ih
//
// Chunk by chunk of some steps, so that nothing but the error of the state is stored for the whole sequence: the errors before
// the gates, w, gamma = w W_hh^T and P are worked out while the chunk is in the cache, and each product runs over all of its
// rows. The sums are kept as their transpose, whose rows are long: fewer lanes of its vectors stand empty.
//
// What Omega costs a wide layer. A product with W_hh is R = 2 T B H G H operations, with W_ih X = 2 T B I G H. Without it a step
// takes 3 R + 2 X (forward, sweep back, dW_hh; forward, dW_ih), with it 5 R + 2 X: gamma and the second outer product. Neither can
// be had from the others: P needs gamma row by row, and errors (x) w has no factor in common with P (x) h. For I much below H the
// ratio is 5/3; for T 200, B 32, H 500, I 88 it is 1.60 for both cells (LSTM: 68.5 and 42.9 GFLOP). A step with Omega is therefore
// at most 1.5 times as long only where gamma and the outer products run at a higher rate than the rest of the step.
#pragma once
#include "gated_rows.hpp"

namespace {

// With Omega two rows enter the sum for each pair, so half as many pairs fill the cache.
int64_t gated_chunk(const GatedProblem& p) { return p.hidden > kWide && !(p.alpha > 0) ? 192 : 96; }
int64_t gated_chunk_rows(const GatedProblem& p) {
  return most_rows(p) < gated_chunk(p) ? gated_chunk(p) : most_rows(p);
}

template <class T> struct GatedPartial {  // one slice's share of the weight gradients
  T *hh, *ih, *bias_ih, *bias_hh;         // [H, G H], [I, G H], [G H], [G H], rows `row` apart
  int64_t row, size;
  static int64_t size_for(const GatedProblem& p) { return (p.hidden + p.inputs + 2) * apart<T>(p.gates * p.hidden); }
  GatedPartial(const GatedProblem& p, void* all, int64_t slice) : row(apart<T>(p.gates * p.hidden)), size(size_for(p)) {
    hh = static_cast<T*>(all) + slice * size;
    ih = hh + p.hidden * row;
    bias_ih = ih + p.inputs * row;
    bias_hh = bias_ih + row;
  }
};

template <class T> struct ChunkRoom {  // a slice's scratch memory for one chunk; what lies past a row's end is never used
  int64_t state_row, row, input_row, entries;
  T* states;  // [2 rows of a chunk, state_row]: h, and behind its rows w
  T* gamma;   // [rows of a chunk, row]: gamma, then in its place the errors that W_ih sees
  T* sums;    // [rows of a step, or of a narrow layer's chunk, row]: errors + P
  T* errors;  // the same: what W_hh sees, where that is not what W_ih sees
  T* panels;  // wide layers' alone: [2 rows of a chunk, G H], packed
  T* grad_x;  // [rows of a chunk, input_row]
  T* blocks;  // what add_outer wants for wide layers, else null
  T* inputs;  // [rows of a chunk, I]
  ChunkRoom(const GatedProblem& p, T* scratch) {  // no scratch: `entries` alone is asked for
    const int64_t rows = gated_chunk_rows(p), N = p.gates * p.hidden;
    state_row = apart<T>(p.hidden), row = gates_apart<T>(p), input_row = padded<T>(p.inputs);
    const int64_t for_hh = p.hidden > kWide ? 2 * rows * p.hidden : 0, for_ih = p.inputs > kWide ? rows * p.inputs : 0;
    entries = 0;
    const auto take = [&](int64_t count) {
      entries += count;
      return scratch ? scratch + entries - count : nullptr;
    };
    states = take(2 * rows * state_row);
    gamma = take(rows * row);
    const bool wide = p.hidden > kWide;
    sums = take((wide ? most_rows(p) : rows) * row);
    errors = take((wide ? most_rows(p) : rows) * row);
    panels = take(wide ? 2 * rows * padded<T>(N) : p.inputs > SG_ROWS ? rows * padded<T>(N) : 0);
    grad_x = take(p.grad_x ? rows * input_row : 0);
    blocks = take(padded<T>(for_hh > for_ih ? for_hh : for_ih) + kWidth<T>);
    inputs = take(rows * p.inputs);
  }
};

// One row of the sums' right-hand factors. `gamma` is read where kOmega, and then holds what W_ih sees; `sums` may be null.
template <class T, class Cell, bool kOmega>
void row_of_errors(const Kept<T>& kept, const StateError<T>& error, const T* d, const T* w, double factor, T* gamma, T* sums,
                   T* errors) {
  const int64_t H = kept.hidden;
  each_vector<T>(H, [&](int64_t j) SG_INLINE {
    const Cell cell(kept, j, error(j), d ? load(d + j) : Vector<T>{}, std::integral_constant<bool, kOmega>());
    Vector<T> found[Cell::kGates], P[Cell::kGates] = {}, towards[Cell::kGates];
    cell.errors(found);
    if (kOmega) {
      for (int gate = 0; gate < Cell::kGates; ++gate) towards[gate] = load_row(gamma + gate * H, j, H);
      cell.omega(load(w + j), factor, towards, P);
    }
    for (int gate = 0; gate < Cell::kGates; ++gate) {
      store_row(gamma + gate * H, cell.input_error(found, gate), j, H);
      if (sums) store_row(sums + gate * H, found[gate] + P[gate], j, H);
      if (!Cell::kHasMemory) store_row(errors + gate * H, found[gate], j, H);
    }
  });
}

template <class T, class Cell>
void chunk_of_weights(const GatedProblem& p, const Shared& s, const Slice& slice, const ChunkRoom<T>& room,
                      const GatedPartial<T>& partial, int64_t begin, int64_t end) {
  const int64_t H = p.hidden, I = p.inputs, N = Cell::kGates * H, P = padded<T>(H), R = slice.rows, count = (end - begin) * R;
  const Rows<T> rows{p, slice};
  const T* arrived = static_cast<const T*>(s.errors) + slice.first * p.steps * P;
  const T* d = Cell::kHasMemory ? static_cast<const T*>(s.directions) + slice.first * p.steps * P : nullptr;
  const auto factor_of = [&](int64_t step, int64_t r) {
    return s.factors && step > 0 ? s.factors[(slice.first + r) * p.steps + time_of(p, step)] : 0.0;
  };

  // w: what each step sends back, which is what arrived at the step before it.
  T* const w = room.states + count * room.state_row;
  bool omega = false;
  for (int64_t step = begin; s.factors && step < end; ++step)
    for (int64_t r = 0; r < R; ++r) {
      const double factor = factor_of(step, r);
      T* row = w + ((step - begin) * R + r) * room.state_row;
      if (factor == 0) {
        __builtin_memset(row, 0, P * sizeof(T));
        continue;
      }
      omega = true;
      const T* v = arrived + ((step - 1) * R + r) * P;
      for (int64_t j = 0; j < P; j += kWidth<T>) store(row + j, scaled<T>(factor, load(v + j)));
    }
  if (omega) multiply<T>(count, N, H, w, room.state_row, 1, static_cast<const T*>(s.forward_hh), room.gamma, room.row, {});

  // The products of a narrow layer read each row of errors so few times that it is not worth packing.
  const bool packs = H > kWide;
  const int64_t depth = omega ? 2 * count : count;
  for (int64_t step = begin; step < end; ++step) {
    const int64_t at = (step - begin) * R;
    T* const input_errors = room.gamma + at * room.row;
    T* const step_sums = room.sums + (packs ? 0 : at * room.row);
    T* const step_errors = room.errors + (packs ? 0 : at * room.row);
    for (int64_t r = 0; r < R; ++r) {
      const Kept<T> kept = rows.kept(step, r);
      T* h = room.states + (at + r) * room.state_row;
      for (int64_t j = 0; j < H; j += kWidth<T>) store(h + j, kept.h(j));
      T *gamma = input_errors + r * room.row, *errors = step_errors + r * room.row;
      T* sums = omega ? step_sums + r * room.row : nullptr;
      if (held(p, time_of(p, step), slice.first + r)) {
        __builtin_memset(gamma, 0, N * sizeof(T));
        if (sums) __builtin_memset(sums, 0, N * sizeof(T));
        __builtin_memset(errors, 0, N * sizeof(T));
        continue;
      }
      const StateError<T> error = state_error(rows, arrived + (step * R + r) * P, step, r);
      const T* d_row = d ? d + (step * R + r) * P : nullptr;
      const double factor = factor_of(step, r);
      const T* w_row = w + (at + r) * room.state_row;
      if (factor != 0) row_of_errors<T, Cell, true>(kept, error, d_row, w_row, factor, gamma, sums, errors);
      else row_of_errors<T, Cell, false>(kept, error, d_row, nullptr, 0.0, gamma, sums, errors);
    }
    const T* const errors = Cell::kHasMemory ? input_errors : step_errors;
    const auto row_of = [&](const T* first) {
      return [=, &room](int64_t r) { return [row = first + r * room.row](int64_t j) { return load(row + j); }; };
    };
    if (p.grad_weight_hh && packs) {
      pack_step<T>(at, R, depth, N, room.panels, row_of(omega ? step_sums : errors));
      if (omega) pack_step<T>(count + at, R, depth, N, room.panels, row_of(errors));
    }
    const auto add_rows = [&](T* total, const T* first) {
      for (int64_t j = 0; j < N; j += kWidth<T>) {
        Vector<T> sums = load(total + j);
        for (int64_t r = 0; r < R; ++r) sums += load(first + r * room.row + j);
        store(total + j, sums);
      }
    };
    if (p.grad_bias) add_rows(partial.bias_ih, input_errors);
    if (p.grad_bias_hh) add_rows(partial.bias_hh, errors);
  }
  if (p.grad_weight_hh && packs) {
    add_outer<T>(H, N, depth, room.states, room.state_row, room.panels, partial.hh, partial.row, room.blocks);
  } else if (p.grad_weight_hh) {
    const T* const errors = Cell::kHasMemory ? room.gamma : room.errors;
    add_narrow_outer<T>(H, N, count, room.states, room.state_row, omega ? room.sums : errors, room.row, partial.hh, partial.row);
    if (omega) add_narrow_outer<T>(H, N, count, w, room.state_row, errors, room.row, partial.hh, partial.row);
  }

  if (p.grad_weight_ih && p.tokens) {
    for (int64_t row = 0; row < count; ++row) {
      const int64_t step = begin + row / R;
      T* total = partial.ih + p.tokens[time_of(p, step) * p.batch + slice.first + row % R] * partial.row;
      for (int64_t j = 0; j < N; j += kWidth<T>) store(total + j, load(total + j) + load(room.gamma + row * room.row + j));
    }
  } else if (p.grad_weight_ih) {
    for (int64_t step = begin; step < end; ++step)
      __builtin_memcpy(room.inputs + (step - begin) * R * I, rows.at(p.x, time_of(p, step), I), R * I * sizeof(T));
    if (I <= SG_ROWS) {
      add_narrow_outer<T>(I, N, count, room.inputs, I, room.gamma, room.row, partial.ih, partial.row);
    } else {
      pack_step<T>(0, count, count, N, room.panels,
                   [&](int64_t r) { return [row = room.gamma + r * room.row](int64_t j) { return load(row + j); }; });
      add_outer<T>(I, N, count, room.inputs, I, room.panels, partial.ih, partial.row, I > kWide ? room.blocks : nullptr);
    }
  }
  if (T* grad_x = static_cast<T*>(p.grad_x)) {
    multiply<T>(count, I, N, room.gamma, room.row, 1, static_cast<const T*>(s.backward_ih), room.grad_x, room.input_row, {});
    for (int64_t row = 0; row < count; ++row) {
      T* out = grad_x + (time_of(p, begin + row / R) * p.batch + slice.first + row % R) * I;
      for (int64_t j = 0; j < I; j += kWidth<T>) store_row(out, load(room.grad_x + row * room.input_row + j), j, I);
    }
  }
}

template <class T, class Cell> void gated_weights(const GatedProblem& p, const Shared& s, int64_t index, T* scratch) {
  const Slice slice(p, index);
  const ChunkRoom<T> room(p, scratch);
  const GatedPartial<T> partial(p, s.partial, index);
  __builtin_memset(partial.hh, 0, partial.size * sizeof(T));
  const int64_t steps = slice.rows < gated_chunk(p) ? gated_chunk(p) / slice.rows : 1;
  for (int64_t begin = 0; begin < p.steps; begin += steps)
    chunk_of_weights<T, Cell>(p, s, slice, room, partial, begin, begin + steps < p.steps ? begin + steps : p.steps);
}

// Columns of grad [N, M] = sums^T, for sums [M, N] with `row` entries a row; square by square, since one of both is always read
// or written across its rows.
template <class T> void transpose(const Columns<T>& columns, int64_t M, int64_t N, const T* sums, int64_t row, T* grad) {
  constexpr int64_t kSquare = 16;
  for (int64_t n = 0; n < N; n += kSquare)
    for (int64_t m = columns.first; m < columns.end; m += kSquare)
      for (int64_t j = n; j < n + kSquare && j < N; ++j)
        for (int64_t i = m; i < m + kSquare && i < columns.end; ++i) grad[j * M + i] = sums[i * row + j];
}

template <class T> void gated_reduce(const GatedProblem& p, const Shared& s, int64_t part) {
  const GatedPartial<T> sums(p, s.partial, 0);
  const int64_t N = p.gates * p.hidden;
  const auto add_slices = [&](T* total, int64_t count) {
    for (int64_t index = 1; index < count_slices(p); ++index)
      for (int64_t i = 0; i < count; i += kWidth<T>) store(total + i, load(total + i) + load(total + index * sums.size + i));
  };
  const auto weight = [&](T* total, int64_t width, void* grad) {
    const Columns<T> columns(p, width, part);
    if (!grad || columns.first >= columns.end) return;
    add_slices(total + columns.first * sums.row, (columns.end - columns.first) * sums.row);
    transpose<T>(columns, width, N, total, sums.row, static_cast<T*>(grad));
  };
  weight(sums.hh, p.hidden, p.grad_weight_hh);
  weight(sums.ih, p.inputs, p.grad_weight_ih);
  if (part > 0) return;
  add_slices(sums.bias_ih, 2 * sums.row);
  if (p.grad_bias) __builtin_memcpy(p.grad_bias, sums.bias_ih, N * sizeof(T));
  if (p.grad_bias_hh) __builtin_memcpy(p.grad_bias_hh, sums.bias_hh, N * sizeof(T));
}

}  // namespace
