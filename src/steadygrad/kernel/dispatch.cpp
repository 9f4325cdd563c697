// The library's C functions: pick the instruction set, share out the slices, work out Omega's factors in between.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "pool.hpp"
#include "problem.hpp"

namespace steadygrad {

extern const Kernel float_baseline, double_baseline;
#if defined(SG_WITH_X86)
extern const Kernel float_avx2, double_avx2, float_avx512, double_avx512;
#endif

namespace {

enum Outcome : int { kDone = 0, kTokenOutOfRange = 1, kNoMemory = 2 };

struct Choice { const Kernel *of_float, *of_double; };

// STEADYGRAD_ISA asks for a lesser set than the machine's best, so that all of them can be tested on one machine.
Choice choose() {
  const Choice baseline = {&float_baseline, &double_baseline};
#if defined(SG_WITH_X86)
  const char* wanted = std::getenv("STEADYGRAD_ISA");
  const auto allowed = [&](const char* name) { return !wanted || !*wanted || std::strcmp(wanted, name) == 0; };
  __builtin_cpu_init();
  if (allowed("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return {&float_avx512, &double_avx512};
  if (allowed("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {&float_avx2, &double_avx2};
#endif
  return baseline;
}

const Kernel& kernel(int is_double) {
  static const Choice choice = choose();
  return is_double ? *choice.of_double : *choice.of_float;
}

// Errors that have vanished below the smallest normal number cost a hundred times as much to multiply: they count as zero.
class FlushTiny {
#if defined(__x86_64__)
 public:
  FlushTiny() : before_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(before_ | 0x8040); }
  ~FlushTiny() { __builtin_ia32_ldmxcsr(before_); }

 private:
  unsigned before_;
#endif
};

class Memory {
 public:
  bool ok = true;
  void* take(int64_t bytes) {
    if (bytes == 0) return nullptr;
    void* block = nullptr;
#if defined(_WIN32)
    block = _aligned_malloc(bytes, 64);
    blocks_.emplace_back(block, [](void* b) { _aligned_free(b); });
#else
    if (posix_memalign(&block, 64, bytes) != 0) block = nullptr;
    blocks_.emplace_back(block, [](void* b) { std::free(b); });
#endif
    ok = ok && block;
    return block;
  }

 private:
  std::vector<std::unique_ptr<void, void (*)(void*)>> blocks_;
};

// Omega_k = (q_k - 1)^2, q_k = |v_k| / |error_k| (paper) or its square (program); factor_k = alpha / N * c_k with c_k u_k^T
// the derivative's right-hand side: 2 (q - 1) / (|v| |error|), or 4 (q - 1) / |error|^2.
void omega_factors(const Problem& p, double* factors) {
  const int64_t pairs = p.steps * p.batch;
  int64_t active = 0;
  for (int64_t i = 0; i < pairs; ++i) active += p.error_sq[i] >= 1e-20 && p.back_sq[i] > 0;
  for (int64_t i = 0; i < pairs; ++i) {
    const double error = p.error_sq[i], back = p.back_sq[i];
    double c = 0;
    if (error >= 1e-20 && back > 0) {
      if (p.convention == kPaper) c = 2 * (std::sqrt(back / error) - 1) / std::sqrt(back * error);
      else c = 4 * (back / error - 1) / error;
    }
    factors[i] = active ? p.alpha / double(active) * c : 0;
  }
}

}  // namespace
}  // namespace steadygrad

using namespace steadygrad;

#if defined(_WIN32)
#define SG_API __declspec(dllexport)
#else
#define SG_API __attribute__((visibility("default")))
#endif

extern "C" {

SG_API const char* steadygrad_isa() { return kernel(0).name; }
SG_API int64_t steadygrad_problem_bytes() { return sizeof(Problem); }

SG_API int steadygrad_forward(const Problem* problem, int is_double) {
  const Problem& p = *problem;
  const Kernel& k = kernel(is_double);
  if (p.tokens)
    for (int64_t i = 0; i < p.steps * p.batch; ++i)
      if (static_cast<uint64_t>(p.tokens[i]) >= static_cast<uint64_t>(p.inputs)) return kTokenOutOfRange;
  Memory memory;
  Shared s = {};
  int64_t bytes[3];
  k.sizes_forward(p, bytes);
  s.forward_hh = memory.take(bytes[0]);
  s.forward_ih = memory.take(bytes[1]);
  s.bias = memory.take(bytes[2]);
  const int64_t slices = count_slices(p.batch), scratch = (k.scratch_bytes(p) + 63) / 64 * 64;
  char* scratches = static_cast<char*>(memory.take(scratch * slices));
  if (!memory.ok) return kNoMemory;
  k.pack_forward(p, s);
  Pool::run(slices, p.threads, [&](int64_t slice) {
    FlushTiny flush;
    k.forward(p, s, slice, scratches + slice * scratch);
  });
  return kDone;
}

SG_API int steadygrad_backward(const Problem* problem, int is_double) {
  const Problem& p = *problem;
  const Kernel& k = kernel(is_double);
  Memory memory;
  Shared s = {};
  int64_t bytes[5];
  k.sizes_backward(p, bytes);
  s.backward_hh = memory.take(bytes[0]);
  s.backward_ih = memory.take(bytes[1]);
  s.errors = memory.take(bytes[2]);
  s.directions = memory.take(bytes[3]);
  s.partial = memory.take(bytes[4]);
  s.factors = p.alpha > 0 ? memory.take(p.steps * p.batch * sizeof(double)) : nullptr;
  const int64_t slices = count_slices(p.batch), scratch = (k.scratch_bytes(p) + 63) / 64 * 64;
  char* scratches = static_cast<char*>(memory.take(scratch * slices));
  if (!memory.ok) return kNoMemory;
  k.pack_backward(p, s);
  Pool::run(slices, p.threads, [&](int64_t slice) {
    FlushTiny flush;
    k.backward(p, s, slice, scratches + slice * scratch);
  });
  if (s.factors) omega_factors(p, static_cast<double*>(s.factors));
  if (p.grad_weight_hh || p.grad_weight_ih || p.grad_bias || p.grad_x) {
    Pool::run(slices, p.threads, [&](int64_t slice) {
      FlushTiny flush;
      k.weights(p, s, slice, scratches + slice * scratch);
    });
    k.reduce(p, s);
  }
  return kDone;
}

}  // extern "C"
