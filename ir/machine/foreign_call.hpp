// Calls of libraries that have threads and static objects of their own: drivers, shader compilers.
#pragma once

#include <functional>
#include <thread>

namespace topograd {

/// Permission to call such a library, held while the call runs.
///
/// Their static objects go away while the process ends, and a child of fork() has neither their
/// threads nor locks that anybody will release. So the end of the process waits for the calls that
/// are running and lets no other begin, and a child makes none. Calls may nest.
class ForeignCall {
 public:
  /// Throws Error{NoDevice} in a child of fork() whose parent had made such calls, and on the
  /// thread that ends the process. Any other thread stays here from then on, until the process is
  /// gone.
  ///
  ///   call  its name, for the message
  explicit ForeignCall(const char* call);
  ~ForeignCall();
  ForeignCall(const ForeignCall&) = delete;
  ForeignCall& operator=(const ForeignCall&) = delete;
};

/// Runs `destroy` with the same permission. False, and nothing was run, where there is none any
/// more: what would have been destroyed is left as it is.
bool run_if_callable(const std::function<void()>& destroy);

/// Remembers what is left as it is until the process is gone, so that no leak is seen in it.
void keep_for_ever(const void* object);

/// Deletes an object with the same permission, or keeps it for ever.
template <class T>
void delete_if_callable(T* object) {
  if (!run_if_callable([object] { delete object; })) keep_for_ever(object);
}

/// While one lives, such libraries are loaded, and make their static objects on threads of theirs.
///
/// If another thread ends the process meanwhile, exit() destroys some of these objects before it
/// calls what this process has registered, and waiting is too late: the process then ends at once,
/// with its status, without the rest of its exit handlers.
class LoadingLibraries {
 public:
  LoadingLibraries();
  ~LoadingLibraries();
  LoadingLibraries(const LoadingLibraries&) = delete;
  LoadingLibraries& operator=(const LoadingLibraries&) = delete;

 private:
  /// Registers the end of the process again and again: exit() calls the latest handler first, so
  /// that few of the objects made meanwhile are destroyed before the process ends. An exit handler
  /// of a library may wait for a thread that still uses others.
  std::jthread registers_;
};

/// Waits for the calls that are running, 60 s at the most, and lets no other begin. Called when the
/// process ends with a status: what else must be done then may call it earlier.
void end_foreign_calls(int status);

/// Such libraries can be called no more, in this process or on the way to its end.
bool foreign_calls_ended();
/// This process is a child of fork() whose parent had made such calls.
bool foreign_calls_lost();

/// While one lives, what to do before this thread stays in ForeignCall() for ever: others need not
/// wait for it.
class WhenStopped {
 public:
  explicit WhenStopped(std::function<void()> tell);
  ~WhenStopped();
  WhenStopped(const WhenStopped&) = delete;
  WhenStopped& operator=(const WhenStopped&) = delete;

 private:
  std::function<void()> tell_;
  WhenStopped* outer_;
  friend class ForeignCall;
};

}  // namespace topograd
