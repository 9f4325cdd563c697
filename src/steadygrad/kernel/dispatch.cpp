// The library's C functions: pick the instruction set, share out the slices, count Omega's pairs in between.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "gated.hpp"
#include "inference.hpp"
#include "pages.hpp"
#include "pool.hpp"
#include "problem.hpp"

namespace steadygrad {

extern const Kernel float_baseline, double_baseline, gated_float_baseline, gated_double_baseline;
extern const InferenceKernel inference_float_baseline, inference_double_baseline;
#if defined(SG_WITH_X86)
extern const Kernel float_avx2, double_avx2, gated_float_avx2, gated_double_avx2;
extern const Kernel float_avx512, double_avx512, gated_float_avx512, gated_double_avx512;
extern const InferenceKernel inference_float_avx2, inference_double_avx2, inference_float_avx512, inference_double_avx512;
#endif

namespace {

// kNotFinite: all is done, and a squared norm of the errors is infinite or NaN.
enum Outcome : int { kDone = 0, kTokenOutOfRange = 1, kNoMemory = 2, kNotFinite = 3 };

struct Choice {
  const Kernel *of_float, *of_double, *gated_of_float, *gated_of_double;
  const InferenceKernel *inference_of_float, *inference_of_double;
};

// STEADYGRAD_ISA asks for a lesser set than the machine's best, so that all of them can be tested on one machine.
Choice choose() {
  const Choice baseline = {&float_baseline, &double_baseline, &gated_float_baseline, &gated_double_baseline,
                           &inference_float_baseline, &inference_double_baseline};
#if defined(SG_WITH_X86)
  const char* wanted = std::getenv("STEADYGRAD_ISA");
  const auto allowed = [&](const char* name) { return !wanted || !*wanted || std::strcmp(wanted, name) == 0; };
  __builtin_cpu_init();
  if (allowed("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return {&float_avx512, &double_avx512, &gated_float_avx512, &gated_double_avx512,
            &inference_float_avx512, &inference_double_avx512};
  if (allowed("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {&float_avx2, &double_avx2, &gated_float_avx2, &gated_double_avx2,
            &inference_float_avx2, &inference_double_avx2};
#endif
  return baseline;
}

// A block that was freed tells the C library that blocks of its size come and go, and freed memory up to twice that size stays
// with the process. Without it the layer's output, freed after every step, would be fetched from the system page by page.
bool expect_large_blocks() {
  void* volatile block = std::malloc(std::size_t(16) << 20);  // never touched: it costs nothing
  std::free(block);
  return true;
}

// Made when the library is loaded: a value made at the first call would be guarded by a lock, which a fork() in another thread
// could leave locked in the child for ever.
const bool kExpected = expect_large_blocks();
const Choice kChoice = choose();

const Kernel& kernel(int is_double) { return is_double ? *kChoice.of_double : *kChoice.of_float; }
const Kernel& gated_kernel(int is_double) { return is_double ? *kChoice.gated_of_double : *kChoice.gated_of_float; }

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

// One block of memory a call, cut into its buffers. The last block is kept for the next call: memory fresh from the system
// must be cleared page by page, which would take as long as a third of a small layer's work. It is handed over without a lock,
// so that a fork() at any moment leaves nothing locked in the child; its first bytes say how large it is.
class Memory {
 public:
  explicit Memory(std::initializer_list<int64_t> parts) {
    int64_t bytes = kHeader;
    for (int64_t part : parts) bytes += rounded(part);
    block_ = kept_.exchange(nullptr);
    if (block_ && size() < bytes) {
      release(block_);
      block_ = nullptr;
    }
    if (!block_ && (block_ = static_cast<char*>(allocate(bytes)))) std::memcpy(block_, &bytes, sizeof bytes);
    next_ = block_ + kHeader;
  }
  ~Memory() {
    char* none = nullptr;
    if (block_ && (size() > kMostKept || !kept_.compare_exchange_strong(none, block_))) release(block_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  bool ok() const { return block_ != nullptr; }
  void* take(int64_t bytes) {
    if (bytes == 0) return nullptr;
    char* part = next_;
    next_ += rounded(bytes);
    return part;
  }

 private:
  static constexpr int64_t kMostKept = int64_t(64) << 20, kHeader = 64;
  int64_t size() const {
    int64_t bytes;
    std::memcpy(&bytes, block_, sizeof bytes);
    return bytes;
  }
  static int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
#if defined(_WIN32)
  static void* allocate(int64_t bytes) { return _aligned_malloc(bytes, 64); }
  static void release(void* block) { _aligned_free(block); }
#else
  static void* allocate(int64_t bytes) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, bytes) != 0) return nullptr;
    expect_large_pages(block, bytes);
    return block;
  }
  static void release(void* block) { std::free(block); }
#endif

  char* block_ = nullptr;
  char* next_ = nullptr;
  static std::atomic<char*> kept_;
};
std::atomic<char*> Memory::kept_{nullptr};

static_assert(kMostSlices <= Pool::kMostPieces, "each slice is a piece of the pool's work");

// One of the kernel's steps that all slices wait for: whole, or in its parts.
void prepare(const Problem& p, Shared& s, void (*whole)(const Problem&, Shared&),
             void (*one_part)(const Problem&, const Shared&, int64_t)) {
  if (!one_part) return whole(p, s);
  Pool::run(count_parts(p), p.threads, [&](int64_t part) { one_part(p, s, part); });
}

int forward(const Kernel& k, const Problem& p) {
  if (p.tokens)
    for (int64_t i = 0; i < p.steps * p.batch; ++i)
      if (static_cast<uint64_t>(p.tokens[i]) >= static_cast<uint64_t>(p.inputs)) return kTokenOutOfRange;
  int64_t bytes[3];
  k.sizes_forward(p, bytes);
  const int64_t slices = count_slices(p), scratch = (k.scratch_bytes(p) + 63) / 64 * 64;
  Memory memory({bytes[0], bytes[1], bytes[2], scratch * slices});
  if (!memory.ok()) return kNoMemory;
  Shared s = {};
  s.forward_hh = memory.take(bytes[0]);
  s.forward_ih = memory.take(bytes[1]);
  s.bias = memory.take(bytes[2]);
  char* scratches = static_cast<char*>(memory.take(scratch * slices));
  prepare(p, s, k.pack_forward, k.pack_forward_part);
  Pool::run(slices, p.threads, [&](int64_t slice) {
    FlushTiny flush;
    k.forward(p, s, slice, scratches + slice * scratch);
  });
  return kDone;
}

// Zero times a number is zero where it is finite and NaN where it is not. Several sums, since each addition waits for the last.
bool all_finite(const double* values, int64_t count) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += 0.0 * values[i + j];
  for (; i < count; ++i) sums[0] += 0.0 * values[i];
  double total = 0;
  for (double each : sums) total += each;
  return total == 0;
}

// What a slice found on its way back, counted by the thread that has its numbers at hand.
struct Seen {
  int64_t active = 0;
  bool finite = true;
  Seen() = default;
  Seen(const Kernel& plain, const Problem& p, int64_t slice) {
    if (p.alpha > 0) active = plain.active_pairs(p, slice);
    const int64_t first = p.batch * slice / count_slices(p), end = p.batch * (slice + 1) / count_slices(p);
    for (const double* squares : {p.error_sq, p.back_sq}) finite = finite && all_finite(squares + first * p.steps, (end - first) * p.steps);
  }
};

// `plain` is the plain cell's kernel: Omega's factors are the same for every cell.
int backward(const Kernel& k, const Kernel& plain, const Problem& p) {
  int64_t bytes[6];
  k.sizes_backward(p, bytes);
  const int64_t slices = count_slices(p), scratch = (k.scratch_bytes(p) + 63) / 64 * 64;
  const int64_t factors = p.alpha > 0 ? p.steps * p.batch * int64_t(sizeof(double)) : 0;
  Memory memory({bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], factors, scratch * slices});
  if (!memory.ok()) return kNoMemory;
  Shared s = {};
  s.backward_hh = memory.take(bytes[0]);
  s.backward_ih = memory.take(bytes[1]);
  s.errors = memory.take(bytes[2]);
  s.directions = memory.take(bytes[3]);
  s.partial = memory.take(bytes[4]);
  s.forward_hh = memory.take(bytes[5]);
  s.factors = static_cast<double*>(memory.take(factors));
  char* scratches = static_cast<char*>(memory.take(scratch * slices));
  prepare(p, s, k.pack_backward, k.pack_backward_part);
  Seen seen[kMostSlices];
  Pool::run(slices, p.threads, [&](int64_t slice) {
    {
      FlushTiny flush;
      k.backward(p, s, slice, scratches + slice * scratch);
    }
    if (p.error_sq) seen[slice] = Seen(plain, p, slice);
  });
  int64_t active = 0;
  bool finite = true;
  for (const Seen& of_slice : seen) active += of_slice.active, finite = finite && of_slice.finite;
  s.share = active > 0 ? p.alpha / double(active) : 0.0;
  if (p.grad_weight_hh || p.grad_weight_ih || p.grad_bias || p.grad_x) {
    Pool::run(slices, p.threads, [&](int64_t slice) {
      FlushTiny flush;
      if (s.factors) plain.omega_factors(p, s, slice);
      k.weights(p, s, slice, scratches + slice * scratch);
    });
    if (!k.reduce_part) k.reduce(p, s);
    else
      Pool::run(count_parts(p), p.threads, [&](int64_t part) {
        FlushTiny flush;
        k.reduce_part(p, s, part);
      });
  }
  return finite ? kDone : kNotFinite;
}

// One layer and direction over all steps. `input` is [N, width] or null where tokens are read, `output` [N, D H]; `room` holds two
// states. Rows that end early leave their state in `last`; going back in time, rows that begin late take theirs from h0.
class CellRun {
 public:
  CellRun(const InferenceKernel& kernel, const Inference& problem) : k(kernel), p(problem) {}

  void run(int64_t cell, const CellWeights& weights, const char* input, int64_t width, char* output, char* room) {
    const int64_t row = p.hidden * k.bytes, state = p.batch * row, direction = cell % p.directions;
    const bool reverse = direction == 1;
    const char* h0 = p.h0 ? static_cast<const char*>(p.h0) + cell * state : nullptr;
    char* last = static_cast<char*>(p.last) + cell * state;
    char* c = p.last_c ? static_cast<char*>(p.last_c) + cell * state : nullptr;
    if (c && p.c0) std::memcpy(c, static_cast<const char*>(p.c0) + cell * state, state);
    else if (c) std::memset(c, 0, state);
    CellStep s = {0, p.hidden, width, p.gates, p.nonlinearity, p.leak, nullptr, nullptr, h0, c, weights, nullptr, p.directions * p.hidden, nullptr};
    int64_t at = reverse ? pairs() : 0, before = rows(reverse ? p.steps - 1 : 0);
    for (int64_t step = 0; step < p.steps; ++step) {
      s.rows = rows(reverse ? p.steps - 1 - step : step);
      if (reverse) at -= s.rows;
      char* from = const_cast<char*>(static_cast<const char*>(s.h));
      if (step > 0 && s.rows < before) std::memcpy(last + s.rows * row, from + s.rows * row, (before - s.rows) * row);
      if (step > 0 && s.rows > before) {
        if (h0) std::memcpy(from + before * row, h0 + before * row, (s.rows - before) * row);
        else std::memset(from + before * row, 0, (s.rows - before) * row);
      }
      before = s.rows;
      s.x = input ? input + at * width * k.bytes : nullptr;
      s.tokens = input ? nullptr : p.tokens + at;
      s.output = output + (at * p.directions + direction) * row;
      s.next = step + 1 == p.steps ? last : room + step % 2 * state;
      once(s);
      s.h = s.next;
      if (!reverse) at += s.rows;
    }
  }

  int64_t rows(int64_t time) const { return p.reached ? p.reached[time] : p.batch; }
  int64_t pairs() const {
    if (!p.reached) return p.steps * p.batch;
    int64_t all = 0;
    for (int64_t time = 0; time < p.steps; ++time) all += p.reached[time];
    return all;
  }

 private:
  // Threads share out the units of a step: no unit needs what another one comes to before the next step.
  void once(const CellStep& s) const {
    const int64_t products = s.rows * s.gates * s.hidden * (s.hidden + (s.tokens ? 0 : s.inputs));
    if (p.threads < 2 || products < kWorthSharing) {
      FlushTiny flush;
      return k.units(s, 0, s.hidden);
    }
    const int64_t blocks = (s.hidden + kUnitBlock - 1) / kUnitBlock, parts = std::min<int64_t>(4, blocks);
    Pool::run(parts, p.threads, [&](int64_t part) {
      FlushTiny flush;
      const int64_t first = blocks * part / parts * kUnitBlock, end = blocks * (part + 1) / parts * kUnitBlock;
      k.units(s, first, end < s.hidden ? end : s.hidden);
    });
  }
  static constexpr int64_t kWorthSharing = int64_t(1) << 20;

  const InferenceKernel& k;
  const Inference& p;
};

// Whether a plain layer's weights are laid out first, as for training: where each of them is used for many rows. Timed for 8 to
// 2,048 units over 1 to 100 steps of 1 to 256 sequences (docs/speed.md); it goes by shapes alone. Leaky units, two directions and
// packed sequences are left to the other way, which has room for them.
constexpr int64_t kRowsWorthLaying = 4, kPairsWorthLaying = 64;

bool lays_out(const Inference& p) {
  if (p.gates != 1 || p.directions != 1 || p.reached || p.leak != 0) return false;
  return p.batch >= kRowsWorthLaying && p.steps * p.batch >= kPairsWorthLaying;
}

// One layer over all steps by the kernel of whole sequences.
int infer_laid_out(const Kernel& k, const Inference& p, int64_t layer, const CellWeights& weights, const char* input, char* output,
                   int64_t bytes) {
  const int64_t state = p.batch * p.hidden * bytes;
  Problem problem = {};
  problem.steps = p.steps, problem.batch = p.batch, problem.hidden = p.hidden, problem.inputs = layer ? p.hidden : p.inputs;
  problem.nonlinearity = int32_t(p.nonlinearity), problem.threads = p.threads;
  problem.x = input, problem.tokens = input ? nullptr : p.tokens;
  problem.h0 = p.h0 ? static_cast<const char*>(p.h0) + layer * state : nullptr;
  problem.weight_ih = weights.ih, problem.weight_hh = weights.hh;
  problem.bias_ih = weights.bias_ih, problem.bias_hh = weights.bias_hh;
  problem.output = output, problem.last = static_cast<char*>(p.last) + layer * state;
  return forward(k, problem);
}

// The plain cell's forward pass of training. One step of a few sequences is not worth laying the weights out for.
int plain_forward(const InferenceKernel& one_step, const Kernel& k, const Problem& p) {
  if (p.steps > 1 || p.batch >= kPairsWorthLaying || p.leak != 0 || p.lengths || p.tokens) return forward(k, p);
  Inference q = {};
  q.steps = q.gates = q.layers = q.directions = 1;
  q.batch = p.batch, q.hidden = p.hidden, q.inputs = p.inputs, q.nonlinearity = p.nonlinearity, q.threads = p.threads;
  q.h0 = p.h0, q.last = p.last;
  CellRun(one_step, q).run(0, {p.weight_ih, p.weight_hh, p.bias_ih, p.bias_hh}, static_cast<const char*>(p.x), p.inputs,
                           static_cast<char*>(p.output), nullptr);
  return kDone;
}

int infer(const InferenceKernel& k, const Kernel& plain, const Inference& p) {
  CellRun cells(k, p);
  const int64_t pairs = cells.pairs(), width = p.directions * p.hidden;
  if (p.tokens)
    for (int64_t i = 0; i < pairs; ++i)
      if (static_cast<uint64_t>(p.tokens[i]) >= static_cast<uint64_t>(p.inputs)) return kTokenOutOfRange;
  const auto weights_of = [&p](int64_t cell) -> CellWeights {
    const void* const* found = reinterpret_cast<const void* const*>(&p + 1) + cell * p.per_cell;
    return {found[0], found[1], p.per_cell == 4 ? found[2] : nullptr, p.per_cell == 4 ? found[3] : nullptr};
  };
  const bool laid_out = lays_out(p);
  if (laid_out && p.layers == 1)  // before this call takes memory of its own: the block that is kept is for that one
    return infer_laid_out(plain, p, 0, weights_of(0), static_cast<const char*>(p.x), static_cast<char*>(p.output), k.bytes);
  const int64_t states = 2 * p.batch * p.hidden * k.bytes, between = p.layers > 1 ? pairs * width * k.bytes : 0;
  Memory memory({states, between, p.layers > 2 ? between : 0});
  if (!memory.ok()) return kNoMemory;
  char* room = static_cast<char*>(memory.take(states));
  char* sequences[2] = {static_cast<char*>(memory.take(between)), static_cast<char*>(memory.take(p.layers > 2 ? between : 0))};
  const char* input = static_cast<const char*>(p.x);
  for (int64_t layer = 0; layer < p.layers; ++layer) {
    char* output = layer + 1 == p.layers ? static_cast<char*>(p.output) : sequences[layer % 2];
    if (laid_out) {
      const int outcome = infer_laid_out(plain, p, layer, weights_of(layer), input, output, k.bytes);
      if (outcome != kDone) return outcome;
    } else {
      for (int64_t cell = layer * p.directions; cell < (layer + 1) * p.directions; ++cell)
        cells.run(cell, weights_of(cell), input, layer ? width : p.inputs, output, room);
    }
    input = output;
  }
  return kDone;
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

SG_API int64_t steadygrad_gated_bytes() { return sizeof(GatedProblem); }

SG_API int steadygrad_forward(const Problem* problem, int is_double) {
  return plain_forward(is_double ? *kChoice.inference_of_double : *kChoice.inference_of_float, kernel(is_double), *problem);
}
SG_API int steadygrad_backward(const Problem* problem, int is_double) {
  return backward(kernel(is_double), kernel(is_double), *problem);
}
SG_API int steadygrad_gated_forward(const GatedProblem* problem, int is_double) {
  return forward(gated_kernel(is_double), *problem);
}
SG_API int steadygrad_gated_backward(const GatedProblem* problem, int is_double) {
  return backward(gated_kernel(is_double), kernel(is_double), *problem);
}
SG_API int steadygrad_infer(const Inference* problem, int is_double) {
  return infer(is_double ? *kChoice.inference_of_double : *kChoice.inference_of_float, kernel(is_double), *problem);
}

}  // extern "C"
