// The recurrence and its back-propagation through time, for one instruction set (SG_ISA, SG_VECTOR_BYTES, SG_ROWS).
//
// forward     a_k = W_ih x_k + W_hh h_{k-1} + b,    h_k = leak h_{k-1} + (1 - leak) s(a_k)
// backward    e_k = c_k + dE/dh_k                   the error of the state after the nonlinearity
//             d_k = (1 - leak) s'(a_k) * e_k        the error before it
//             c_{k-1} = W_hh^T d_k + leak e_k       what step k sends back
// weights     dW_hh = sum_k d_k (h_{k-1} + f_k u_k)^T,   dW_ih = sum_k d_k x_k^T,   db = sum_k d_k
//
// Omega rides in dW_hh: with the state before the nonlinearity (the paper's), v_k = s'(a_{k-1}) * c_{k-1} and
// u_k = s'(a_{k-1}) * v_k, measured against |d_k|; with the state after it, v_k = u_k = c_{k-1}, measured against |e_k|.
// The factor f_k = alpha / N * c needs the number N of active pairs, so the weights come after all slices went back.

#include "problem.hpp"
#include "product.hpp"
#include "slices.hpp"

namespace steadygrad {
namespace {

enum class State { kBefore, kAfter, kLeaky };

// With the loss at the last step alone, all of an error is what arrived: v_k is the error of step k - 1, and u_k need not be
// stored beside it.
bool errors_tell(const Problem& p) {
  return p.leak == 0 && p.convention != kProgram && !p.grad_output && !(p.clip_error < 1e300);
}

// Rows of (step, sequence) pairs whose outer products are added at a time: large enough that the products are long, small
// enough that both factors stay in the cache.
int64_t chunk(const Problem& p) { return p.hidden > kWide ? 192 : 96; }
int64_t count_chunks(const Problem& p, int64_t rows) {
  const int64_t most = rows < chunk(p) ? chunk(p) / rows : 1;
  return (p.steps + most - 1) / most;
}
int64_t chunk_rows(const Problem& p) { return most_rows(p) < chunk(p) ? chunk(p) : most_rows(p); }

template <class T> int64_t widest(const Problem& p) {
  return padded<T>(p.hidden) > padded<T>(p.inputs) ? padded<T>(p.hidden) : padded<T>(p.inputs);
}

// Few inputs, or tokens: dW_ih is added up as its transpose [I, padded H], whose rows are long.
bool narrow_inputs(const Problem& p) { return p.tokens || p.inputs <= SG_ROWS; }

// With one step from a state of zeros no gradient reaches W_hh, which is then neither laid out nor added up.
bool has_past(const Problem& p) { return p.steps > 1 || p.h0; }

// Very few inputs: dW_ih is added up in the columns behind dW_hh's, [H, padded H], which would be multiplied by zeros otherwise.
template <class T> bool inputs_ride(const Problem& p) {
  return !p.tokens && p.grad_weight_ih && p.grad_weight_hh && has_past(p) && padded<T>(p.hidden + p.inputs) == padded<T>(p.hidden);
}

template <class T> struct Partial {  // one slice's share of the weight gradients
  T *hh, *ih, *bias;
  static int64_t size(const Problem& p) {
    const int64_t ih = narrow_inputs(p) ? p.inputs * padded<T>(p.hidden) : p.hidden * padded<T>(p.inputs);
    return p.hidden * padded<T>(p.hidden) + ih + padded<T>(p.hidden);
  }
  Partial(const Problem& p, const Shared& s, int64_t slice) {
    hh = static_cast<T*>(s.partial) + slice * size(p);
    ih = hh + p.hidden * padded<T>(p.hidden);
    bias = hh + size(p) - padded<T>(p.hidden);
  }
};

template <class T> void sizes_forward(const Problem& p, int64_t bytes[3]) {
  bytes[0] = packed_entries<T>(p.hidden, p.hidden) * sizeof(T);
  bytes[1] = (p.tokens ? p.inputs * padded<T>(p.hidden) : packed_entries<T>(p.inputs, p.hidden)) * sizeof(T);
  bytes[2] = padded<T>(p.hidden) * sizeof(T);
}

template <class T> void sizes_backward(const Problem& p, int64_t bytes[6]) {
  bytes[0] = packed_entries<T>(p.hidden, p.hidden) * sizeof(T);
  bytes[1] = p.grad_x ? p.hidden * padded<T>(p.inputs) * sizeof(T) : 0;
  bytes[2] = p.steps * p.batch * padded<T>(p.hidden) * sizeof(T);
  bytes[3] = p.alpha > 0 && !errors_tell(p) ? bytes[2] : 0;
  bytes[4] = count_slices(p) * Partial<T>::size(p) * sizeof(T);
  bytes[5] = 0;
}

template <class T> int64_t scratch_bytes(const Problem& p) {
  const int64_t sweep = 2 * most_rows(p) * padded<T>(p.hidden);
  const int64_t sums = chunk_rows(p) * (widest<T>(p) + kWidth<T> + (p.hidden > kWide ? p.hidden : 0)) + kWidth<T>;
  return (sweep > sums ? sweep : sums) * sizeof(T);
}

template <class T> void pack_forward(const Problem& p, Shared& s) {
  const int64_t H = p.hidden, I = p.inputs, P = padded<T>(H);
  if (has_past(p)) pack_with_few<T>(H, H, static_cast<const T*>(p.weight_hh), 1, H, static_cast<T*>(s.forward_hh));
  const T* ih = static_cast<const T*>(p.weight_ih);
  T* packed = static_cast<T*>(s.forward_ih);
  if (p.tokens) {  // a token picks one row of W_ih^T: no product
    for (int64_t i = 0; i < I; ++i)
      for (int64_t j = 0; j < P; ++j) packed[i * P + j] = j < H ? ih[j * I + i] : T(0);
  } else {
    pack_with_few<T>(I, H, ih, 1, I, packed);
  }
  T* bias = static_cast<T*>(s.bias);
  for (int64_t j = 0; j < P; ++j) {
    bias[j] = 0;
    if (j < H && p.bias_ih) bias[j] += static_cast<const T*>(p.bias_ih)[j];
    if (j < H && p.bias_hh) bias[j] += static_cast<const T*>(p.bias_hh)[j];
  }
}

template <class T> void pack_backward(const Problem& p, Shared& s) {
  if (p.steps > 1 || p.grad_h0)
    pack_with_few<T>(p.hidden, p.hidden, static_cast<const T*>(p.weight_hh), p.hidden, 1, static_cast<T*>(s.backward_hh));
  if (p.grad_x) pack<T>(p.hidden, p.inputs, static_cast<const T*>(p.weight_ih), p.inputs, 1, static_cast<T*>(s.backward_ih));
}

template <class T, class Sigma> void forward_steps(const Problem& p, const Shared& s, const Slice& slice, T* a) {
  const int64_t H = p.hidden, I = p.inputs, B = p.batch, P = padded<T>(H);
  const T *bias = static_cast<const T*>(s.bias), *hh = static_cast<const T*>(s.forward_hh);
  const int64_t few = few_columns<T>(H), whole = H - few;
  const T* h0 = static_cast<const T*>(p.h0);
  T* output = static_cast<T*>(p.output);
  T* activation = static_cast<T*>(p.activation);
  const T leak = T(p.leak), keep = T(1 - p.leak);
  const T* previous = h0 ? h0 + slice.first * H : nullptr;
  const bool both = !p.tokens && I + H <= kLongestSum;  // both products at once; a is then [rows, H], else [rows, P]
  for (int64_t step = 0; step < p.steps; ++step) {
    const int64_t time = time_of(p, step), at = time * B + slice.first;
    const T *x = static_cast<const T*>(p.x) + (p.tokens ? 0 : at * I), *ih = static_cast<const T*>(s.forward_ih);
    if (both) {
      Term<T, int64_t> terms[2] = {{I, x, I, 1, few_of<T>(I, H, ih)}, {previous ? H : 0, previous ? previous : a, H, 1, few_of<T>(H, H, hh)}};
      multiply_few<T>(slice.rows, few, terms, previous ? 2 : 1, [&](int64_t r, const T* found) {
        for (int64_t n = 0; n < few; ++n) a[r * H + whole + n] = bias[whole + n] + found[n];
      });
      terms[0].b = ih, terms[1].b = hh;
      multiply_both<T>(slice.rows, whole, terms, a, H, bias);
    } else if (p.tokens) {
      for (int64_t r = 0; r < slice.rows; ++r) {
        const T* column = static_cast<const T*>(s.forward_ih) + p.tokens[at + r] * P;
        for (int64_t j = 0; j < P; j += kWidth<T>) store(a + r * P + j, load(bias + j) + load(column + j));
      }
    } else {
      multiply_with_few<T>(slice.rows, H, I, x, I, ih, a, P, {bias, 0});
    }
    if (previous && !both)
      multiply_with_few<T>(slice.rows, H, H, previous, H, hh, a, P, {a, P});
    if (both && !activation && !p.lengths) {  // rows without gaps are one long row
      const int64_t all = slice.rows * H;
      T* const h = output + at * H;
      each_vector<T>(all, [&](int64_t j) SG_INLINE {
        store_row(h, Sigma::value(load_row(a, j, all)), j, all);
      });
      previous = h;
      continue;
    }
    for (int64_t r = 0; r < slice.rows; ++r) {
      T* h = output + (at + r) * H;
      const bool hold = held(p, time, slice.first + r);
      for (int64_t j = 0; j < H; j += kWidth<T>) {
        Vector<T> value = Sigma::value(load(a + r * (both ? H : P) + j));
        if (activation) {
          store_row(activation + (at + r) * H, value, j, H);
          value = keep * value;
          if (previous) value += leak * load_row(previous + r * H, j, H);
        }
        if (hold) value = previous ? load_row(previous + r * H, j, H) : Vector<T>{};
        store_row(h, value, j, H);
      }
    }
    previous = output + at * H;
  }
  __builtin_memcpy(static_cast<T*>(p.last) + slice.first * H, previous, slice.rows * H * sizeof(T));
}

// Squares beyond these leave float32 as they are added up; a sum of exactly 0 may be one, too.
template <class T> bool left_range(T square) { return sizeof(T) == 4 && !(square < T(1e37) && square > T(1e-30)); }

// The commonest step, with nothing to decide on the way: all of the error is what arrived, and it goes on as it is. Of each row r
// the errors d [P], and their square, for both norms: error_sq[r * steps], and back_sq[r * steps] unless that is null. Returns false
// where a square left float32's range: that row has then to be done again.
template <class T, class Sigma>
bool arrived_rows(int64_t rows, int64_t H, int64_t P, const T* h, const T* carry, T* d, double* error_sq, double* back_sq, int64_t steps) {
  bool left = false;
  for (int64_t r = 0; r < rows; ++r, h += H, carry += P, d += P) {
    Vector<T> sums = {};
    each_vector<T>(H, [&](int64_t j) SG_INLINE {
      const Vector<T> error = Sigma::derivative(load_row(h, j, H)) * load(carry + j);
      store(d + j, error);
      sums += error * error;
    });
    if (!error_sq) continue;
    const T square = sum<T>(sums);
    left |= left_range(square);
    error_sq[r * steps] = double(square);
    if (back_sq) back_sq[r * steps] = double(square);
  }
  return !left;
}

template <class T, class Sigma, State state>
void backward_steps(const Problem& p, const Shared& s, const Slice& slice, T* carry) {
  const int64_t H = p.hidden, B = p.batch, P = padded<T>(H);
  const T* output = static_cast<const T*>(p.output);
  const T* values = state == State::kLeaky ? static_cast<const T*>(p.activation) : output;  // what s' is a function of
  const T* grad_output = static_cast<const T*>(p.grad_output);
  const T* grad_last = static_cast<const T*>(p.grad_last);
  T* errors = static_cast<T*>(s.errors) + slice.first * p.steps * P;
  T* directions = s.directions ? static_cast<T*>(s.directions) + slice.first * p.steps * P : nullptr;
  T* kept = carry + most_rows(p) * P;  // e_k, where a later line needs it
  const T leak = T(p.leak), keep = T(1 - p.leak), clip = T(p.clip_error);
  const bool measure = p.error_sq != nullptr, clips = p.clip_error < 1e300, keeps = state != State::kBefore || p.lengths;
  const bool arrives = !clips && !keeps && !grad_output && !directions;
  for (int64_t r = 0; r < slice.rows; ++r)
    for (int64_t j = 0; j < P; j += kWidth<T>)
      store(carry + r * P + j, grad_last ? load_row(grad_last + (slice.first + r) * H, j, H) : Vector<T>{});

  for (int64_t step = p.steps - 1; step >= 0; --step) {
    const int64_t time = time_of(p, step), at = time * B + slice.first;
    const bool has_later = step + 1 < p.steps;
    const int64_t later = time_of(p, step + 1);
    const int64_t measured_at = slice.first * p.steps;
    const bool done = arrives && arrived_rows<T, Sigma>(slice.rows, H, P, values + at * H, carry, errors + step * slice.rows * P,
                                                       measure ? p.error_sq + measured_at + time : nullptr,
                                                       measure && has_later ? p.back_sq + measured_at + later : nullptr, p.steps);
    for (int64_t r = 0; r < slice.rows && !done; ++r) {
      if (arrives && !left_range(T(p.error_sq[measured_at + r * p.steps + time]))) continue;
      const T* h = values + (at + r) * H;
      const T* direct = grad_output ? grad_output + (at + r) * H : nullptr;
      T* c = carry + r * P;
      T* d_row = errors + (step * slice.rows + r) * P;
      T* u_row = directions && has_later ? directions + ((step + 1) * slice.rows + r) * P : nullptr;
      const bool hold = held(p, time, slice.first + r);
      Vector<T> error_sums = {}, back_sums = {};
      for (int64_t j = 0; j < P; j += kWidth<T>) {
        const Vector<T> slope = Sigma::derivative(load_row(h, j, H));
        const Vector<T> back = load(c + j);
        const Vector<T> v = state == State::kBefore ? slope * back : back;
        if (u_row) store(u_row + j, state == State::kBefore ? slope * v : v);
        Vector<T> e = back;
        if (direct) e += load_row(direct, j, H);
        if (state == State::kLeaky && clips && !hold) e = e > clip ? splat(clip) : e < -clip ? splat(-clip) : e;
        Vector<T> d = slope * e;
        if (state == State::kLeaky) d = keep * d;
        else if (clips) d = d > clip ? splat(clip) : d < -clip ? splat(-clip) : d;
        store(d_row + j, d);
        if (keeps) store(kept + r * P + j, e);
        const Vector<T> measured = state == State::kBefore ? d : e;
        error_sums += measured * measured;
        back_sums += v * v;
      }
      if (measure) {
        double error_sq = double(sum<T>(error_sums)), back_sq = double(sum<T>(back_sums));
        // Squares that leave float32 are added up once more, on a scale that fits.
        const auto scale_for = [](double square) { return square < 1 ? T(0x1p100) : T(0x1p-100); };
        if (left_range(T(error_sq))) {
          const T* measured = state == State::kBefore ? d_row : kept + r * P;
          error_sq = scaled_square<T>(scale_for(error_sq), P, [&](int64_t j) { return load(measured + j); });
        }
        if (left_range(T(back_sq)) && has_later)
          back_sq = scaled_square<T>(scale_for(back_sq), P, [&](int64_t j) {
            return state == State::kBefore ? Sigma::derivative(load_row(h, j, H)) * load(c + j) : load(c + j);
          });
        double* const error_sqs = p.error_sq + (slice.first + r) * p.steps;
        double* const back_sqs = p.back_sq + (slice.first + r) * p.steps;
        error_sqs[time] = hold ? 0.0 : error_sq;
        // A held step has no error of its own, and nothing travels into or out of it.
        if (has_later) back_sqs[later] = hold || held(p, later, slice.first + r) ? 0.0 : back_sq;
      }
      if (hold)
        for (int64_t j = 0; j < P; j += kWidth<T>) store(d_row + j, Vector<T>{});
    }
    for (int64_t r = 0; measure && step == 0 && r < slice.rows; ++r) p.back_sq[measured_at + r * p.steps + time] = 0.0;
    if (step == 0 && !p.grad_h0) break;  // nobody asks for what the first step sends back
    if (step > 0) expect<T>(values + (time_of(p, step - 1) * B + slice.first) * H, slice.rows * H);
    multiply_with_few<T>(slice.rows, H, H, errors + step * slice.rows * P, P, static_cast<const T*>(s.backward_hh), carry, P, {});
    for (int64_t r = 0; keeps && r < slice.rows; ++r) {
      const bool hold = held(p, time, slice.first + r);
      if (!hold && state != State::kLeaky) continue;
      for (int64_t j = 0; j < P; j += kWidth<T>) {
        const Vector<T> e = load(kept + r * P + j);
        store(carry + r * P + j, hold ? e : load(carry + r * P + j) + leak * e);
      }
    }
  }
  if (T* grad_h0 = static_cast<T*>(p.grad_h0))
    for (int64_t r = 0; r < slice.rows; ++r)
      for (int64_t j = 0; j < H; j += kWidth<T>) store_row(grad_h0 + (slice.first + r) * H, load(carry + r * P + j), j, H);
}

// Omega_k = (q_k - 1)^2, q_k = |v_k| / |error_k| (paper) or its square (proceedings, program); factor_k = alpha / N * c_k, where
// c_k error_k u_k^T is the derivative: c = 2 (q - 1) / (q |error|^2), or 4 (q - 1) / |error|^2. A pair is active where
// |error|^2 >= 1e-20 of the sequence's largest (program: 1e-20 itself) and v is not 0. Written without branches, so that it is
// computed a vector at a time.
bool is_active(double error_sq, double back_sq, double bound) { return (error_sq >= bound) & (back_sq > 0); }

double bound_of(const Problem& p, int64_t row) {
  if (p.convention == kProgram) return 1e-20;
  constexpr int kSome = 8;  // one after the other, each comparison would wait for the one before
  double largest[kSome] = {};
  const double* const squares = p.error_sq + row * p.steps;
  int64_t i = 0;
  for (; i + kSome <= p.steps; i += kSome)
    for (int j = 0; j < kSome; ++j) largest[j] = squares[i + j] > largest[j] ? squares[i + j] : largest[j];
  for (; i < p.steps; ++i) largest[0] = squares[i] > largest[0] ? squares[i] : largest[0];
  for (double each : largest) largest[0] = each > largest[0] ? each : largest[0];
  return 1e-20 * largest[0];
}

int64_t active_pairs(const Problem& p, int64_t index) {
  const Slice slice(p, index);
  int64_t active = 0;
  for (int64_t row = slice.first; row < slice.first + slice.rows; ++row) {
    const double bound = bound_of(p, row);
    for (int64_t i = row * p.steps; i < (row + 1) * p.steps; ++i) active += is_active(p.error_sq[i], p.back_sq[i], bound);
  }
  return active;
}

void omega_factors(const Problem& p, const Shared& s, int64_t index) {
  const Slice slice(p, index);
  const bool paper = p.convention == kPaper;
  for (int64_t row = slice.first; row < slice.first + slice.rows; ++row) {
    const double bound = bound_of(p, row);
    for (int64_t i = row * p.steps; i < (row + 1) * p.steps; ++i) {
      const bool active = is_active(p.error_sq[i], p.back_sq[i], bound);
      const double error = active ? p.error_sq[i] : 1.0, square = active ? p.back_sq[i] / error : 1.0;
      const double q = paper ? __builtin_sqrt(square) : square;
      s.factors[i] = s.share * (paper ? 2 * (q - 1) / (q * error) : 4 * (q - 1) / error);  // 0 where not active: q is 1
    }
  }
}

template <class T, class Sigma> void weights_of(const Problem& p, const Shared& s, const Slice& slice, int64_t index, T* scratch) {
  const int64_t H = p.hidden, I = p.inputs, B = p.batch, P = padded<T>(H), R = slice.rows;
  const T* errors = static_cast<const T*>(s.errors) + slice.first * p.steps * P;
  const T* directions = s.directions ? static_cast<const T*>(s.directions) + slice.first * p.steps * P : nullptr;
  const T* output = static_cast<const T*>(p.output);
  const T* h0 = static_cast<const T*>(p.h0);
  const T* x = static_cast<const T*>(p.x);
  Partial<T> partial(p, s, index);
  T* const first = has_past(p) ? partial.hh : partial.ih;
  __builtin_memset(first, 0, (partial.hh + Partial<T>::size(p) - first) * sizeof(T));

  const int64_t chunks = count_chunks(p, R);
  const bool ride = inputs_ride<T>(p);
  T* room = H > kWide ? scratch + chunk_rows(p) * (widest<T>(p) + kWidth<T>) : nullptr;
  for (int64_t i = 0; i < chunks; ++i) {  // of equal size, not full ones and a stub
    const int64_t begin = p.steps * i / chunks, end = p.steps * (i + 1) / chunks, count = (end - begin) * R;
    const T* d = errors + begin * R * P;
    if (p.grad_weight_hh && has_past(p)) {
      for (int64_t step = begin; step < end; ++step) {
        const T* state = step > 0 ? output + (time_of(p, step - 1) * B + slice.first) * H : h0 ? h0 + slice.first * H : nullptr;
        // u_k itself, or v_k, of which it is s' times
        const T* u = !s.factors || step == 0 ? nullptr : directions ? directions + step * R * P : errors + (step - 1) * R * P;
        const double* f = s.factors + slice.first * p.steps + time_of(p, step);
        pack_step<T>((step - begin) * R, R, count, H, scratch, [&](int64_t r) {
          const double factor = u ? f[r * p.steps] : 0.0, size = __builtin_fabs(factor);
          return [=](int64_t j) {
            Vector<T> right = state ? load_row(state + r * H, j, H) : Vector<T>{};
            if (!(size > 0)) return right;
            Vector<T> turned = load(u + r * P + j);
            if (!directions) turned *= Sigma::derivative(right);
            if (size < 1e30 && size > 1e-30) return right + T(factor) * turned;
            // The factor alone may leave float32 where u is tiny or huge; their product does not.
            for (int64_t lane = 0; lane < kWidth<T>; ++lane) right[lane] += T(factor * double(turned[lane]));
            return right;
          };
        });
      }
      if (ride) {
        const int64_t panel = H / kPanel<T> * kPanel<T>, width = P - panel < kPanel<T> ? kWidth<T> : kPanel<T>;
        T* to = scratch + panel * count + H - panel;  // behind the states, in the last panel
        for (int64_t step = begin; step < end; ++step) {
          const T* from = x + (time_of(p, step) * B + slice.first) * I;
          for (int64_t r = 0; r < R; ++r, from += I, to += width)
            store_part(to, load_part(from, I), I);
        }
      }
      add_outer<T>(H, ride ? H + I : H, count, d, P, scratch, partial.hh, P, room);
    }
    if (p.grad_bias) add_rows<T>(count, P, d, partial.bias);
    if (ride) continue;
    if (p.grad_weight_ih && p.tokens) {
      for (int64_t step = begin; step < end; ++step)
        for (int64_t r = 0; r < R; ++r) {
          T* column = partial.ih + p.tokens[time_of(p, step) * B + slice.first + r] * P;
          const T* error = errors + (step * R + r) * P;
          for (int64_t j = 0; j < P; j += kWidth<T>) store(column + j, load(column + j) + load(error + j));
        }
    } else if (p.grad_weight_ih && narrow_inputs(p)) {
      for (int64_t step = begin; step < end; ++step)
        add_narrow_outer<T>(I, H, R, x + (time_of(p, step) * B + slice.first) * I, I, errors + step * R * P, P, partial.ih, P);
    } else if (p.grad_weight_ih) {
      for (int64_t step = begin; step < end; ++step) {
        const T* inputs = x + (time_of(p, step) * B + slice.first) * I;
        pack_step<T>((step - begin) * R, R, count, I, scratch,
                     [&](int64_t r) { return [=](int64_t j) { return load_row(inputs + r * I, j, I); }; });
      }
      add_outer<T>(H, I, count, d, P, scratch, partial.ih, padded<T>(I), room);
    }
  }
  if (T* grad_x = static_cast<T*>(p.grad_x)) {
    for (int64_t step = 0; step < p.steps; ++step) {
      const int64_t at = time_of(p, step) * B + slice.first;
      multiply<T>(R, I, H, errors + step * R * P, P, 1, static_cast<const T*>(s.backward_ih), scratch, padded<T>(I), {});
      for (int64_t r = 0; r < R; ++r)
        for (int64_t j = 0; j < I; j += kWidth<T>)
          store_row(grad_x + (at + r) * I, load(scratch + r * padded<T>(I) + j), j, I);
    }
  }
}

template <class T> void weights_of_slice(const Problem& p, const Shared& s, int64_t index, void* scratch_) {
  const Slice slice(p, index);
  T* scratch = static_cast<T*>(scratch_);
  switch (p.nonlinearity) {
    case kTanh: return weights_of<T, Tanh<T>>(p, s, slice, index, scratch);
    case kRelu: return weights_of<T, Relu<T>>(p, s, slice, index, scratch);
    case kSigmoid: return weights_of<T, Sigmoid<T>>(p, s, slice, index, scratch);
    default: return weights_of<T, Identity<T>>(p, s, slice, index, scratch);
  }
}

template <class T> void reduce(const Problem& p, const Shared& s) {
  const int64_t H = p.hidden, I = p.inputs, slices = count_slices(p);
  const Partial<T> sums(p, s, 0);
  const int64_t size = Partial<T>::size(p), first = has_past(p) ? 0 : sums.ih - sums.hh;
  for (int64_t index = 1; index < slices; ++index)
    for (int64_t i = first; i < size; i += kWidth<T>)  // every part of it is a whole number of vectors
      store(sums.hh + i, load(sums.hh + i) + load(sums.hh + index * size + i));
  T* const grad_hh = static_cast<T*>(p.grad_weight_hh);
  if (grad_hh && !has_past(p)) __builtin_memset(grad_hh, 0, H * H * sizeof(T));
  else if (T* grad = grad_hh)
    for (int64_t i = 0; i < H; ++i) __builtin_memcpy(grad + i * H, sums.hh + i * padded<T>(H), H * sizeof(T));
  if (T* grad = static_cast<T*>(p.grad_weight_ih)) {
    for (int64_t i = 0; i < H; ++i) {
      if (inputs_ride<T>(p)) __builtin_memcpy(grad + i * I, sums.hh + i * padded<T>(H) + H, I * sizeof(T));
      else if (!narrow_inputs(p)) __builtin_memcpy(grad + i * I, sums.ih + i * padded<T>(I), I * sizeof(T));
      else
        for (int64_t j = 0; j < I; ++j) grad[i * I + j] = sums.ih[j * padded<T>(H) + i];
    }
  }
  if (T* grad = static_cast<T*>(p.grad_bias)) __builtin_memcpy(grad, sums.bias, H * sizeof(T));
}

template <class T> void forward(const Problem& p, const Shared& s, int64_t index, void* scratch) {
  const Slice slice(p, index);
  T* a = static_cast<T*>(scratch);
  switch (p.nonlinearity) {
    case kTanh: return forward_steps<T, Tanh<T>>(p, s, slice, a);
    case kRelu: return forward_steps<T, Relu<T>>(p, s, slice, a);
    case kSigmoid: return forward_steps<T, Sigmoid<T>>(p, s, slice, a);
    default: return forward_steps<T, Identity<T>>(p, s, slice, a);
  }
}

template <class T, class Sigma>
void backward_in(const Problem& p, const Shared& s, const Slice& slice, T* carry) {
  if (p.leak > 0) backward_steps<T, Sigma, State::kLeaky>(p, s, slice, carry);
  else if (p.convention == kProgram) backward_steps<T, Sigma, State::kAfter>(p, s, slice, carry);
  else backward_steps<T, Sigma, State::kBefore>(p, s, slice, carry);
}

template <class T> void backward(const Problem& p, const Shared& s, int64_t index, void* scratch) {
  const Slice slice(p, index);
  T* carry = static_cast<T*>(scratch);
  switch (p.nonlinearity) {
    case kTanh: return backward_in<T, Tanh<T>>(p, s, slice, carry);
    case kRelu: return backward_in<T, Relu<T>>(p, s, slice, carry);
    case kSigmoid: return backward_in<T, Sigmoid<T>>(p, s, slice, carry);
    default: return backward_in<T, Identity<T>>(p, s, slice, carry);
  }
}

template <class T> constexpr Kernel table(const char* name) {
  return {name,        sizes_forward<T>, sizes_backward<T>,   pack_forward<T>, pack_backward<T>,
          forward<T>,  backward<T>,      active_pairs,        omega_factors,
          weights_of_slice<T>, reduce<T>, scratch_bytes<T>};
}

}  // namespace

extern const Kernel SG_JOIN(float_, SG_ISA);
extern const Kernel SG_JOIN(double_, SG_ISA);
const Kernel SG_JOIN(float_, SG_ISA) = table<float>(SG_TEXT(SG_ISA));
const Kernel SG_JOIN(double_, SG_ISA) = table<double>(SG_TEXT(SG_ISA));

}  // namespace steadygrad
