// C += A B for the small matrices of a recurrent layer, B packed once and used at every step.
//
// B [K, N] is stored in panels of two vectors of columns, each panel [K, 2 width] contiguous and the last one narrower where
// N ends in its first half. A block of SG_ROWS rows by one panel stays in registers while K runs. Where no more than half of the
// last vector's columns are used, only half a vector is computed: on machines that work on 512 bits in two halves it costs half.
#pragma once
#include "vector.hpp"

namespace {

template <class T> constexpr int64_t kPanel = 2 * kWidth<T>;

// body(j) for the first lane j of every vector of a row of n entries. The last one, if it is not whole, has a copy of the body of
// its own: in the other, load_row and store_row with this n need not look where the row ends.
#define SG_INLINE __attribute__((always_inline))
template <class T, class Body> SG_INLINE inline void each_vector(int64_t n, Body body) {
  int64_t j = 0;
  for (; n - j >= kWidth<T>; j += kWidth<T>) body(j);
  if (j < n) body(j);
}

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

// A vector of a block's columns, or the first half of one. Narrower sets have no cheaper half.
constexpr bool kHasHalf = SG_VECTOR_BYTES == 64;
template <class T, bool kHalf> struct Lanes {
  typedef T Type __attribute__((vector_size(kHalf ? SG_VECTOR_BYTES / 2 : SG_VECTOR_BYTES)));
  static Type from(const T* p) {
    Type v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  // Stores a whole vector: the columns past a half are zeros.
  static void to(T* p, Type v) {
    constexpr int64_t kCount = sizeof v / sizeof(T);
    const Type zeros = {};
    if (kHalf) __builtin_memcpy(p + kCount, &zeros, sizeof zeros);
    __builtin_memcpy(p, &v, sizeof v);
  }
};

// One of the products that a block adds up. Entry (m, k) of A is a[m * step_m + k * step_k]; the rows of B are row_b entries
// apart, in panels as many as the block is wide. Step: int64_t, or One where A is laid out for the block.
using One = std::integral_constant<int64_t, 1>;
template <class T, class Step> struct Term {
  int64_t K;
  const T* a;
  Step step_m;
  int64_t step_k;
  const T* b;
  int64_t row_b = 0;
};

// One block: C[0..M, 0..V vectors] = start + A[0..M, 0..K] B of each term; kHalf: half of the last vector is all of it.
template <class T, int M, int V, bool kHalf, bool kPacked, class Step>
inline void block(const Term<T, Step>* terms, int count, T* c, int64_t row_c, Start<T> start) {
  using Last = Lanes<T, kHalf>;
  constexpr int kFull = V - 1;  // vectors before the last one
  if (start.late) {
    for (int m = 0; m < M; ++m)
      for (int v = 0; v < V; ++v) __builtin_prefetch(start.values + m * start.row + v * kWidth<T>, 1);
  }
  Vector<T> sums[M][V];  // those before the last; V, since an array of none is not allowed
  typename Last::Type last[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const bool given = start.values && !start.late;
#pragma GCC unroll 2
    for (int v = 0; v < kFull; ++v) sums[m][v] = given ? load(start.values + m * start.row + v * kWidth<T>) : Vector<T>{};
    last[m] = given ? Last::from(start.values + m * start.row + kFull * kWidth<T>) : typename Last::Type{};
  }
  for (const Term<T, Step>*term = terms, *end = terms + count; term != end; ++term) {
    const Step step_m = term->step_m;
    const int64_t K = term->K, step_k = term->step_k, row_b = term->row_b;
    const T* b_row = term->b;
    // Four rows of A from one address: with an address for each of twelve rows the compiler runs out of registers.
    constexpr int kGroups = (M + 3) / 4;
    const T* rows_of_a[kGroups];
    for (int group = 0; group < kGroups; ++group) rows_of_a[group] = term->a + 4 * group * step_m;
    for (int64_t k = 0; k < K; ++k, b_row += kPacked ? V * kWidth<T> : row_b) {
      Vector<T> b[V];
#pragma GCC unroll 2
      for (int v = 0; v < kFull; ++v) b[v] = load(b_row + v * kWidth<T>);
      const typename Last::Type b_last = Last::from(b_row + kFull * kWidth<T>);
#pragma GCC unroll 16
      for (int m = 0; m < M; ++m) {
        const T factor = rows_of_a[m / 4][m % 4 * step_m];
#pragma GCC unroll 2
        for (int v = 0; v < kFull; ++v) sums[m][v] += b[v] * factor;
        last[m] += b_last * factor;
      }
#pragma GCC unroll 3
      for (int group = 0; group < kGroups; ++group) rows_of_a[group] += step_k;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    if (start.late) {
#pragma GCC unroll 2
      for (int v = 0; v < kFull; ++v) sums[m][v] += load(start.values + m * start.row + v * kWidth<T>);
      last[m] += Last::from(start.values + m * start.row + kFull * kWidth<T>);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kFull; ++v) store(c + m * row_c + v * kWidth<T>, sums[m][v]);
    Last::to(c + m * row_c + kFull * kWidth<T>, last[m]);
  }
}

template <class T, int V, bool kHalf, bool kPacked, class Step>
void rows(int64_t M, const Term<T, Step>* terms, int count, T* c, int64_t row_c, Start<T> start) {
  switch (M) {
#define SG_CASE(m) case m: block<T, m, V, kHalf, kPacked>(terms, count, c, row_c, start); break;
    SG_CASE(1) SG_CASE(2) SG_CASE(3) SG_CASE(4) SG_CASE(5) SG_CASE(6)
#if SG_ROWS > 6
    SG_CASE(7) SG_CASE(8) SG_CASE(9) SG_CASE(10) SG_CASE(11) SG_CASE(12)
#endif
#undef SG_CASE
  }
}

// The same for one panel, from whose first column on there are `columns` columns, its own and those of later panels.
template <class T, bool kPacked, class Step>
void panel_rows(int64_t columns, int64_t M, const Term<T, Step>* terms, int count, T* c, int64_t row_c, Start<T> start) {
  constexpr int64_t kHalfWidth = kHasHalf ? kWidth<T> / 2 : 0;
  if (columns > kWidth<T> + kHalfWidth) rows<T, 2, false, kPacked>(M, terms, count, c, row_c, start);
  else if (columns > kWidth<T>) rows<T, 2, kHasHalf, kPacked>(M, terms, count, c, row_c, start);
  else if (columns > kHalfWidth) rows<T, 1, false, kPacked>(M, terms, count, c, row_c, start);
  else rows<T, 1, kHasHalf, kPacked>(M, terms, count, c, row_c, start);
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
        const Term<T, int64_t> term = {depth, a_m, step_m, step_k, panel};
        panel_rows<T, true>(N - first, count, &term, 1, c_m, row_c, from);
      }
    }
    panels += K * (narrow ? kWidth<T> : kPanel<T>);
  }
}

// C [M, N] (row_c entries a row) = bias + A B + A' B', both of few terms; the second is left out where it has none. row_c may be N:
// vectors that hold the end of one row and the beginning of the next can then be worked on as one. A row's last vector is
// written past its end; what stands there is computed later, since panels are taken from the last to the first.
template <class T>
void multiply_both(int64_t M, int64_t N, const Term<T, int64_t> (&terms)[2], T* c, int64_t row_c, const T* bias) {
  const int64_t blocks = (M + SG_ROWS - 1) / SG_ROWS, last = (N - 1) / kPanel<T> * kPanel<T>;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
    for (int64_t first = last; first >= 0; first -= kPanel<T>) {
      Term<T, int64_t> here[2] = {terms[0], terms[1]};
      for (Term<T, int64_t>& term : here) term.a += m * term.step_m, term.b += first * term.K;
      panel_rows<T, true>(N - first, count, here, here[1].K > 0 ? 2 : 1, c + m * row_c + first, row_c, {bias + first, 0});
    }
  }
}

// C [M, padded N] += A^T B for A [K, M] with row_a entries a row: the outer products of the weight gradients. Where A is wide,
// its rows lie so far apart that each block would fetch them anew; A is then laid out block by block first, in `room` [K, M] with
// a vector to spare behind it: whole vectors are copied, and what is written past a row's end is overwritten by the next.
template <class T>
void add_outer(int64_t M, int64_t N, int64_t K, const T* a, int64_t row_a, const T* panels, T* c, int64_t row_c, T* room) {
  if (!room) return multiply<T>(M, N, K, a, 1, row_a, panels, c, row_c, {c, row_c});
  const int64_t blocks = (M + SG_ROWS - 1) / SG_ROWS;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
    T* block = room + K * m;
    for (int64_t k = 0; k < K; ++k)
      for (int64_t j = 0; j < count; j += kWidth<T>) store(block + k * count + j, load_row(a + k * row_a, m + j, row_a));
  }
  for (int64_t first = 0; first < N; first += kPanel<T>) {
    const bool narrow = padded<T>(N - first) < kPanel<T>;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
      T* c_m = c + m * row_c + first;
      const Term<T, One> term = {K, room + K * m, One(), count, panels};
      panel_rows<T, true>(N - first, count, &term, 1, c_m, row_c, {c_m, row_c, true});
    }
    panels += K * (narrow ? kWidth<T> : kPanel<T>);
  }
}

// The same for an A of few columns and a B that is not packed: rows of row_b entries, whole vectors of them.
template <class T>
void add_narrow_outer(int64_t M, int64_t N, int64_t K, const T* a, int64_t row_a, const T* b, int64_t row_b, T* c, int64_t row_c) {
  const int64_t blocks = (M + SG_ROWS - 1) / SG_ROWS;
  for (int64_t first = 0; first < N; first += kPanel<T>)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t m = M * i / blocks, count = M * (i + 1) / blocks - m;
      const Term<T, One> term = {K, a + m, One(), row_a, b + first, row_b};
      T* const c_m = c + m * row_c + first;
      panel_rows<T, false>(N - first, count, &term, 1, c_m, row_c, {c_m, row_c, true});
    }
}

// Columns of a product that stand beyond its last whole vector, where they are so few that a vector of their own would be all but
// empty: by dot products, along the vectors of A's rows. B is then kept transposed, [columns, padded K], zeros past K.
template <class T> constexpr int64_t few_columns(int64_t n) {
  return n > kWidth<T> && n % kWidth<T> <= kWidth<T> / 4 ? n % kWidth<T> : 0;
}

// Entries of a B [K, N] whose last few columns are kept so, behind the panels of the whole vectors; and where those columns begin.
template <class T> constexpr int64_t packed_entries(int64_t K, int64_t N) {
  return K * padded<T>(N - few_columns<T>(N)) + few_columns<T>(N) * padded<T>(K);
}
template <class T, class Entry> Entry* few_of(int64_t K, int64_t N, Entry* packed) {
  return packed + K * padded<T>(N - few_columns<T>(N));
}

template <class T> void pack_few(int64_t K, int64_t few, const T* source, int64_t step_k, int64_t step_n, T* rows) {
  for (int64_t j = 0; j < few; ++j, rows += padded<T>(K))
    for (int64_t k = 0; k < padded<T>(K); ++k) rows[k] = k < K ? source[k * step_k + j * step_n] : T(0);
}

template <class T> void pack_with_few(int64_t K, int64_t N, const T* source, int64_t step_k, int64_t step_n, T* packed) {
  const int64_t few = few_columns<T>(N), whole = N - few;
  pack<T>(K, whole, source, step_k, step_n, packed);
  pack_few<T>(K, few, source + whole * step_n, step_k, step_n, few_of<T>(K, N, packed));
}

// R rows of A by N columns: every sum is a vector of its own, and one vector holds the sums of all their lanes.
template <class T, int N, int R, class Put>
inline void dots(const Term<T, int64_t>* terms, int count, int64_t first, Put put) {
  constexpr int kEach = N == 3 ? 4 : N;
  Vector<T> sums[R * kEach] = {};
  for (const Term<T, int64_t>*term = terms, *end = terms + count; term != end; ++term) {
    const int64_t K = term->K, row_b = padded<T>(K);
    const T* const a = term->a + first * term->step_m;
    each_vector<T>(K, [&](int64_t k) SG_INLINE {
      Vector<T> b[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) b[n] = load(term->b + n * row_b + k);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vector<T> a_r = load_row(a + r * term->step_m, k, K);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sums[r * kEach + n] += a_r * b[n];
      }
    });
  }
  T found[kWidth<T>];
  store(found, sums_of_each<T, R * kEach>(sums));
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) put(first + r, found + r * kEach);
}

template <class T, int N, int R, class Put>
void dots_of_rows(int64_t first, int64_t M, const Term<T, int64_t>* terms, int count, Put put) {
  for (; first + R <= M; first += R) dots<T, N, R>(terms, count, first, put);
  if constexpr (R > 1) dots_of_rows<T, N, R / 2>(first, M, terms, count, put);
}

// The N columns of A B, added up over the terms: put(m, of_row) gets those of row m.
template <class T, class Put> void multiply_few(int64_t M, int64_t N, const Term<T, int64_t>* terms, int count, Put put) {
  constexpr int kMost = kWidth<T>;
  switch (N) {
    case 1: return dots_of_rows<T, 1, kMost>(0, M, terms, count, put);
    case 2: return dots_of_rows<T, 2, (kMost > 2 ? kMost / 2 : 1)>(0, M, terms, count, put);
    case 3: if constexpr (kMost > 4) return dots_of_rows<T, 3, kMost / 4>(0, M, terms, count, put); return;
    case 4: if constexpr (kMost > 4) return dots_of_rows<T, 4, kMost / 4>(0, M, terms, count, put); return;
  }
}

// C = start + A B, of a B that pack_with_few laid out. Of C [M, row_c] only the N columns are written, and up to a whole vector
// where none of them are few.
template <class T>
void multiply_with_few(int64_t M, int64_t N, int64_t K, const T* a, int64_t step_m, const T* packed, T* c, int64_t row_c,
                       Start<T> start) {
  const int64_t few = few_columns<T>(N), whole = N - few;
  const Term<T, int64_t> term = {K, a, step_m, 1, few_of<T>(K, N, packed)};
  multiply_few<T>(M, few, &term, 1, [&](int64_t m, const T* found) {
    for (int64_t n = 0; n < few; ++n) c[m * row_c + whole + n] = found[n] + (start.values ? start.values[m * start.row + whole + n] : T(0));
  });
  multiply<T>(M, whole, K, a, step_m, 1, packed, c, row_c, start);
}

}  // namespace
