// Everything that depends on the operating system: libraries, environment, private folders, files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::platform {

/// A shared library opened at run time; stays loaded until the process ends, because drivers keep
/// threads and exit handlers in it.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  /// Opens a library by path or by the system's search; check ok().
  explicit SharedLibrary(const std::string& path);
  bool ok() const { return handle_ != nullptr; }
  /// Why it could not be opened.
  const std::string& error() const { return error_; }
  /// Address of a symbol, or null.
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string error_;
};

/// Keeps every library that is loaded now until the process ends: drivers, which their loader would
/// unload with its last instance, have threads, thread-local objects and exit handlers too.
void keep_loaded_libraries();

/// File names under which the system's Vulkan loader is looked for, in order.
std::vector<std::string> vulkan_loader_names();

/// A function of a library that the program has loaded for all to use, or null.
void* loaded_symbol(const char* name);

/// An environment variable, or nothing if unset or empty.
std::optional<std::string> environment(const char* name);
/// Variables that are set, not empty, and begin with these letters; in the order of the alphabet.
std::vector<std::string> environment_names(std::string_view prefix);
/// Sets an environment variable of this process. Not safe beside threads that read it.
void set_environment(const char* name, const std::string& value);

std::uint64_t process_id();

/// Calls `tell` in every child of fork(), before it goes on. Returns true.
bool after_fork(void (*tell)());

/// Calls `tell` with the status when the process ends by exit() or the end of main(), before what
/// was registered so far.
void at_exit(void (*tell)(int status));
/// Ends the process without what is still to be called at its end; files are written out.
[[noreturn]] void end_process(int status);

/// Threads of this process; 0 if the system does not say.
int thread_count();
/// Files, sockets and pipes that this process has open; 0 if the system does not say.
std::size_t open_files();
/// Bytes of this process in physical memory; 0 if the system does not say.
std::uint64_t resident_bytes();

/// How a child process ended.
struct ChildEnd {
  bool started = false;
  bool silent = false;  ///< it said nothing for too long, and was killed
  int status = 0;       ///< unless it was killed
  int signal = 0;       ///< that killed it, or 0

  bool well() const { return started && !silent && status == 0 && signal == 0; }
};

/// Runs `work` in a copy of this process, in which no thread but the calling one goes on, and
/// waits. The copy ends as programs do, exit handlers included.
///
///   work            in the child; hands lines to its argument; what it throws is status 3
///   hear            in this process: each line
///   silent_seconds  without a line after which the child is killed
ChildEnd run_child(const std::function<void(const std::function<void(const std::string&)>&)>& work,
                   const std::function<void(const std::string&)>& hear, double silent_seconds);

/// From now on no file of this process grows beyond `bytes`: writing fails, as on a disk that is
/// full. It is not taken back, and so is for child processes (run_child()). False if the system
/// does not do it.
bool limit_file_size(std::uint64_t bytes);

/// The folder that the running program's file is in; empty if the system does not say.
std::string executable_folder();

/// Bytes that this process holds from its allocator: what the main thread has, and large pieces of
/// all threads, those of map_pages() with them. 0 if the C library does not say.
std::uint64_t heap_bytes();

/// Of the machine, in bytes; 0 if the system does not say.
std::uint64_t physical_memory_bytes();

/// What map_pages() gives is a multiple of this many bytes, and begins at one.
inline constexpr std::size_t kLargePage = std::size_t{1} << 21;

/// Memory straight from the system, zero, in large pages where it has them: a page is cleared when
/// it is first touched, which by small ones costs more than the clearing, and reads from all over
/// an array miss fewer translations of addresses. Throws std::bad_alloc.
///
///   bytes  > 0, rounded up to a multiple of kLargePage
void* map_pages(std::size_t bytes);
/// Gives them back; `bytes` as for map_pages().
void unmap_pages(void* pages, std::size_t bytes) noexcept;

/// $XDG_CACHE_HOME, else ~/.cache, else nothing.
std::optional<std::string> cache_home();

/// Makes a folder (and its parents) that only this user can enter, if it is not there.
/// Returns why it is not usable (cannot be made, somebody else's, others may write), or "".
std::string private_folder(const std::string& path);

/// Reads a whole regular file, following no link; nothing if that fails or it is over `max_bytes`.
std::optional<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t max_bytes);

/// Writes a file under a temporary name beside `path`, then renames it over `path`: readers see
/// the old or the new bytes. False, with nothing left behind, if that fails.
bool replace_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace topograd::platform
