// Calls of libraries that have their own threads and static objects: drivers, shader compilers.
#pragma once

#include <functional>
#include <thread>

namespace topograd {

/// Permission to call such a library, held while the call runs.
///
/// The static objects of these libraries are destroyed while the process ends, and a child of
/// fork() has neither their threads nor anyone to release their locks. So the end of the process
/// waits for running calls and prevents new ones, and a child makes none. Calls may nest.
class ForeignCall {
 public:
  /// Throws Error{NoDevice} in a child of fork() whose parent had made such calls, and on the
  /// thread that ends the process. Once the process ends, any other thread blocks here for ever.
  ///
  ///   call  its name, for the message
  explicit ForeignCall(const char* call);
  ~ForeignCall();
  ForeignCall(const ForeignCall&) = delete;
  ForeignCall& operator=(const ForeignCall&) = delete;
};

/// Runs `destroy` with the same permission. Returns false without running it if calls are no longer
/// allowed: the object is then never destroyed.
bool run_if_callable(const std::function<void()>& destroy);

/// Keeps a reference to an object that is never destroyed, so that leak checkers do not report it.
void keep_for_ever(const void* object);

/// Deletes an object with the same permission, or keeps it until the process ends.
template <class T>
void delete_if_callable(T* object) {
  if (!run_if_callable([object] { delete object; })) keep_for_ever(object);
}

/// Marks the time in which such libraries are loaded and create static objects on their own
/// threads.
///
/// If another thread ends the process meanwhile, exit() destroys some of these objects before it
/// calls the handlers of this process, and waiting is too late: the process then ends at once, with
/// its status, without the rest of its exit handlers.
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

/// Waits up to 60 s for running calls and prevents new ones. Called when the process ends with a
/// status; work that must follow may call it earlier.
void end_foreign_calls(int status);

/// True if such libraries can no longer be called: the process is ending, or lost them in fork().
bool foreign_calls_ended();
/// True if this process is a child of fork() whose parent had made such calls.
bool foreign_calls_lost();

/// Registers, while it lives, a function that is called before this thread blocks for ever in
/// ForeignCall(), so that other threads do not wait for it.
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
