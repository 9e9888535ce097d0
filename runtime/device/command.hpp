// Command lists: recorded once, submitted any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel.hpp"
#include "memory.hpp"

namespace topograd::runtime::vulkan {

struct ListState;
class DeclaredKernels;

/// A range of a buffer for one binding of a kernel.
struct Binding {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;  ///< bytes, a multiple of Limits::storage_buffer_offset_alignment
  std::uint64_t size = 0;    ///< bytes; 0 means up to the end of the buffer
};

/// Workgroups of a dispatch.
struct Groups {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

/// Time at which all commands recorded before the label had finished.
struct Timestamp {
  std::string label;
  double microseconds = 0;  ///< since the list's first timestamp
};

/// A sequence of dispatches, copies and barriers. Made by Device::command_list; the first
/// submission ends recording. One thread at a time. Keeps the objects it uses alive.
///
/// Submissions of one device run in order: everything that earlier submissions wrote is visible to
/// the first command, and everything written is visible to the host after Submission::wait. Inside
/// a list only barrier() orders commands.
///
/// A list that declares is no list of a device: whoever records to it adds the kernels that it
/// would run, and nothing else. Its commands do nothing, and buffers may be null.
class CommandList {
 public:
  CommandList() = default;
  /// A list that declares. `kernels` outlives it.
  explicit CommandList(DeclaredKernels& kernels) : declared_(&kernels) {}
  CommandList(std::shared_ptr<Core> core, std::shared_ptr<ListState> state);
  CommandList(CommandList&&) noexcept = default;
  CommandList& operator=(CommandList&& other) noexcept;
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;
  ~CommandList();

  /// Runs a kernel.
  ///
  ///   bindings  one per storage buffer of the kernel, in order of binding
  ///   push      exactly the kernel's push_constant_bytes
  ///   groups    workgroups, 1 <= x, y, z <= Limits::max_workgroups_*
  ///
  /// Throws Error{InvalidArgument} if a count, alignment or range does not fit; the message names
  /// the kernel and binding.
  void dispatch(const Kernel& kernel, std::span<const Binding> bindings,
                std::span<const std::byte> push, Groups groups);
  void dispatch(const Kernel& kernel, std::span<const Binding> bindings,
                std::span<const std::byte> push, std::uint32_t groups_x, std::uint32_t groups_y = 1,
                std::uint32_t groups_z = 1) {
    dispatch(kernel, bindings, push, Groups{groups_x, groups_y, groups_z});
  }

  /// Like dispatch(), with the three uint32 group counts read from `counts` at `offset` (bytes, a
  /// multiple of 4) when the command runs. Counts over the limits are undefined behaviour. Starts
  /// with a barrier.
  void dispatch_indirect(const Kernel& kernel, std::span<const Binding> bindings,
                         std::span<const std::byte> push, const Buffer& counts,
                         std::uint64_t offset);

  /// Starts conditional dispatches, with a barrier. Dispatches up to close_conditional() read their
  /// workgroups from `counts` when they run, three uint32 each in order; 0 skips a dispatch. Only
  /// dispatches and barriers may be recorded in between. Without `counts` nothing is recorded, but
  /// the workgroups are noted.
  void open_conditional(const Buffer* counts);
  /// Ends them and returns the workgroups with which they were recorded.
  std::vector<Groups> close_conditional();
  bool in_conditional() const;

  /// Orders all earlier dispatches, copies and fills, and their memory, before all later ones.
  void barrier();

  /// Copies `size` bytes; the ranges must not overlap.
  void copy(const Buffer& source, std::uint64_t source_offset, const Buffer& target,
            std::uint64_t target_offset, std::uint64_t size);

  /// Writes `value` into each 32-bit word of a range; offset and size (bytes) are multiples of 4.
  void fill(const Buffer& target, std::uint64_t offset, std::uint64_t size, std::uint32_t value);

  /// Records a timestamp; no effect on devices without them (Features::timestamps).
  void write_timestamp(std::string_view label);

  /// Marks a group of commands for profilers and validation messages.
  void begin_label(std::string_view label);
  void end_label();

  /// True if the list was made by a thread with a Profile, on a device with timestamps: it takes
  /// the time of each of its commands.
  bool takes_times() const;
  /// Says what a profile calls the next dispatch, instead of the kernel's name, and how many bytes
  /// it moves; no effect on lists that take no times.
  void name_next(std::string_view name, std::string_view topology, std::uint64_t bytes);

  /// Where kernels of a list that declares are added; null: it records.
  DeclaredKernels* declared() const { return declared_; }

  /// Dispatches recorded so far.
  std::uint64_t dispatches() const;

  /// The timestamps of the latest submission, in order of recording; waits for it (bounded).
  /// Empty if there are none or nothing was submitted.
  std::vector<Timestamp> timestamps() const;

  explicit operator bool() const { return state_ != nullptr; }
  const std::shared_ptr<ListState>& state() const { return state_; }

 private:
  std::shared_ptr<Core> core_;
  std::shared_ptr<ListState> state_;
  DeclaredKernels* declared_ = nullptr;
  bool declares_conditional_ = false;  // between open_conditional() and close_conditional()
};

/// Push constants from a trivially copyable struct.
template <class T>
std::span<const std::byte> push_bytes(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

}  // namespace topograd::runtime::vulkan
