// Constrained problems on the CPU.
#include "hock_schittkowski.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

TEST(HockSchittkowski, PublishedMinima) {
  check_hock_schittkowski({.backend = Backend::cpu, .max_iterations = 200});
}

// In the table's units all are solved.
TEST(HockSchittkowski, UnitsChangeNoVerdict) {
  SolverOptions options = {.backend = Backend::cpu, .max_iterations = 200};
  options.method = Method::augmented_lagrangian;
  check_units(options, 46);
  options.method = Method::barrier;
  check_units(options, 23);
}

TEST(HockSchittkowski, BarrierStaysWithin) {
  check_barrier({.backend = Backend::cpu, .max_iterations = 200});
}

}  // namespace
}  // namespace topograd::test
