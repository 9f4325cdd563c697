// Vectors of one instruction set: width, partial loads and stores, the nonlinearities and their derivatives.
//
// Compiled once per instruction set, so nothing here may have external linkage or use an inline function of the standard
// library: the linker could keep the AVX-512 copy of it and run it on a machine without AVX-512.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

template <class T> struct Types;
template <> struct Types<float> {
  typedef float Vector __attribute__((vector_size(SG_VECTOR_BYTES)));
  typedef int32_t Whole __attribute__((vector_size(SG_VECTOR_BYTES)));
  // exp(r) - 1 = r (1 + r (…)), highest power first: the best fit of this degree, to a relative error of 1.4e-8.
  static constexpr float kSeries[] = {1.3882489e-3f, 8.3666916e-3f, 4.1667205e-2f, 1.6666542e-1f, 4.9999997e-1f, 1.0f};
  static constexpr float kTanhOne = 10.0f, kExpLimit = 87.0f, kSmallest = 1.17549435e-38f;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kMantissa = 23, kExponentBias = 127;
};
template <> struct Types<double> {
  typedef double Vector __attribute__((vector_size(SG_VECTOR_BYTES)));
  typedef int64_t Whole __attribute__((vector_size(SG_VECTOR_BYTES)));
  static constexpr double kSeries[] = {  // Taylor's: 0.35^14 / 14! is below half an ulp
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0};
  static constexpr double kTanhOne = 20.0, kExpLimit = 708.0, kSmallest = 2.2250738585072014e-308;
  static constexpr double kLn2High = 6.93147180369123816490e-1, kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissa = 52, kExponentBias = 1023;
};

template <class T> using Vector = typename Types<T>::Vector;
template <class T> using Whole = typename Types<T>::Whole;
template <class T> constexpr int64_t kWidth = SG_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));

template <class T> constexpr int64_t padded(int64_t n) { return (n + kWidth<T> - 1) / kWidth<T> * kWidth<T>; }

template <class T> inline Vector<T> load(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> inline void store(T* p, Vector<T> v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n lanes, zeros in the others; memory behind them is neither read nor written.
#if SG_VECTOR_BYTES == 64 && defined(__AVX512F__)
inline Vector<float> load_part(const float* p, int64_t n) { return (Vector<float>)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p); }
inline Vector<double> load_part(const double* p, int64_t n) { return (Vector<double>)_mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p); }
inline void store_part(float* p, Vector<float> v, int64_t n) { _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), (__m512)v); }
inline void store_part(double* p, Vector<double> v, int64_t n) { _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), (__m512d)v); }
#elif SG_VECTOR_BYTES == 32 && defined(__AVX2__)
inline __m256i first_lanes32(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256i first_lanes64(int64_t n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
inline Vector<float> load_part(const float* p, int64_t n) { return (Vector<float>)_mm256_maskload_ps(p, first_lanes32(n)); }
inline Vector<double> load_part(const double* p, int64_t n) { return (Vector<double>)_mm256_maskload_pd(p, first_lanes64(n)); }
// Halves and quarters, not a masked store: AMD's processors take forty operations for one of those.
inline void store_part(float* p, Vector<float> v, int64_t n) {
  __m128 rest = _mm256_castps256_ps128((__m256)v);
  if (n & 4) _mm_storeu_ps(p, rest), p += 4, rest = _mm256_extractf128_ps((__m256)v, 1);
  if (n & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), rest), p += 2, rest = _mm_movehl_ps(rest, rest);
  if (n & 1) _mm_store_ss(p, rest);
}
inline void store_part(double* p, Vector<double> v, int64_t n) {
  __m128d rest = _mm256_castpd256_pd128((__m256d)v);
  if (n & 2) _mm_storeu_pd(p, rest), p += 2, rest = _mm256_extractf128_pd((__m256d)v, 1);
  if (n & 1) _mm_store_sd(p, rest);
}
#else
template <class T> inline Vector<T> load_part(const T* p, int64_t n) {
  Vector<T> v = {};
  for (int64_t i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
template <class T> inline void store_part(T* p, Vector<T> v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
#endif

// Lanes j, j+1, … of a row of n entries, whole vectors where they fit.
template <class T> inline Vector<T> load_row(const T* row, int64_t j, int64_t n) {
  return n - j >= kWidth<T> ? load(row + j) : load_part(row + j, n - j);
}
template <class T> inline void store_row(T* row, Vector<T> v, int64_t j, int64_t n) {
  if (n - j >= kWidth<T>) store(row + j, v);
  else store_part(row + j, v, n - j);
}

// The first n lanes from `p`, the others from `q`: lanes of one vector that lie in two rows. All of both can be read.
template <class T> inline Vector<T> load_both(const T* p, const T* q, int64_t n) {
#if SG_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_mask_loadu_ps(_mm512_loadu_ps(q), __mmask16((1u << n) - 1), p);
  else return (Vector<T>)_mm512_mask_loadu_pd(_mm512_loadu_pd(q), __mmask8((1u << n) - 1), p);
#else
  Whole<T> lane = {};
  for (int64_t i = 0; i < kWidth<T>; ++i) lane[i] = i;
  return lane < Whole<T>{} + decltype(lane[0] + 0)(n) ? load(p) : load(q);
#endif
}

// The sum of all lanes, halves added to halves: lane by lane each addition would wait for the one before.
template <class T> inline T sum(Vector<T> v) {
#if SG_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps((__m512)v);
  else return _mm512_reduce_add_pd((__m512d)v);
#else
  T lanes[kWidth<T>];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (int64_t half = kWidth<T> / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
#endif
}

// a[i] + a[i ^ s] in the lanes without the bit s, of b in those with it.
template <class T, int s, std::size_t... i> inline Vector<T> pair_sums(Vector<T> a, Vector<T> b, std::index_sequence<i...>) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, (i & s ? i + sizeof...(i) : i)...) +
         __builtin_shufflevector(a, b, (i & s ? (i ^ s) + sizeof...(i) : i ^ s)...);
#else
  return __builtin_shuffle(a, b, Whole<T>{(i & s ? i + sizeof...(i) : i)...}) +
         __builtin_shuffle(a, b, Whole<T>{(i & s ? (i ^ s) + sizeof...(i) : i ^ s)...});
#endif
}

// Lane i is the sum of all lanes of vector i, of a power of two of them; the lanes past kCount repeat these.
template <class T, int kCount, int s = 1> inline Vector<T> sums_of_each(const Vector<T>* v) {
  if constexpr (s == kWidth<T>) {
    return v[0];
  } else {
    constexpr int kHalf = kCount > 1 ? kCount / 2 : 1;
    Vector<T> halves[kHalf];
#pragma GCC unroll 8
    for (int i = 0; i < kHalf; ++i)
      halves[i] = pair_sums<T, s>(v[kCount > 1 ? 2 * i : 0], v[kCount > 1 ? 2 * i + 1 : 0], std::make_index_sequence<kWidth<T>>());
    return sums_of_each<T, kHalf, 2 * s>(halves);
  }
}

template <class T> inline Vector<T> splat(T value) { return Vector<T>{} + value; }

template <class T> inline Vector<T> magnitude(Vector<T> x) {
  const Whole<T> sign = Whole<T>{} + (typename std::remove_reference<decltype(Whole<T>{}[0])>::type(1) << (8 * sizeof(T) - 1));
  return (Vector<T>)((Whole<T>)x & ~sign);
}
template <class T> inline Vector<T> with_sign_of(Vector<T> x, Vector<T> sign_of) {
  const Whole<T> sign = Whole<T>{} + (typename std::remove_reference<decltype(Whole<T>{}[0])>::type(1) << (8 * sizeof(T) - 1));
  return (Vector<T>)((Whole<T>)x | ((Whole<T>)sign_of & sign));
}

// x, or the limit where x is above (or below) it. NaN stays NaN.
template <class T> inline Vector<T> at_most(Vector<T> x, T limit) {
#if SG_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_min_ps(_mm512_set1_ps(limit), (__m512)x);
  else return (Vector<T>)_mm512_min_pd(_mm512_set1_pd(limit), (__m512d)x);
#else
  return x > limit ? splat<T>(limit) : x;
#endif
}
template <class T> inline Vector<T> at_least(Vector<T> x, T limit) {
#if SG_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_max_ps(_mm512_set1_ps(limit), (__m512)x);
  else return (Vector<T>)_mm512_max_pd(_mm512_set1_pd(limit), (__m512d)x);
#else
  return x < limit ? splat<T>(limit) : x;
#endif
}

// exp(y) - 1 as 2^n (p + 1) - 1 with y = n ln 2 + r, |r| <= ln 2 / 2 and p = exp(r) - 1 by a polynomial. kFew: y is at most 40, so
// that n ln 2 in one product is exact enough.
template <class T> struct Exponential { Vector<T> power, p; };

template <class T, bool kFew = false> inline Exponential<T> exponential(Vector<T> y) {
  using L = Types<T>;
  // Adding and taking away 1.5 * 2^mantissa rounds to the nearest whole number, which stands in the sum's last bits: moved to
  // the exponent's place, they are 2^n.
  const T magic = T(int64_t(3) << (L::kMantissa - 1));
  const Vector<T> sum = y * T(1.44269504088896340736) + magic, n = sum - magic;
  const Vector<T> power = (Vector<T>)(((Whole<T>)sum + L::kExponentBias) << L::kMantissa);
  Vector<T> r;
  if constexpr (kFew && sizeof(T) == 4) {
    r = y - n * T(0.69314718055994530942);  // this number is 2e-9 off in float32
  } else {
    r = y - n * L::kLn2High;
    r = r - n * L::kLn2Low;
  }
  constexpr int kTerms = sizeof L::kSeries / sizeof(T);
  Vector<T> p = splat<T>(L::kSeries[0]);
#pragma GCC unroll 16
  for (int i = 1; i < kTerms; ++i) p = p * r + L::kSeries[i];
  return {power, p * r};
}

template <class T> struct Tanh {
  static Vector<T> value(Vector<T> x) {
    const Vector<T> a = magnitude<T>(x);
    const Vector<T> y = at_most<T>(a, Types<T>::kTanhOne);
    const Exponential<T> e = exponential<T, true>(y + y);
    const Vector<T> m = e.power * e.p + (e.power - 1);  // exp(2|x|) - 1, without cancellation since 2|x| >= 0
    return with_sign_of<T>(m / (m + 2), x);
  }
  static Vector<T> derivative(Vector<T> h) { return 1 - h * h; }
};
template <class T> struct Sigmoid {
  static Vector<T> value(Vector<T> x) {
    const Vector<T> a = magnitude<T>(x);
    const Exponential<T> e = exponential<T>(-at_most<T>(a, Types<T>::kExpLimit));
    const Vector<T> m = e.power * e.p + e.power;  // exp(-|x|)
    return (x < 0 ? m : splat<T>(1)) / (1 + m);
  }
  static Vector<T> derivative(Vector<T> h) { return h * (1 - h); }
};
template <class T> struct Relu {
  static Vector<T> value(Vector<T> x) { return x < 0 ? Vector<T>{} : x; }
  static Vector<T> derivative(Vector<T> h) { return h > 0 ? splat<T>(1) : Vector<T>{}; }
};
template <class T> struct Identity {
  static Vector<T> value(Vector<T> x) { return x; }
  static Vector<T> derivative(Vector<T>) { return splat<T>(1); }
};

}  // namespace
