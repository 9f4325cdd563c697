// Where the rows of a gated cell's slice lie, and the error of its state: for the sweep back and for the weight gradients.
#pragma once
#include "gated.hpp"
#include "gated_cells.hpp"
#include "slices.hpp"

namespace {

using steadygrad::count_slices;
using steadygrad::GatedProblem;
using steadygrad::Shared;

// Entries from row to row of a buffer [.., n]: rows that lie a multiple of 1 KiB apart would share a few places in the cache.
template <class T> int64_t apart(int64_t n) {
  return padded<T>(n) * int64_t(sizeof(T)) % 1024 == 0 ? padded<T>(n) + kWidth<T> : padded<T>(n);
}
// The same for rows of all gates, from any of which a whole vector may be read at any unit.
template <class T> int64_t gates_apart(const GatedProblem& p) {
  return apart<T>((p.gates - 1) * p.hidden + padded<T>(p.hidden));
}

// Where the rows of one slice are found.
template <class T> struct Rows {
  const GatedProblem& p;
  const Slice& slice;
  const T* at(const void* tensor, int64_t time, int64_t width) const {
    return static_cast<const T*>(tensor) + (time * p.batch + slice.first) * width;
  }
  // `activation` and `memory`
  int64_t first_kept(int64_t time) const {
    return p.by_slice ? slice.first * p.steps + time * slice.rows : time * p.batch + slice.first;
  }
  const T* kept_at(const void* tensor, int64_t time, int64_t width) const {
    return static_cast<const T*>(tensor) + first_kept(time) * width;
  }
  // From a row's gate to its next one, and to the same one of the next row.
  int64_t gate_step() const { return p.by_slice ? slice.rows * p.hidden : p.hidden; }
  int64_t row_step() const { return p.by_slice ? p.hidden : p.gates * p.hidden; }
  // h or c before a step; null: zeros
  const T* h_before(int64_t step) const {
    if (step > 0) return at(p.output, time_of(p, step - 1), p.hidden);
    return p.h0 ? at(p.h0, 0, p.hidden) : nullptr;
  }
  const T* c_before(int64_t step) const {
    if (step > 0) return kept_at(p.memory, time_of(p, step - 1), p.hidden);
    return p.c0 ? at(p.c0, 0, p.hidden) : nullptr;
  }
  SG_INLINE inline Kept<T> kept(int64_t step, int64_t r) const {
    const int64_t H = p.hidden, time = time_of(p, step);
    const T* h = h_before(step);
    const T* c = p.gates == 4 ? c_before(step) : nullptr;
    return {kept_at(p.activation, time, p.gates * H) + r * row_step(), kept_at(p.memory, time, H) + r * H,
            at(p.output, time, H) + r * H, h ? h + r * H : nullptr, c ? c + r * H : nullptr, H, gate_step()};
  }
};

// The error of a state: what arrived from the step after it (padded), and its own of the loss, clipped.
template <class T> struct StateError {
  const T *arrived, *direct;  // direct: null for none
  int64_t hidden;
  T clip;
  bool clips;
  Vector<T> operator()(int64_t j) const {
    Vector<T> e = load(arrived + j);
    if (direct) e += load_row(direct, j, hidden);
    return clips ? limited(e) : e;
  }
  Vector<T> limited(Vector<T> e) const { return e > clip ? splat(clip) : e < -clip ? splat(-clip) : e; }
};

template <class T> SG_INLINE inline StateError<T> state_error(const Rows<T>& rows, const T* arrived, int64_t step, int64_t r) {
  const GatedProblem& p = rows.p;
  const int64_t time = time_of(p, step);
  const T* direct = p.grad_output ? rows.at(p.grad_output, time, p.hidden) + r * p.hidden : nullptr;
  return {arrived, direct, p.hidden, T(p.clip_error), p.clip_error < 1e300 && !held(p, time, rows.slice.first + r)};
}

}  // namespace
