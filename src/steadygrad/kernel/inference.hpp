// A forward pass that no backward pass will follow, through all layers and directions of a network in one call. The weights are
// read where they lie: laying them out for the products, as a training step does, would take longer than the few products of
// one step. Filled in by recurrence/inference.py, number by number.
#pragma once
#include <cstdint>

namespace steadygrad {

struct Inference {
  // D directions; "cells" are layers times directions, in torch's order. N is the number of (step, sequence) pairs.
  int64_t steps, batch, hidden, inputs, gates, nonlinearity, layers, directions, threads;
  double leak;
  const int64_t* reached;  // [T]: how many sequences reach each step, the longest ones first (packed). Null: all of them
  const void* x;           // [N, I]; null where tokens are given
  const int64_t* tokens;   // [N]
  const void* h0;          // [cells, B, H]; null: zeros
  const void* c0;          // the LSTM's
  void* output;            // [N, D H]
  void* last;              // [cells, B, H]
  void* last_c;
  int64_t per_cell;        // 2, or 4 with biases: so many addresses follow for every cell, W_ih, W_hh, b_ih and b_hh
};

struct CellWeights {
  const void *ih, *hh, *bias_ih, *bias_hh;  // biases: null for none
};

// One step of one cell.
struct CellStep {
  int64_t rows, hidden, inputs, gates, nonlinearity;
  double leak;
  const void* x;          // [rows, I]
  const int64_t* tokens;  // [rows]
  const void* h;          // [rows, H]; null: zeros
  void* c;                // [rows, H]: the LSTM's, changed in place
  CellWeights weights;
  void* output;           // rows of `output_row` entries, H of which are this cell's
  int64_t output_row;
  void* next;             // [rows, H]: h of the next step
};

struct InferenceKernel {
  int64_t bytes;  // of a number
  // Units `first` to `end` of a step, for all rows. What a unit comes to does not depend on which others are computed with it.
  void (*units)(const CellStep&, int64_t first, int64_t end);
};

// Units are handed out in blocks of this many.
constexpr int64_t kUnitBlock = 16;

}  // namespace steadygrad
