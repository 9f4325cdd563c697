// GRU and LSTM and their back-propagation through time, for one instruction set (SG_ISA, SG_VECTOR_BYTES, SG_ROWS).
//
// The equations are in gated_cells.hpp; the weight gradients, and Omega in them, in gated_weights.hpp. Of Shared is kept here:
//   bias         [2, gates_apart]: what is added to W_ih x (both biases, but for the GRU's b_hn) and to W_hh h (b_hn)
//   forward_ih   with tokens: W_ih^T as rows [I, gates_apart] with that bias; else panels
//   errors       [slice][T * rows, padded H]: what arrived at the state h of each step from the step after it; v of step k is
//                what arrived at step k - 1, and the error of a state is that and its own of the loss
//   directions   the same shape, the LSTM's: d
//   forward_hh   in the backward call: W_hh^T, for Omega's gamma

#include "gated_weights.hpp"
#include "pages.hpp"

namespace steadygrad {
namespace {

const GatedProblem& gated(const Problem& p) { return static_cast<const GatedProblem&>(p); }

template <class T> void sizes_forward(const Problem& plain, int64_t bytes[3]) {
  const GatedProblem& p = gated(plain);
  const int64_t N = padded<T>(p.gates * p.hidden), row = gates_apart<T>(p);
  bytes[0] = p.hidden * N * sizeof(T);
  bytes[1] = p.inputs * (p.tokens ? row : N) * sizeof(T);
  bytes[2] = 2 * row * sizeof(T);
}

template <class T> void sizes_backward(const Problem& plain, int64_t bytes[6]) {
  const GatedProblem& p = gated(plain);
  const int64_t N = p.gates * p.hidden;
  bytes[0] = packed_entries<T>(N, p.hidden) * sizeof(T);
  bytes[1] = p.grad_x ? N * padded<T>(p.inputs) * sizeof(T) : 0;
  bytes[2] = p.steps * p.batch * padded<T>(p.hidden) * sizeof(T);
  bytes[3] = p.gates == Lstm<T>::kGates ? bytes[2] : 0;
  bytes[4] = count_slices(p) * GatedPartial<T>::size_for(p) * sizeof(T);
  bytes[5] = p.alpha > 0 ? p.hidden * padded<T>(N) * sizeof(T) : 0;
}

template <class T> int64_t scratch_bytes(const Problem& plain) {
  const GatedProblem& p = gated(plain);
  const int64_t sweep = most_rows(p) * (2 * gates_apart<T>(p) + 3 * padded<T>(p.hidden));  // and a step of the forward pass
  const int64_t sums = ChunkRoom<T>(p, nullptr).entries;
  return (sweep > sums ? sweep : sums) * sizeof(T);
}

template <class T> void pack_forward_part(const Problem& plain, const Shared& s, int64_t part) {
  const GatedProblem& p = gated(plain);
  const int64_t H = p.hidden, I = p.inputs, N = p.gates * H, row = gates_apart<T>(p);
  pack_part<T>(p, part, H, N, static_cast<const T*>(p.weight_hh), 1, H, static_cast<T*>(s.forward_hh));
  const T* ih = static_cast<const T*>(p.weight_ih);
  T* table = static_cast<T*>(s.forward_ih);
  if (!p.tokens) pack_part<T>(p, part, I, N, ih, 1, I, table);
  if (part > 0) return;

  const int64_t states = p.steps * p.batch * H * sizeof(T);
  expect_large_pages(p.activation, p.gates * states);
  expect_large_pages(p.memory, states);
  expect_large_pages(p.output, states);
  T *with_x = static_cast<T*>(s.bias), *with_h = with_x + row;
  const T *b_ih = static_cast<const T*>(p.bias_ih), *b_hh = static_cast<const T*>(p.bias_hh);
  for (int64_t j = 0; j < row; ++j) {
    const bool apart = p.gates == Gru<T>::kGates && j >= 2 * H;  // the GRU's reset gate stands between these two
    const T of_x = j < N && b_ih ? b_ih[j] : T(0), of_h = j < N && b_hh ? b_hh[j] : T(0);
    with_x[j] = apart ? of_x : of_x + of_h;
    with_h[j] = apart ? of_h : T(0);
  }
  for (int64_t i = 0; p.tokens && i < I; ++i)
    for (int64_t j = 0; j < row; ++j) table[i * row + j] = with_x[j] + (j < N ? ih[j * I + i] : T(0));
}

template <class T> void pack_backward_part(const Problem& plain, const Shared& s, int64_t part) {
  const GatedProblem& p = gated(plain);
  const int64_t H = p.hidden, I = p.inputs, N = p.gates * H;
  const T* hh = static_cast<const T*>(p.weight_hh);
  const int64_t few = few_columns<T>(H), whole = H - few;
  pack_part<T>(p, part, N, whole, hh, H, 1, static_cast<T*>(s.backward_hh));
  if (part == 0) pack_few<T>(N, few, hh + whole, H, 1, few_of<T>(N, H, static_cast<T*>(s.backward_hh)));
  if (p.grad_x) pack_part<T>(p, part, N, I, static_cast<const T*>(p.weight_ih), I, 1, static_cast<T*>(s.backward_ih));
  if (s.forward_hh) pack_part<T>(p, part, H, N, hh, 1, H, static_cast<T*>(s.forward_hh));
}

// The forward pass of one slice.
template <class T, class Cell> struct Forward {
  using V = Vector<T>;
  const GatedProblem& p;
  const Slice& slice;
  const Rows<T> rows{p, slice};
  const int64_t H = p.hidden, R = slice.rows, N = Cell::kGates * H, row = gates_apart<T>(p);
  const T *const with_x, *const with_h, *const table, *const hh;
  T *const from_x, *const from_h;  // [R, row]: the products of one step
  const T *h_before = rows.h_before(0), *c_before = rows.c_before(0);
  T *gates, *memory, *output;  // of this step
  // Both products at once, where no gate wants them apart: `with_h` is then all zeros.
  const bool both = Cell::kHasMemory && !p.tokens && p.inputs + H <= kLongestSum;
  // All rows as one long row. Not where each has a table's row of its own or its own length, and not where a vector may hold
  // the entries of more than two rows.
  const bool flat = p.by_slice && !p.tokens && !p.lengths && H >= kWidth<T>;

  Forward(const GatedProblem& problem, const Shared& s, const Slice& of_slice, T* scratch)
      : p(problem), slice(of_slice), with_x(static_cast<const T*>(s.bias)), with_h(with_x + row),
        table(static_cast<const T*>(s.forward_ih)), hh(static_cast<const T*>(s.forward_hh)), from_x(scratch),
        from_h(scratch + most_rows(p) * row) {}

  void run() {
    for (int64_t step = 0; step < p.steps; ++step) {
      const int64_t time = time_of(p, step);
      gates = static_cast<T*>(p.activation) + rows.first_kept(time) * N;
      memory = static_cast<T*>(p.memory) + rows.first_kept(time) * H;
      output = static_cast<T*>(p.output) + (time * p.batch + slice.first) * H;
      multiply_step(time);
      if (!flat)
        for (int64_t r = 0; r < R; ++r) one_row(time, r);
      else if (both) all_rows<true>();
      else all_rows<false>();
      h_before = output;
      c_before = memory;
    }
    __builtin_memcpy(static_cast<T*>(p.last) + slice.first * H, h_before, R * H * sizeof(T));
    if (Cell::kHasMemory) __builtin_memcpy(static_cast<T*>(p.last_c) + slice.first * H, c_before, R * H * sizeof(T));
  }

 private:
  void multiply_step(int64_t time) const {
    if (both) {
      const T* const h_rows = h_before ? h_before : from_x;  // of no terms where there is no h: never read
      multiply_both<T>(R, N, {{p.inputs, rows.at(p.x, time, p.inputs), p.inputs, 1, table}, {h_before ? H : 0, h_rows, H, 1, hh}},
                       from_x, row, with_x);
      return;
    }
    if (!p.tokens) multiply<T>(R, N, p.inputs, rows.at(p.x, time, p.inputs), p.inputs, 1, table, from_x, row, {with_x, 0});
    if (h_before) multiply<T>(R, N, H, h_before, H, 1, hh, from_h, row, {with_h, 0});
    else
      for (int64_t r = 0; r < R; ++r) __builtin_memcpy(from_h + r * row, with_h, row * sizeof(T));
  }

  void one_row(int64_t time, int64_t r) const {
    const T* ax = p.tokens ? table + p.tokens[time * p.batch + slice.first + r] * row : from_x + r * row;
    const T* ah = both ? with_h : from_h + r * row;
    const bool hold = held(p, time, slice.first + r);
    each_vector<T>(H, [&](int64_t j) SG_INLINE {
      const V h_old = h_before ? load_row(h_before + r * H, j, H) : V{};
      const V c_old = Cell::kHasMemory && c_before ? load_row(c_before + r * H, j, H) : V{};
      V of_x[Cell::kGates], of_h[Cell::kGates], found[Cell::kGates], kept, h;
      for (int gate = 0; gate < Cell::kGates; ++gate) of_x[gate] = load(ax + gate * H + j), of_h[gate] = load(ah + gate * H + j);
      Cell::step(of_x, of_h, Cell::kHasMemory ? c_old : h_old, found, kept, h);
      for (int gate = 0; gate < Cell::kGates; ++gate)
        store_row(gates + r * rows.row_step() + gate * rows.gate_step(), found[gate], j, H);
      store_row(memory + r * H, hold && Cell::kHasMemory ? c_old : kept, j, H);
      store_row(output + r * H, hold ? h_old : h, j, H);
    });
  }

  // kFromX: W_hh h is a part of from_x.
  template <bool kFromX> void all_rows() const {
    const T* const state = Cell::kHasMemory ? c_before : h_before;
    int64_t r = 0;
    each_vector<T>(R * H, [&](int64_t j) SG_INLINE {
      const int64_t of_row = (r + 1) * H - j;  // how many lanes belong to row r
      const int64_t at = j + r * (row - H);
      const bool two = of_row < kWidth<T> && r + 1 < R;
      const auto fetch = [&](const T* from, int gate) SG_INLINE {
        const T* const found = from + at + gate * H;
        return two ? load_both(found, found + (row - H), of_row) : load(found);
      };
      const V old = state ? load_row(state, j, R * H) : V{};
      V of_x[Cell::kGates], of_h[Cell::kGates], found[Cell::kGates], kept, h;
      for (int gate = 0; gate < Cell::kGates; ++gate) {
        of_x[gate] = fetch(from_x, gate);
        of_h[gate] = kFromX ? V{} : fetch(from_h, gate);
      }
      Cell::step(of_x, of_h, old, found, kept, h);
      for (int gate = 0; gate < Cell::kGates; ++gate) store_row(gates + gate * R * H, found[gate], j, R * H);
      store_row(memory, kept, j, R * H);
      store_row(output, h, j, R * H);
      if (of_row <= kWidth<T>) ++r;
    });
  }
};

// Squares that leave float32 are added up once more, on a scale that fits; a sum of exactly 0 may be one, too.
template <class T, class Row> double square_of(T sums, int64_t n, Row row) {
  const double square = double(sums);
  if (sizeof(T) == 8 || (square < 1e37 && square > 1e-30)) return square;
  return scaled_square<T>(square < 1 ? T(0x1p100) : T(0x1p-100), n, row);
}

// One slice's errors, from the last step to the first.
template <class T, class Cell> struct Sweep {
  using V = Vector<T>;
  const GatedProblem& p;
  const Slice slice;
  const Rows<T> rows{p, slice};
  const int64_t H = p.hidden, P = padded<T>(H), R = slice.rows, row = gates_apart<T>(p);
  T* const errors;                                // [R, row]: before the gates, of one step
  T* const first = errors + most_rows(p) * row;   // [R, P]: the error of h0
  T* c_arrived = first + most_rows(p) * P;        // [R, P], the LSTM's: what arrived at c from the step after it
  T* c_sent = c_arrived + most_rows(p) * P;       // [R, P]: what is sent to the step before
  T *const arrived, *const d;

  Sweep(const GatedProblem& problem, const Shared& s, int64_t index, T* scratch)
      : p(problem), slice(problem, index), errors(scratch), arrived(static_cast<T*>(s.errors) + slice.first * p.steps * P),
        d(Cell::kHasMemory ? static_cast<T*>(s.directions) + slice.first * p.steps * P : nullptr) {}

  void run(const T* backward_hh) {
    const T *grad_last = static_cast<const T*>(p.grad_last), *grad_last_c = static_cast<const T*>(p.grad_last_c);
    fill(arrived + (p.steps - 1) * R * P, grad_last);
    if (Cell::kHasMemory) fill(c_arrived, grad_last_c);
    const bool adds = !Cell::kHasMemory || p.lengths;  // whether anything but the product goes back to h
    const int64_t N = Cell::kGates * H, few = few_columns<T>(H), whole = H - few;
    for (int64_t step = p.steps - 1; step >= 0; --step) {
      T* sent = step > 0 ? arrived + (step - 1) * R * P : first;
      for (int64_t r = 0; r < R; ++r) {
        const bool hold = held(p, time_of(p, step), slice.first + r);
        if (hold) pass_on(step, r, sent + r * P);
        else go_back(step, r, sent + r * P);
      }
      if (step > 0) expect_step(step - 1);
      if (step > 0 || p.grad_h0) {
        const Term<T, int64_t> term = {N, errors, row, 1, few_of<T>(N, H, backward_hh)};
        multiply_few<T>(R, few, &term, 1, [&](int64_t r, const T* found) {
          T* const to = sent + r * P + whole;
          if (!adds) store(to, V{});
          for (int64_t n = 0; n < few; ++n) to[n] += found[n];
        });
        multiply<T>(R, whole, N, errors, row, 1, backward_hh, sent, P, adds ? Start<T>{sent, P} : Start<T>{});
      }
      T* swap = c_arrived;
      c_arrived = c_sent;
      c_sent = swap;
    }
    if (p.grad_h0) hand_out(first, static_cast<T*>(p.grad_h0));
    if (Cell::kHasMemory && p.grad_c0) hand_out(c_arrived, static_cast<T*>(p.grad_c0));
  }

 private:
  void fill(T* to, const T* from) const {
    for (int64_t r = 0; r < R; ++r)
      for (int64_t j = 0; j < P; j += kWidth<T>)
        store(to + r * P + j, from ? load_row(from + (slice.first + r) * H, j, H) : V{});
  }
  void hand_out(const T* from, T* to) const {
    for (int64_t r = 0; r < R; ++r)
      for (int64_t j = 0; j < H; j += kWidth<T>) store_row(to + (slice.first + r) * H, load(from + r * P + j), j, H);
  }

  void expect_step(int64_t step) const {
    const int64_t time = time_of(p, step);
    expect<T>(rows.kept_at(p.activation, time, Cell::kGates * H), R * Cell::kGates * H);
    if (Cell::kHasMemory) expect<T>(rows.at(p.output, time, H), R * H);
    if (const T* before = Cell::kHasMemory ? rows.c_before(step) : rows.h_before(step)) expect<T>(before, R * H);
    if (!Cell::kHasMemory) expect<T>(rows.kept_at(p.memory, time, H), R * H);
  }

  // A step that holds its state: its error goes on as it is.
  void pass_on(int64_t step, int64_t r, T* sent) {
    const StateError<T> error = state_error(rows, arrived + (step * R + r) * P, step, r);
    for (int64_t j = 0; j < P; j += kWidth<T>) {
      store(sent + j, error(j));
      if (Cell::kHasMemory) store(c_sent + r * P + j, load(c_arrived + r * P + j));
    }
    __builtin_memset(errors + r * row, 0, Cell::kGates * H * sizeof(T));
    if (p.error_sq) record(step, r, 0.0, 0.0);
  }

  void go_back(int64_t step, int64_t r, T* sent) {
    const Kept<T> kept = rows.kept(step, r);
    const T *v = arrived + (step * R + r) * P, *v_c = c_arrived + r * P;
    const StateError<T> error = state_error(rows, v, step, r);
    const auto error_c = [&](int64_t j) { return error.clips ? error.limited(load(v_c + j)) : load(v_c + j); };
    V error_sums = {}, back_sums = {};
    each_vector<T>(H, [&](int64_t j) SG_INLINE {
      const V e = error(j), back = load(v + j);
      Cell cell(kept, j, e, V{}, std::true_type());
      error_sums += e * e;
      back_sums += back * back;
      if constexpr (Cell::kHasMemory) {
        const V e_c = error_c(j), back_c = load(v_c + j);
        cell.receive(e_c);
        store(d + (step * R + r) * P + j, cell.d);
        store(c_sent + r * P + j, cell.d * cell.f);
        if (p.lengths) store(sent + j, V{});
        error_sums += e_c * e_c;
        back_sums += back_c * back_c;
      } else {
        store(sent + j, cell.direct());
      }
      V found[Cell::kGates];
      cell.errors(found);
      for (int gate = 0; gate < Cell::kGates; ++gate) store_row(errors + r * row + gate * H, found[gate], j, H);
    });
    if (!p.error_sq) return;
    // Both parts of the state in one row of 2 P entries.
    const int64_t n = Cell::kHasMemory ? 2 * P : P;
    const auto of_error = [&](int64_t j) { return j < P ? error(j) : error_c(j - P); };
    const auto of_back = [&](int64_t j) { return j < P ? load(v + j) : load(v_c + j - P); };
    record(step, r, square_of<T>(sum<T>(error_sums), n, of_error), square_of<T>(sum<T>(back_sums), n, of_back));
  }

  // The squared norm of the step's error, and of what the step after it sent here, which is written down with the sender.
  void record(int64_t step, int64_t r, double error_sq, double back_sq) const {
    double* const error_sqs = p.error_sq + (slice.first + r) * p.steps;
    double* const back_sqs = p.back_sq + (slice.first + r) * p.steps;
    const int64_t time = time_of(p, step);
    error_sqs[time] = error_sq;
    if (step == 0) back_sqs[time] = 0.0;
    if (step + 1 == p.steps) return;
    const int64_t later = time_of(p, step + 1);
    back_sqs[later] = held(p, later, slice.first + r) ? 0.0 : back_sq;
  }
};

template <class T> void forward(const Problem& plain, const Shared& s, int64_t index, void* scratch) {
  const GatedProblem& p = gated(plain);
  const Slice slice(p, index);
  if (p.gates == Lstm<T>::kGates) Forward<T, Lstm<T>>(p, s, slice, static_cast<T*>(scratch)).run();
  else Forward<T, Gru<T>>(p, s, slice, static_cast<T*>(scratch)).run();
}

template <class T> void backward(const Problem& plain, const Shared& s, int64_t index, void* scratch) {
  const GatedProblem& p = gated(plain);
  const T* hh = static_cast<const T*>(s.backward_hh);
  if (p.gates == Lstm<T>::kGates) Sweep<T, Lstm<T>>(p, s, index, static_cast<T*>(scratch)).run(hh);
  else Sweep<T, Gru<T>>(p, s, index, static_cast<T*>(scratch)).run(hh);
}

template <class T> void weights(const Problem& plain, const Shared& s, int64_t index, void* scratch) {
  const GatedProblem& p = gated(plain);
  if (p.gates == Lstm<T>::kGates) gated_weights<T, Lstm<T>>(p, s, index, static_cast<T*>(scratch));
  else gated_weights<T, Gru<T>>(p, s, index, static_cast<T*>(scratch));
}

template <class T> void reduce_part(const Problem& plain, const Shared& s, int64_t part) {
  gated_reduce<T>(gated(plain), s, part);
}

template <class T> constexpr Kernel table(const char* name) {
  return {name,        sizes_forward<T>, sizes_backward<T>, nullptr,          nullptr,
          forward<T>,  backward<T>,      nullptr,           nullptr,          weights<T>,
          nullptr,     scratch_bytes<T>, pack_forward_part<T>, pack_backward_part<T>, reduce_part<T>};
}

}  // namespace

extern const Kernel SG_JOIN(gated_float_, SG_ISA);
extern const Kernel SG_JOIN(gated_double_, SG_ISA);
const Kernel SG_JOIN(gated_float_, SG_ISA) = table<float>(SG_TEXT(SG_ISA));
const Kernel SG_JOIN(gated_double_, SG_ISA) = table<double>(SG_TEXT(SG_ISA));

}  // namespace steadygrad
