// Entry point of every test binary.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

// Exit status that ctest reads as "skipped": nothing could run, and nothing failed.
constexpr int kAllSkipped = 77;

#ifdef TOPOGRAD_SANITIZED
// Suppressions are by library and only work while it is mapped (leaks are checked at exit, and the
// thread sanitizer stops when a suppressed library is unmapped), so drivers stay loaded.
extern "C" int dlclose(void*) { return 0; }

// A child of fork() lacks its parent's other threads. Memory that only these referred to is no
// leak.
static const pid_t first_process = ::getpid();
extern "C" int __lsan_is_turned_off() { return ::getpid() == first_process ? 0 : 1; }
#endif

int main(int argc, char** argv) {
  // Times of earlier runs must not affect tests.
  ::setenv("TOPOGRAD_HYBRID_STATE", "none", 0);
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  const bool all_skipped =
      run.test_to_run_count() > 0 && run.skipped_test_count() == run.test_to_run_count();
  return status == 0 && all_skipped ? kAllSkipped : status;
}
