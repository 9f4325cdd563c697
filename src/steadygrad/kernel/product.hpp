// C += A B for the small matrices of a recurrent layer, B packed once and used at every step.
//
// B [K, N] is stored in panels of two vectors of columns, each panel [K, 2 width] contiguous and the last one narrower where
// N ends in its first half. A block of SG_ROWS rows by one panel stays in registers while K runs.
#pragma once
#include "vector.hpp"

namespace {

template <class T> constexpr int64_t kPanel = 2 * kWidth<T>;

// Entry (k, n) of B is source[k * step_k + n * step_n]; columns past N are zeros.
template <class T>
void pack(int64_t K, int64_t N, const T* source, int64_t step_k, int64_t step_n, T* panels) {
  for (int64_t first = 0; first < N; first += kPanel<T>) {
    const int64_t width = padded<T>(N - first) < kPanel<T> ? kWidth<T> : kPanel<T>;
    const int64_t columns = N - first < width ? N - first : width;
    if (columns < width) __builtin_memset(panels, 0, K * width * sizeof(T));
    if (step_n == 1) {
      for (int64_t k = 0; k < K; ++k) __builtin_memcpy(panels + k * width, source + k * step_k + first, columns * sizeof(T));
    } else {
      constexpr int64_t kSome = 64;  // rows of the panel that stay in the cache until all of their columns are written
      for (int64_t begin = 0; begin < K; begin += kSome)
        for (int64_t j = 0; j < columns; ++j)
          for (int64_t k = begin; k < K && k < begin + kSome; ++k)
            panels[k * width + j] = source[k * step_k + (first + j) * step_n];
    }
    panels += K * width;
  }
}

// What a product is added to: rows of `row` entries, 0 for the same row each time; null for nothing. Long sums are added `late`, to
// a sum of this block alone: each of its terms would otherwise be rounded to the size of all that came before.
template <class T> struct Start {
  const T* values = nullptr;
  int64_t row = 0;
  bool late = false;
  Start at(int64_t m, int64_t n) const { return values ? Start{values + m * row + n, row, late} : Start{}; }
};

// One block: C[0..M, 0..V vectors] = start + A[0..M, 0..K] B. Entry (m, k) of A is a[m * step_m + k * step_k]; the rows of B are
// row_b entries apart, in panels as many as the block is wide. Step: int64_t, or One where A is laid out for the block.
using One = std::integral_constant<int64_t, 1>;

template <class T, int M, int V, bool kPacked, class Step>
inline void block(int64_t K, const T* a, Step step_m, int64_t step_k, const T* b_row, int64_t row_b, T* c, int64_t row_c,
                  Start<T> start) {
  // Four rows of A from one address: with an address for each of twelve rows the compiler runs out of registers.
  constexpr int kGroups = (M + 3) / 4;
  const T* rows_of_a[kGroups];
  for (int group = 0; group < kGroups; ++group) rows_of_a[group] = a + 4 * group * step_m;
  if (start.late) {
    for (int m = 0; m < M; ++m)
      for (int v = 0; v < V; ++v) __builtin_prefetch(start.values + m * start.row + v * kWidth<T>, 1);
  }
  Vector<T> sums[M][V];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      sums[m][v] = start.values && !start.late ? load(start.values + m * start.row + v * kWidth<T>) : Vector<T>{};
  for (int64_t k = 0; k < K; ++k, b_row += kPacked ? V * kWidth<T> : row_b) {
    Vector<T> b[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) b[v] = load(b_row + v * kWidth<T>);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[m][v] += b[v] * rows_of_a[m / 4][m % 4 * step_m];
#pragma GCC unroll 3
    for (int group = 0; group < kGroups; ++group) rows_of_a[group] += step_k;
  }
  if (start.late) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[m][v] += load(start.values + m * start.row + v * kWidth<T>);
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(c + m * row_c + v * kWidth<T>, sums[m][v]);
}

template <class T, int V, bool kPacked, class Step>
void rows(int64_t M, int64_t K, const T* a, Step step_m, int64_t step_k, const T* b, int64_t row_b, T* c, int64_t row_c,
          Start<T> start) {
  switch (M) {
#define SG_CASE(m) case m: block<T, m, V, kPacked>(K, a, step_m, step_k, b, row_b, c, row_c, start); break;
    SG_CASE(1) SG_CASE(2) SG_CASE(3) SG_CASE(4) SG_CASE(5) SG_CASE(6)
#if SG_ROWS > 6
    SG_CASE(7) SG_CASE(8) SG_CASE(9) SG_CASE(10) SG_CASE(11) SG_CASE(12)
#endif
#undef SG_CASE
  }
}

// Rows of a panel that are used for all of A before the next ones: half of the first-level cache.
constexpr int64_t kPanelBytes = 24 * 1024;
// Terms that are added up one after the other: with more, float32 rounds off more than twice what torch's products do.
constexpr int64_t kLongestSum = 128;

// C [M, padded N] (row_c entries a row) = start + A [M, K] B [K, N].
template <class T>
void multiply(int64_t M, int64_t N, int64_t K, const T* a, int64_t step_m, int64_t step_k, const T* panels, T* c, int64_t row_c,
              Start<T> start) {
  const int64_t blocks = (M + SG_ROWS - 1) / SG_ROWS;
  constexpr int64_t kFits = kPanelBytes / int64_t(sizeof(T)) / kPanel<T>;
  const int64_t most = blocks > 1 && kFits < kLongestSum ? kFits : kLongestSum;
  for (int64_t first = 0; first < N; first += kPanel<T>) {
    const bool narrow = padded<T>(N - first) < kPanel<T>;
    for (int64_t k = 0; k < K; k += most) {
      const int64_t depth = K - k < most ? K - k : most;
      const T* panel = panels + k * (narrow ? kWidth<T> : kPanel<T>);
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;  // equal heights, not full blocks and a stub
        const T* a_m = a + m * step_m + k * step_k;
        T* c_m = c + m * row_c + first;
        const Start<T> from = k > 0 ? Start<T>{c_m, row_c, true} : start.at(m, first);
        if (narrow) rows<T, 1, true>(count, depth, a_m, step_m, step_k, panel, 0, c_m, row_c, from);
        else rows<T, 2, true>(count, depth, a_m, step_m, step_k, panel, 0, c_m, row_c, from);
      }
    }
    panels += K * (narrow ? kWidth<T> : kPanel<T>);
  }
}

// C [M, padded N] += A^T B for A [K, M] with row_a entries a row: the outer products of the weight gradients. Where A is wide,
// its rows lie so far apart that each block would fetch them anew; A is then laid out block by block first, in `room` [K, M].
template <class T>
void add_outer(int64_t M, int64_t N, int64_t K, const T* a, int64_t row_a, const T* panels, T* c, int64_t row_c, T* room) {
  if (!room) return multiply<T>(M, N, K, a, 1, row_a, panels, c, row_c, {c, row_c});
  const int64_t blocks = (M + SG_ROWS - 1) / SG_ROWS;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
    T* block = room + K * m;
    for (int64_t k = 0; k < K; ++k) __builtin_memcpy(block + k * count, a + k * row_a + m, count * sizeof(T));
  }
  for (int64_t first = 0; first < N; first += kPanel<T>) {
    const bool narrow = padded<T>(N - first) < kPanel<T>;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
      T* c_m = c + m * row_c + first;
      if (narrow) rows<T, 1, true>(count, K, room + K * m, One(), count, panels, 0, c_m, row_c, {c_m, row_c, true});
      else rows<T, 2, true>(count, K, room + K * m, One(), count, panels, 0, c_m, row_c, {c_m, row_c, true});
    }
    panels += K * (narrow ? kWidth<T> : kPanel<T>);
  }
}

// The same for an A of few columns, M <= SG_ROWS, and a B that is not packed: rows of row_b entries, N of them whole vectors.
template <class T>
void add_narrow_outer(int64_t M, int64_t N, int64_t K, const T* a, int64_t row_a, const T* b, int64_t row_b, T* c, int64_t row_c) {
  for (int64_t first = 0; first < N; first += kPanel<T>) {
    if (N - first < kPanel<T>) rows<T, 1, false>(M, K, a, One(), row_a, b + first, row_b, c + first, row_c, {c + first, row_c});
    else rows<T, 2, false>(M, K, a, One(), row_a, b + first, row_b, c + first, row_c, {c + first, row_c});
  }
}

}  // namespace
