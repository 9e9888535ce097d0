// Number of threads of the system's BLAS in a factorisation.
#pragma once

namespace topograd {

/// Number of threads that pays for a factorisation by CHOLMOD. Its dense blocks are small, OpenBLAS
/// divides each product between all its threads, and one that waits for its core delays the others
/// (docs/notes/linear-solvers.md has times).
///
///   flops  operations of the factorisation; 0 if unknown, which gives one thread
///   cores  of the machine, at least 1
int blas_threads(double flops, int cores);

/// Limits OpenBLAS' threads while it lives: to the smallest live limit, and never above the earlier
/// setting, which the end of the last limit restores. Other libraries are not affected.
/// Thread-safe.
class BlasThreadLimit {
 public:
  explicit BlasThreadLimit(int threads);
  ~BlasThreadLimit();
  BlasThreadLimit(const BlasThreadLimit&) = delete;
  BlasThreadLimit& operator=(const BlasThreadLimit&) = delete;
};

/// Call before the first call of the BLAS: OpenBLAS then allocates a buffer of 128 MB of address
/// space, and retries for ever if it gets none. Throws std::bad_alloc instead; never after a
/// successful call, since the buffer stays.
void require_blas_buffer();

/// Threads that OpenBLAS would use now; 0 if it is not loaded.
int openblas_threads();

}  // namespace topograd
