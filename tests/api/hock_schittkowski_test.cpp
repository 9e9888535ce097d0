// Constrained problems on the CPU.
#include "hock_schittkowski.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

TEST(HockSchittkowski, PublishedMinima) {
  check_hock_schittkowski({.backend = Backend::cpu, .max_iterations = 200});
}

TEST(HockSchittkowski, BarrierStaysWithin) {
  check_barrier({.backend = Backend::cpu, .max_iterations = 200});
}

}  // namespace
}  // namespace topograd::test
