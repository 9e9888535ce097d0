// Internal: what ranks send each other, as bytes of messages, and files that they write together.
#pragma once

#include <mpi.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../ir/share.hpp"

namespace topograd::distributed {

template <class T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void put_text(std::string& bytes, std::string_view text) {
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
}

/// Reads what put() has written, in the same order.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string take_text() {
    const auto size = take<std::uint64_t>();
    std::string text(left_.substr(0, size));
    left_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view left_;
};

/// MPI and PETSc from its construction to its end; the first thing in main().
class Session {
 public:
  ///   options  PETSc's, "-ksp_monitor", "-pc_type", ...
  Session(int* argc, char*** argv, std::span<const std::string> options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::vector<std::string> words_;  // PETSc keeps pointers to them
  std::vector<char*> pointers_;
};

/// The ranks of a communicator. All calls are collective: every rank makes them in the same order.
class Communicator {
 public:
  /// Throws Error{InvalidArgument} if MPI does not run.
  explicit Communicator(MPI_Comm comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Ranks on this machine, to divide its cores.
  int ranks_here() const { return ranks_here_; }
  /// This rank among those, from 0 on.
  int rank_here() const { return rank_here_; }
  /// This rank's share of what the ranks divide. Not collective.
  Share share() const {
    return {static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(size_)};
  }

  /// Joins vectors of which each rank has some numbers, and 0 at all other indices: afterwards all
  /// ranks have all numbers, with their bits. No two ranks have the same number.
  void join(std::span<double> numbers) const;
  std::uint64_t sum(std::uint64_t number) const;
  /// The number of rank 0.
  int from_first(int number) const;
  /// Calls `make` on rank 0 alone, and returns its text on all ranks. An Error of it is thrown on
  /// all.
  std::string from_first(const std::function<std::string()>& make) const;
  /// True on all ranks if it is true on one.
  bool any(bool here) const;
  /// The numbers of all ranks, in their order; every rank gives as many.
  std::vector<double> gather(std::span<const double> numbers) const;
  /// The bytes of all ranks, in their order; each gives as many as it likes.
  std::vector<std::string> gather_bytes(const std::string& bytes) const;
  /// The numbers of all ranks, in their order, on rank 0; empty on the others.
  std::vector<double> gather_at_first(std::span<const double> numbers) const;
  /// Adds up lists of one length, modulo 2^64.
  void sum(std::span<std::uint64_t> numbers) const;
  /// The same over the ranks before this one.
  std::vector<std::uint64_t> sum_before(std::span<const std::uint64_t> numbers) const;
  /// Sends message r to rank r; returns those of all ranks to this one. Messages to one rank have
  /// less than 2^31 bytes in all.
  std::vector<std::string> exchange(const std::vector<std::string>& messages) const;
  /// Throws Error{InvalidArgument}, on all ranks alike, unless the text is the same on all ranks;
  /// `what` names it.
  void require_same(const std::string& what, const std::string& text) const;

  /// Prints one line that names rank and reason, and ends all ranks. The others may wait for this
  /// one, so nothing is thrown. Of several ranks that fail, the lowest prints. Not collective.
  [[noreturn]] void fail(const std::string& reason) const;
  /// Returns if all ranks call it, within a second of each other and with the same reason; fail()
  /// otherwise.
  void fail_unless_all(const std::string& reason) const;

 private:
  bool all_fail(const std::string& reason) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Comm failures_ = MPI_COMM_NULL;  // of ranks that fail: the others may be in a call on comm_
  int rank_ = 0, size_ = 1, ranks_here_ = 1, rank_here_ = 0;
};

/// Writes a file of the texts of all ranks by MPI-IO: the first text of each rank in the order of
/// the ranks, then the second ones, and so on. The bytes are written under a temporary name, which
/// replaces the file once they are on the disk, links followed. What is no regular file (a pipe, a
/// device) is written by rank 0, to which the others send their texts. Collective.
///
///   texts  as many on every rank
///
/// Returns the reason why it failed, or "", on all ranks alike; the old contents are kept then.
std::string replace_shared_file(const Communicator& ranks, const std::string& path,
                                std::span<const std::string> texts);

/// The same; throws Error{File} instead.
void write_shared_file(const Communicator& ranks, const std::string& path,
                       std::span<const std::string> texts);

}  // namespace topograd::distributed
