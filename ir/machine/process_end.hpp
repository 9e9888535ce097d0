// The early end of long loops, and of processes that fork() made.
#pragma once

namespace topograd::platform {

/// While one lives, long loops end early after request_end(), with the result that they have: an
/// inexact step, or a factor that is reported as failed. Whoever makes it looks for the request
/// afterwards. Thread-safe.
class EndableWork {
 public:
  EndableWork();
  ~EndableWork();
  EndableWork(const EndableWork&) = delete;
  EndableWork& operator=(const EndableWork&) = delete;

  /// True if a loop that runs now should end.
  static bool should_end();
};
/// Asks endable work to end, or takes that back. Signal handlers may call it.
void request_end(bool wanted);

/// Notes which program and libraries are loaded; only the first call does.
void remember_loaded_objects();
/// Ends the process with the remaining exit handlers and static destructors of what was noted by
/// remember_loaded_objects(), and without those of libraries that were loaded later; files are
/// flushed. Handlers of on_exit() are not called. An executable that is not position-independent
/// cannot tell its handlers from those of others, and ends without them.
[[noreturn]] void end_process_without_later_libraries(int status);

}  // namespace topograd::platform
