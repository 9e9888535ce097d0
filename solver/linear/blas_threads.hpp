// How many threads the system's BLAS takes within a factorisation.
#pragma once

namespace topograd {

/// Threads that pay for a sparse factorisation. Its dense blocks are small: OpenBLAS hands each of
/// their products to all its threads, and where those are as many as the machine's cores one that
/// waits for its core holds up the rest. On 16 cores a factorisation of 9 × 10⁷ operations takes
/// 23 ms on one thread, 14 on 4, 20 on 8 and 410 on 16 (docs/notes/linear-solvers.md).
///
///   flops  operations of the factorisation; 0 if unknown, and one thread is taken
///   cores  of the machine, at least 1
int blas_threads(double flops, int cores);

/// While one lives, OpenBLAS takes at most so many threads: the least that any one asks for, and
/// never more than were set. What was set before the first is set again after the last. Other
/// libraries are left alone. May be made on several threads at once.
class BlasThreadLimit {
 public:
  explicit BlasThreadLimit(int threads);
  ~BlasThreadLimit();
  BlasThreadLimit(const BlasThreadLimit&) = delete;
  BlasThreadLimit& operator=(const BlasThreadLimit&) = delete;
};

/// Before the first call of the BLAS: OpenBLAS takes a buffer of 128 MB of address space then, and
/// where it gets none it asks again, for ever. Throws std::bad_alloc instead; never after a call
/// that did not, since the buffer stays.
void require_blas_buffer();

/// Threads that OpenBLAS would take now; 0 where it is not loaded.
int openblas_threads();

}  // namespace topograd
