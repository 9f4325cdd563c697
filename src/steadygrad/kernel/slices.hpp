// What the plain and the gated cells share: the rows of a slice, its order of steps, squared norms, packed steps.
#pragma once
#include "problem.hpp"
#include "product.hpp"

namespace {

using steadygrad::Problem;

struct Slice {
  int64_t first, rows;  // of the batch
  Slice(const Problem& p, int64_t index) {
    const int64_t slices = steadygrad::count_slices(p);
    first = p.batch * index / slices;
    rows = p.batch * (index + 1) / slices - first;
  }
};

int64_t time_of(const Problem& p, int64_t step) { return p.reverse ? p.steps - 1 - step : step; }
bool held(const Problem& p, int64_t time, int64_t row) { return p.lengths && time >= p.lengths[row]; }
int64_t most_rows(const Problem& p) { return (p.batch + steadygrad::count_slices(p) - 1) / steadygrad::count_slices(p); }

// Layers above this lay out the errors block by block before their outer products (product.hpp).
constexpr int64_t kWide = 128;

// Has the cache fetch, while a product runs, what the forward pass left of the step before: nothing that looks ahead by itself
// expects that one.
template <class T> void expect(const T* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(values + i);
}

template <class T, class Row> double scaled_square(T scale, int64_t n, Row row) {
  Vector<T> sums = {};
  for (int64_t j = 0; j < n; j += kWidth<T>) {
    const Vector<T> value = row(j) * scale;
    sums += value * value;
  }
  return double(sum<T>(sums)) / (double(scale) * double(scale));
}

// Columns `first` to `end` of the N that one part of the work takes: whole panels, or as many entries at least.
template <class T> struct Columns {
  int64_t first, end;
  Columns(const Problem& p, int64_t n, int64_t part) {
    const int64_t panels = (n + kPanel<T> - 1) / kPanel<T>, parts = steadygrad::count_parts(p);
    first = panels * part / parts * kPanel<T>;
    end = part + 1 == parts ? n : panels * (part + 1) / parts * kPanel<T>;
  }
};

// One part of pack().
template <class T>
void pack_part(const Problem& p, int64_t part, int64_t K, int64_t N, const T* source, int64_t step_k, int64_t step_n, T* panels) {
  const Columns<T> columns(p, N, part);
  pack<T>(K, columns.end - columns.first, source + columns.first * step_n, step_k, step_n, panels + columns.first * K);
}

// total [n] += the sum of the rows [count, n], n whole vectors: first of these rows alone, since a long sum rounds off more, and a
// few columns at a time, since each addition waits for the one before.
template <class T> void add_rows(int64_t count, int64_t n, const T* rows, T* total) {
  constexpr int kSome = 4;
  for (int64_t first = 0; first < n; first += kSome * kWidth<T>) {
    const int some = n - first < kSome * kWidth<T> ? int((n - first) / kWidth<T>) : kSome;
    Vector<T> sums[kSome] = {};
    if (some == kSome) {
      for (int64_t row = 0; row < count; ++row)
        for (int v = 0; v < kSome; ++v) sums[v] += load(rows + row * n + first + v * kWidth<T>);
    } else {
      for (int64_t row = 0; row < count; ++row)
        for (int v = 0; v < some; ++v) sums[v] += load(rows + row * n + first + v * kWidth<T>);
    }
    for (int v = 0; v < some; ++v) {
      T* const to = total + first + v * kWidth<T>;
      store(to, load(to) + sums[v]);
    }
  }
}

// The right-hand factor of one step's outer products: rows at, at + 1, … of the panels [all, n] that `multiply` reads as its
// B. The step's row r is fetched by row(r)(j), a vector at a time. Panel by panel where there are many: they lie so far apart that
// the places of one row in all of them would not be in the cache at once.
template <class T, class Row> void pack_step(int64_t at, int64_t rows, int64_t all, int64_t n, T* panels, Row row) {
  if (n > 8 * kPanel<T>) {
    for (int64_t first = 0; first < n; first += kPanel<T>, panels += all * kPanel<T>) {
      const int64_t width = padded<T>(n - first) < kPanel<T> ? kWidth<T> : kPanel<T>;
      for (int64_t r = 0; r < rows; ++r) {
        const auto fetch = row(r);
        for (int64_t j = 0; j < width; j += kWidth<T>) store(panels + (at + r) * width + j, fetch(first + j));
      }
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto fetch = row(r);
    T* panel = panels;
    for (int64_t first = 0; first < n; first += kPanel<T>, panel += all * kPanel<T>) {
      const int64_t width = padded<T>(n - first) < kPanel<T> ? kWidth<T> : kPanel<T>;
      for (int64_t j = 0; j < width; j += kWidth<T>) store(panel + (at + r) * width + j, fetch(first + j));
    }
  }
}

}  // namespace
