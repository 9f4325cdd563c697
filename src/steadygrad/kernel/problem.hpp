// What one call of the kernel works on. The C ABI of the library: mirrored field by field in recurrence/native.py.
//
// Letters, as in the Python code: T steps, B sequences, H units, I inputs; everything row-major and contiguous.
//   a_k = W_ih x_k + W_hh h_{k-1} + b        h_k = leak h_{k-1} + (1 - leak) s(a_k)
#pragma once
#include <cstdint>

namespace steadygrad {

enum Nonlinearity : int32_t { kTanh = 0, kRelu = 1, kSigmoid = 2, kIdentity = 3 };
enum Convention : int32_t { kPaper = 0, kProgram = 1, kProceedings = 2 };

struct Problem {
  // shapes and options
  int64_t steps, batch, hidden, inputs;
  int32_t nonlinearity, reverse;
  double leak;
  int64_t threads;
  const int64_t* lengths;  // [B]; steps at or past a row's length hold its state. Null: all T
  // values
  const void* x;            // [T, B, I]; null where tokens are given
  const int64_t* tokens;    // [T, B]
  const void* h0;           // [B, H]; null: zeros
  const void* weight_ih;    // [H, I]
  const void* weight_hh;    // [H, H]
  const void* bias_ih;      // [H]; null: none
  const void* bias_hh;      // [H]; null: none
  void* output;             // [T, B, H], h_k
  void* activation;         // [T, B, H], s(a_k): only for leaky units, else null
  void* last;               // [B, H], the final state
  // backward
  int64_t convention;
  double alpha, clip_error;    // clip_error: infinity for none
  const void* grad_output;     // [T, B, H] or null
  const void* grad_last;       // [B, H] or null: the gradient of the final state
  void* grad_x;                // each of these may be null: not wanted
  void* grad_h0;
  void* grad_weight_ih;
  void* grad_weight_hh;
  void* grad_bias;             // [H], of both biases
  // [B, T], not [T, B]: threads that run side by side, each with its own rows, would fight over the cache's lines.
  double* error_sq;            // squared norm of the error at each step; null: not measured (alpha must be 0)
  double* back_sq;             // squared norm of what step k sends back to k-1
};

// Rows of a batch never meet before the weight gradients, so a batch is cut into slices that run alone. The cut depends on
// the shapes alone, never on the number of threads: the same sums are added in the same order on any machine.
constexpr int64_t kMostSlices = 16;

static inline int64_t count_slices(const Problem& p) {  // static: see vector.hpp
  const int64_t fewest_rows = p.hidden > 128 ? 16 : 8;  // a large matrix should be read for many rows at a time
  int64_t slices = 1;
  while (slices < kMostSlices && p.batch >= 2 * slices * fewest_rows) slices *= 2;
  return slices;
}

// What the slices of one call share, prepared once: weights packed for the products, partial gradients, Omega's factors.
// The comments are the plain cell's; gated.cpp says what the gated cells keep where.
struct Shared {
  void *forward_hh, *forward_ih;    // W_hh^T and W_ih^T in panels
  void *backward_hh, *backward_ih;  // W_hh and W_ih in panels
  void *bias;                       // b_ih + b_hh, padded
  void *errors;                     // [slice][T * rows, padded H]: the error before the nonlinearity, of every step
  void *directions;                 // the same shape: Omega's right-hand factor u
  double *factors;                  // [B, T]: share * c_k, or null without Omega
  double share;                     // alpha / N, once the number N of active pairs is known
  void *partial;                    // [slice]: one slice's sums of the weight gradients
};

// One instruction set's version of the kernel; the sizes are in bytes.
struct Kernel {
  const char* name;
  void (*sizes_forward)(const Problem&, int64_t bytes[3]);   // forward_hh, forward_ih, bias
  // backward_hh, backward_ih, errors, directions, partial, forward_hh
  void (*sizes_backward)(const Problem&, int64_t bytes[6]);
  void (*pack_forward)(const Problem&, Shared&);
  void (*pack_backward)(const Problem&, Shared&);
  void (*forward)(const Problem&, const Shared&, int64_t slice, void* scratch);
  void (*backward)(const Problem&, const Shared&, int64_t slice, void* scratch);
  int64_t (*active_pairs)(const Problem&, int64_t slice);  // these two serve every cell and are null in the gated cells' tables
  void (*omega_factors)(const Problem&, const Shared&, int64_t slice);
  void (*weights)(const Problem&, const Shared&, int64_t slice, void* scratch);
  void (*reduce)(const Problem&, const Shared&);
  int64_t (*scratch_bytes)(const Problem&);
  // The gated cells' pack_forward, pack_backward and reduce (null above): one of count_parts() parts, on any thread.
  void (*pack_forward_part)(const Problem&, const Shared&, int64_t part);
  void (*pack_backward_part)(const Problem&, const Shared&, int64_t part);
  void (*reduce_part)(const Problem&, const Shared&, int64_t part);
};

// What is done once for all slices, weights packed and gradients added up, takes a wide layer milliseconds: it is shared out.
static inline int64_t count_parts(const Problem& p) { return p.hidden > 128 ? 4 : 1; }

}  // namespace steadygrad

// The name of an instruction set's table: float_avx2, gated_float_avx2, …
#define SG_TEXT_(x) #x
#define SG_TEXT(x) SG_TEXT_(x)
#define SG_JOIN_(a, b) a##b
#define SG_JOIN(a, b) SG_JOIN_(a, b)
