// Large pages for large buffers, where the system hands them out on request (Linux).
//
// Memory fresh from the system is cleared page by page when it is first touched. A wide layer touches 100 MB at every step:
// in pages of 4 KiB that takes as long as a tenth of its products, in pages of 2 MiB a quarter of that.
#pragma once
#include <cstdint>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

inline void expect_large_pages(void* buffer, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr int64_t kLarge = int64_t(2) << 20, kSmall = 4096;
  if (!buffer || bytes < 2 * kLarge) return;
  char* const first = static_cast<char*>(buffer) + (kSmall - int64_t(reinterpret_cast<uintptr_t>(buffer) % kSmall)) % kSmall;
  const int64_t whole = (static_cast<char*>(buffer) + bytes - first) / kSmall * kSmall;
  madvise(first, whole, MADV_HUGEPAGE);  // advice: where it is refused, nothing else changes
#else
  (void)buffer, (void)bytes;
#endif
}

}  // namespace
