// Operating system interface: libraries, environment, processes and their end, memory, files.
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

/// A shared library opened at run time. It stays loaded until the process ends, because drivers
/// keep threads and exit handlers in it.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  /// Opens a library by path or by the system's search; check ok().
  explicit SharedLibrary(const std::string& path);
  bool ok() const { return handle_ != nullptr; }
  /// Reason why it could not be opened.
  const std::string& error() const { return error_; }
  /// Address of a symbol, or null.
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string error_;
};

/// Keeps every loaded library until the process ends. A loader would unload its drivers with the
/// last instance, but they too have threads, thread-local objects and exit handlers.
void keep_loaded_libraries();

/// File names of the system's Vulkan loader, in the order to try.
std::vector<std::string> vulkan_loader_names();

/// A function of a library that the program has loaded globally, or null.
void* loaded_symbol(const char* name);

/// Value of an environment variable, or nothing if unset or empty.
std::optional<std::string> environment(const char* name);
/// Names of variables that are set, not empty, and begin with `prefix`; sorted.
std::vector<std::string> environment_names(std::string_view prefix);
/// Sets an environment variable of this process. Not safe while other threads read it.
void set_environment(const char* name, const std::string& value);

std::uint64_t process_id();

/// Calls `handler` in every child of fork(), before fork() returns there. Returns true.
bool after_fork(void (*handler)());

/// Registers `handler` to be called with the status when the process ends by exit() or the end of
/// main(), before the handlers registered so far.
void at_exit(void (*handler)(int status));
/// Ends the process without its remaining exit handlers; files are flushed.
[[noreturn]] void end_process(int status);

/// Notes which program and libraries are loaded; only the first call does.
void remember_loaded_objects();
/// Ends the process with the remaining exit handlers and static destructors of what was noted by
/// remember_loaded_objects(), and without those of libraries that were loaded later; files are
/// flushed. Handlers of on_exit() are not called. An executable that is not position-independent
/// cannot tell its handlers from those of others, and ends without them.
[[noreturn]] void end_process_without_later_libraries(int status);

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

/// Threads of this process; 0 if the system does not say.
int thread_count();
/// Files, sockets and pipes that this process has open; 0 if the system does not say.
std::size_t open_files();
/// Resident memory of this process in bytes; 0 if the system does not say.
std::uint64_t resident_bytes();

/// How a child process ended.
struct ChildEnd {
  bool started = false;
  /// True if it was killed because it printed nothing for too long.
  bool silent = false;
  int status = 0;  ///< valid unless it was killed
  int signal = 0;  ///< the signal that killed it, or 0

  bool well() const { return started && !silent && status == 0 && signal == 0; }
};

/// Runs `work` in a copy of this process that has only the calling thread, and waits. The copy ends
/// as programs do, exit handlers included.
///
///   work            runs in the child; passes lines to its argument; if it throws, the status is 3
///   hear            called in this process for each line
///   silent_seconds  the child is killed after this time without a line
ChildEnd run_child(const std::function<void(const std::function<void(const std::string&)>&)>& work,
                   const std::function<void(const std::string&)>& hear, double silent_seconds);

/// Limits the size of every file that this process writes: writing beyond it fails, as on a full
/// disk. The limit is permanent, so use it in child processes (run_child()). Returns false if the
/// system does not support it.
bool limit_file_size(std::uint64_t bytes);

/// Folder of the running program's file; empty if the system does not say.
std::string executable_folder();

/// Bytes that this process holds from its allocator: the main thread's, and large pieces of all
/// threads, including those of map_pages(). 0 if the C library does not say.
std::uint64_t heap_bytes();

/// Makes the allocator keep freed memory for later requests instead of returning it to the system,
/// which clears pages again at the next request. For programs that own their process: memory in use
/// stays near its peak until they end. No effect where the C library has no such setting.
void keep_freed_memory();

/// Memory of the machine in bytes; 0 if the system does not say.
std::uint64_t physical_memory_bytes();

/// Size and alignment unit of map_pages(), in bytes.
inline constexpr std::size_t kLargePage = std::size_t{1} << 21;

/// Maps zeroed memory, in large pages if the system has them.
///
/// A page is cleared when it is first touched; with small pages the faults cost more than the
/// clearing. Random reads of a large array miss fewer address translations. Throws std::bad_alloc.
///
///   bytes  > 0, rounded up to a multiple of kLargePage
void* map_pages(std::size_t bytes);
/// Unmaps pages; `bytes` as for map_pages().
void unmap_pages(void* pages, std::size_t bytes) noexcept;

/// $XDG_CACHE_HOME, else ~/.cache, else nothing.
std::optional<std::string> cache_home();

/// Makes a folder (and its parents) that only this user can enter, if it does not exist. Returns
/// the reason why it is not usable (cannot be made, another owner, writable by others), or "".
std::string private_folder(const std::string& path);

/// Reads a regular file without following links; nothing if that fails or it is over `max_bytes`.
std::optional<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t max_bytes);

/// Writes a file under a temporary name next to `path`, then renames it to `path`: readers see the
/// old or the new bytes. Returns false, leaving no file behind, if that fails.
bool replace_file(const std::string& path, std::span<const std::byte> bytes);

// Files that a user named, written as a whole.

/// Writes a file. A regular or new file is replaced as by replace_file(), with its own permissions
/// or those of new files; links are followed, also to a file that does not exist yet. Pipes,
/// devices, and files in folders that accept no new files are written in place. Returns false on
/// failure; except when written in place, the old contents are kept then.
bool write_output_file(const std::string& path, std::span<const std::byte> bytes);

/// Names the file that write_output_file() would write, for comparisons: the result is equal for
/// two names of one file, also through links. "" for devices, which accept several outputs. "-" is
/// standard output.
std::string output_identity(const std::string& path);

/// True if standard output is a terminal.
bool is_terminal_output();

/// True if write_output_file() can probably write this path. Opens no file.
bool can_write_output(const std::string& path);

/// Replaces a regular or new file as a whole; its bytes are on the disk when it returns. Links are
/// followed. Returns the reason why that failed, or ""; the old contents are kept then.
std::string write_durable_file(const std::string& path, std::span<const std::byte> bytes);

/// Bytes that the system can give now without swapping; 0 if it does not say.
std::uint64_t available_memory_bytes();
/// True if the system gives this many bytes of address space at once; `ulimit -v` limits them.
bool has_address_space(std::uint64_t bytes);

/// AVX2 and FMA, unless TOPOGRAD_INSTRUCTIONS is "baseline".
bool has_avx2();
/// AVX-512 (F, VL, DQ), unless TOPOGRAD_INSTRUCTIONS is "baseline" or "avx2".
///
/// Both throw Error{InvalidArgument} for another value than these two and "avx512".
bool has_avx512();

}  // namespace topograd::platform
