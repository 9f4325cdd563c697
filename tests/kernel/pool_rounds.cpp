// Rounds of the pool with ever other numbers of pieces and threads: each piece is done once, and there is no other.
#include "pool.hpp"

#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
  const int rounds = std::atoi(arguments[1]);
  uint32_t random = 1;
  for (int round = 0; round < rounds; ++round) {
    const auto draw = [&](uint32_t below) { return int64_t((random = random * 1664525u + 1013904223u) >> 16) % below; };
    const int64_t count = 2 + draw(15), threads = 2 + draw(7);
    std::atomic<int> done[steadygrad::Pool::kMostPieces] = {};
    std::atomic<bool> stranger{false};
    steadygrad::Pool::run(count, threads, [&](int64_t piece) {
      for (volatile int i = 0; i < 200; i = i + 1) {}  // so that there is something left for the others
      if (piece < 0 || piece >= count) stranger = true;
      else done[piece].fetch_add(1);
    });
    for (int64_t piece = 0; piece < count; ++piece)
      if (done[piece] != 1) return std::printf("round %d: piece %d of %d was done %d times\n", round, int(piece), int(count), done[piece].load()), 1;
    if (stranger) return std::printf("round %d: a piece that is none of the %d\n", round, int(count)), 1;
  }
  return 0;
}
