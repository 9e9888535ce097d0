// POSIX implementation of what depends on the operating system.
#include "platform.hpp"

#include "../error.hpp"
#include "formatted.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>

namespace topograd::platform {
namespace {

// Closes a descriptor at the end of a scope.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Makes a folder and its missing parents, each entered by this user only.
bool make_folders(const std::filesystem::path& path) {
  if (path.empty() || ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  if (errno != ENOENT || path.parent_path() == path) return false;
  if (!make_folders(path.parent_path())) return false;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::atomic<std::uint64_t> mapped_bytes{0};

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kLargePage - 1) / kLargePage * kLargePage;
}

/// 0: baseline, 1: AVX2, 2: AVX-512; of this processor and of TOPOGRAD_INSTRUCTIONS.
int widest_instructions() {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  int most = 2;
  if (const auto asked = environment("TOPOGRAD_INSTRUCTIONS")) {
    const auto found = std::ranges::find(kNames, *asked);
    if (found == std::end(kNames))
      throw Error(
          ErrorCode::InvalidArgument,
          "TOPOGRAD_INSTRUCTIONS: expected baseline, avx2 or avx512, got \"" + *asked + '"');
    most = static_cast<int>(found - std::begin(kNames));
  }
  int widest = 0;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  widest = avx512 ? 2 : avx2 ? 1 : 0;
#endif
  return std::min(most, widest);
}

int instructions() {
  static const int kWidest = widest_instructions();
  return kWidest;
}

/// True if the system gives large pages on request.
bool has_large_pages() {
  static const bool kThere = [] {
    const File file(::open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC));
    char text[64] = {};  // "always [madvise] never"
    if (!file.ok() || ::read(file.get(), text, sizeof text - 1) <= 0) return false;
    return std::strstr(text, "[always]") != nullptr || std::strstr(text, "[madvise]") != nullptr;
  }();
  return kThere;
}

/// A loaded program or library: its address, and where its dynamic section is.
struct LoadedObject {
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
};

/// Never destroyed: read while the process ends.
std::vector<LoadedObject>& remembered_objects() {
  static auto& objects = *new std::vector<LoadedObject>;
  return objects;
}

/// The loader has addresses as numbers.
template <class T>
T* at_address(ElfW(Addr) address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Runs what the system runs for an object at the end of a process: its exit handlers, static
/// destructors and finalizers.
void finish_object(const LoadedObject& object) {
  using Function = void (*)();
  const Function* functions = nullptr;
  std::size_t count = 0;
  for (const ElfW(Dyn)* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FINI_ARRAY)
      functions = at_address<const Function>(object.base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_FINI_ARRAYSZ) count = entry->d_un.d_val / sizeof(void*);
  }
  while (functions != nullptr && count-- > 0) functions[count]();
}

std::atomic<int> endable_works{0};
std::atomic<bool> end_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers write it");

[[noreturn]] void be_child(
    const std::function<void(const std::function<void(const std::string&)>&)>& work, int out) {
  // Ctrl-C reaches both processes: the child ends when the parent ends its work.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    work([out](const std::string& line) {
      const std::string text = line + "\n";
      write_all(out, std::as_bytes(std::span(text)));
    });
  } catch (const std::exception&) {
    status = 3;
  }
  std::exit(status);
}

/// Passes on whole lines. Returns false if the child was silent for too long.
bool listen(int in, const std::function<void(const std::string&)>& hear, double silent_seconds) {
  std::string text;
  char piece[4096];
  for (;;) {
    pollfd waiting{in, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(silent_seconds * 1e3));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(in, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(piece, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      hear(text.substr(begin, end - begin));
    text.erase(0, begin);
  }
}

/// replace_file() with the permissions of the new file.
///
///   exactly  ignore the umask
///   durable  on the disk before it replaces the file
bool replace_with(const std::string& path, std::span<const std::byte> bytes, mode_t permissions,
                  bool exactly, bool durable = false) {
  static std::atomic<std::uint64_t> serial{0};
  const std::string temporary =
      path + "." + std::to_string(process_id()) + "." + std::to_string(serial++) + ".tmp";
  bool written = false;
  {
    const File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                           permissions));
    if (!file.ok()) return false;
    written = write_all(file.get(), bytes);
    if (exactly && ::fchmod(file.get(), permissions) != 0) {
      // Some file systems have no permissions.
    }
    if (written && durable) written = ::fsync(file.get()) == 0;
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  ::unlink(temporary.c_str());
  errno = reason;
  return false;
}

/// Resolves links, also those to a file that does not exist.
std::string followed(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as the system's own limit
  std::error_code failed;
  fs::path at = path;
  for (int k = 0; k < kMostLinks; ++k) {
    at = fs::weakly_canonical(fs::absolute(at, failed), failed);
    if (failed) return path;
    const fs::path target = fs::read_symlink(at, failed);  // fails if it is no link
    if (failed) return at.string();
    at = at.parent_path() / target;  // `target` alone if it is absolute
  }
  return path;
}

/// The file that a path names once its links are followed, and what it has now.
struct Target {
  explicit Target(const std::string& named) : path(followed(named)) {
    constexpr mode_t kPermissions = 07777;
    struct stat status {};
    there = ::stat(path.c_str(), &status) == 0;
    regular = there && S_ISREG(status.st_mode);
    if (there) permissions = status.st_mode & kPermissions;
    folder = std::filesystem::path(path).parent_path().string();
  }

  std::string path, folder;
  bool there = false, regular = false;
  mode_t permissions = 0666;  // those of a new file
};

}  // namespace

SharedLibrary::SharedLibrary(const std::string& path)
    : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* reason = ::dlerror();
  error_ = reason != nullptr ? reason : "unknown reason";
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
}

void keep_loaded_libraries() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/') {
          static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &names);
  for (const std::string& name : names)
    ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void* loaded_symbol(const char* name) { return ::dlsym(RTLD_DEFAULT, name); }

std::vector<std::string> vulkan_loader_names() { return {"libvulkan.so.1"}; }

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::vector<std::string> environment_names(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with(prefix) && equals != text.npos && equals + 1 < text.size())
      names.emplace_back(text.substr(0, equals));
  }
  std::ranges::sort(names);
  return names;
}

bool has_avx2() { return instructions() >= 1; }
bool has_avx512() { return instructions() >= 2; }

void set_environment(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

bool limit_file_size(std::uint64_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);  // otherwise the signal ends the process
  const rlimit limit{bytes, bytes};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

std::string executable_folder() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path().string();
}

std::uint64_t heap_bytes() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd + mapped_bytes.load();
#else
  return 0;
#endif
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kLargest = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kLargest);  // larger pieces are mapped, and unmapped when freed
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

void* map_pages(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes);
  if (!has_large_pages()) {
    // The allocator keeps freed memory; clearing it again costs less than faults of small pages.
    void* const memory = std::aligned_alloc(kLargePage, size);
    if (memory == nullptr) throw std::bad_alloc();
    return std::memset(memory, 0, size);
  }
  // mmap() aligns to small pages only, so the parts before and after the large ones are returned.
  void* const mapped = ::mmap(nullptr, size + kLargePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      (kLargePage - reinterpret_cast<std::uintptr_t>(begin) % kLargePage) % kLargePage;
  if (before > 0) ::munmap(begin, before);
  if (before < kLargePage) ::munmap(begin + before + size, kLargePage - before);
#ifdef MADV_HUGEPAGE
  ::madvise(begin + before, size, MADV_HUGEPAGE);  // a hint; small pages work too
#endif
  mapped_bytes += size;
  return begin + before;
}

void unmap_pages(void* pages, std::size_t bytes) noexcept {
  if (!has_large_pages()) return std::free(pages);
  ::munmap(pages, whole_pages(bytes));
  mapped_bytes -= whole_pages(bytes);
}

void at_exit(void (*handler)(int status)) {
  ::on_exit([](int status, void* call) { reinterpret_cast<void (*)(int)>(call)(status); },
            reinterpret_cast<void*>(handler));
}

void end_process(int status) {
  std::fflush(nullptr);
  ::_exit(status);
}

void remember_loaded_objects() {
  [[maybe_unused]] static const int kFound = ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        for (int k = 0; k < info->dlpi_phnum; ++k) {
          if (info->dlpi_phdr[k].p_type != PT_DYNAMIC) continue;
          const auto* dynamic =
              at_address<const ElfW(Dyn)>(info->dlpi_addr + info->dlpi_phdr[k].p_vaddr);
          static_cast<std::vector<LoadedObject>*>(out)->push_back({info->dlpi_addr, dynamic});
        }
        return 0;
      },
      &remembered_objects());
}

void end_process_without_later_libraries(int status) {
  for (const LoadedObject& object : remembered_objects()) finish_object(object);
  end_process(status);
}

bool after_fork(void (*handler)()) {
  ::pthread_atfork(nullptr, nullptr, handler);
  return true;
}

std::uint64_t process_id() { return static_cast<std::uint64_t>(::getpid()); }

std::uint64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || size <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size);
}

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return 1024 * kilobytes;
  }
  return 0;
}

bool has_address_space(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  void* const piece =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (piece == MAP_FAILED) return false;
  ::munmap(piece, bytes);
  return true;
}

std::string formatted_list(const char* format, std::va_list arguments) {
  static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const locale_t before = ::uselocale(kPlain);
  std::va_list again;
  va_copy(again, arguments);
  std::string out(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  ::uselocale(before);
  return out;
}

std::string formatted(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::string out = formatted_list(format, arguments);
  va_end(arguments);
  return out;
}

EndableWork::EndableWork() { ++endable_works; }
EndableWork::~EndableWork() { --endable_works; }
bool EndableWork::should_end() { return end_requested && endable_works > 0; }
void request_end(bool wanted) { end_requested = wanted; }

int thread_count() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return error ? 0 : static_cast<int>(std::distance(begin(threads), end(threads)));
}

std::size_t open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // One entry is the descriptor of the folder itself.
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files))) - 1;
}

std::uint64_t resident_bytes() {
  const File file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!file.ok() || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  const char* const second = std::strchr(text, ' ');  // pages: all, resident, ...
  const std::uint64_t pages = second == nullptr ? 0 : std::strtoull(second, nullptr, 10);
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

ChildEnd run_child(const std::function<void(const std::function<void(const std::string&)>&)>& work,
                   const std::function<void(const std::string&)>& hear, double silent_seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const File in(ends[0]);
  pid_t child = -1;
  {
    const File out(ends[1]);
    std::fflush(nullptr);  // otherwise both processes write the buffered output
    child = ::fork();
    if (child == 0) be_child(work, out.get());
  }
  if (child < 0) return {};
  ChildEnd end{.started = true};
  try {
    end.silent = !listen(in.get(), hear, silent_seconds);
  } catch (...) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    throw;
  }
  if (end.silent) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
  return end;
}

std::optional<std::string> cache_home() {
  // The XDG specification says that relative paths are to be ignored.
  if (auto path = environment("XDG_CACHE_HOME"); path && path->front() == '/') return path;
  if (auto path = environment("HOME"); path && path->front() == '/') return *path + "/.cache";
  return std::nullopt;
}

std::string private_folder(const std::string& path) {
  if (!make_folders(path)) return "cannot make folder " + path + ": " + std::strerror(errno);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return "cannot look at folder " + path + ": " + std::strerror(errno);
  }
  if (!S_ISDIR(status.st_mode)) return path + " is not a folder";
  if (status.st_uid != ::geteuid()) return "folder " + path + " belongs to another user";
  if ((status.st_mode & S_IWOTH) != 0) return "folder " + path + " is writable by everybody";
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return "folder " + path + " is not writable: " + std::strerror(errno);
  }
  return {};
}

std::optional<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t max_bytes) {
  // Opening a pipe would wait for its writer.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file.ok() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes) return std::nullopt;
  std::vector<std::byte> bytes(size);
  if (!read_all(file.get(), bytes)) return std::nullopt;
  return bytes;
}

bool replace_file(const std::string& path, std::span<const std::byte> bytes) {
  return replace_with(path, bytes, 0600, false);
}

bool write_output_file(const std::string& path, std::span<const std::byte> bytes) {
  const Target target(path);
  if (target.there && (!target.regular || ::access(target.folder.c_str(), W_OK | X_OK) != 0)) {
    const File file(::open(target.path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    return file.ok() && write_all(file.get(), bytes);
  }
  return replace_with(target.path, bytes, target.permissions, target.there);
}

std::string output_identity(const std::string& path) {
  struct stat status {};
  const int found = path == "-" ? ::fstat(STDOUT_FILENO, &status) : ::stat(path.c_str(), &status);
  if (found != 0) return followed(path);
  if (S_ISCHR(status.st_mode)) return path == "-" ? path : "";
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

bool is_terminal_output() { return ::isatty(STDOUT_FILENO) != 0; }

bool can_write_output(const std::string& path) {
  const auto may = [](const std::string& name, int rights) {
    return ::faccessat(AT_FDCWD, name.c_str(), rights, AT_EACCESS) == 0;
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return !S_ISDIR(status.st_mode) && may(path, W_OK);
  if (errno != ENOENT || path.ends_with('/')) return false;
  return may(Target(path).folder, W_OK | X_OK);
}

std::string write_durable_file(const std::string& path, std::span<const std::byte> bytes) {
  const Target target(path);
  if (target.there && !target.regular) return "it is not a regular file";
  if (!replace_with(target.path, bytes, target.permissions, target.there, true))
    return std::strerror(errno);
  // The name, too. Not every file system can do it.
  const File opened(::open(target.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.ok() && ::fsync(opened.get()) != 0) {
    // The file itself is there.
  }
  return {};
}

}  // namespace topograd::platform
