// Entry point of every test binary.
#include <gtest/gtest.h>

// Exit status that ctest reads as "skipped": nothing could run here, and nothing failed.
constexpr int kAllSkipped = 77;

#if defined(__SANITIZE_ADDRESS__)
// The leak check runs at exit and names the library of each frame, which only works while it is
// mapped; suppressions are by library, so drivers stay loaded in sanitizer builds.
extern "C" int dlclose(void*) { return 0; }
#endif

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  const bool all_skipped =
      run.test_to_run_count() > 0 && run.skipped_test_count() == run.test_to_run_count();
  return status == 0 && all_skipped ? kAllSkipped : status;
}
