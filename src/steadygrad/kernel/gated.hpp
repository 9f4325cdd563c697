// What one call for a gated cell works on: a Problem and the fields below. Mirrored in recurrence/native_gated.py.
//
// G is the number of gates, in torch's order: 3 for the GRU (r, z, n), 4 for the LSTM (i, f, g, o). Of the Problem's fields,
// weights and biases have G H rows, `activation` is [T, B, G H] and holds the gates after their nonlinearity, `grad_bias` is
// bias_ih's alone where the cell is a GRU; `nonlinearity` and `leak` are not read.
//
// by_slice: `activation` is [slice][T, G, rows, H] and `memory` [slice][T, rows, H], as many entries. Two threads then don't write
// side by side, where the cache of each would fetch what the other is about to write, and a gate of all rows is one long row.
#pragma once
#include "problem.hpp"

namespace steadygrad {

struct GatedProblem : Problem {
  int64_t gates;            // G, which says what the cell is
  const void* c0;           // [B, H], the LSTM's; null: zeros
  void* memory;             // [T, B, H]; LSTM: c_k; GRU: m_k = W_hn h_{k-1} + b_hn
  void* last_c;             // [B, H], the LSTM's final c
  int64_t by_slice;         // how activation and memory lie; the same in both calls
  // backward
  const void* grad_last_c;  // [B, H] or null
  void* grad_c0;            // [B, H] or null: not wanted
  void* grad_bias_hh;       // [G H] or null: the GRU's, whose reset gate stands between the two biases
};

}  // namespace steadygrad
