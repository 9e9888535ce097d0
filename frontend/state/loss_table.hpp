// The losses and labels of a problem's residuals: each different one is stored once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../loss.hpp"

namespace topograd::detail {

/// The labels of a problem's blocks. Number 0 is the empty text.
class Labels {
 public:
  /// The number of an equal text, which is added if there is none.
  std::uint32_t number(std::string_view text);
  const std::string& text(std::uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_{std::string()};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;  // that was requested last
};

/// A loss of residuals, and the position of its numbers among the problem's uniforms.
struct LossEntry {
  Loss loss;
  std::uint32_t program = 0;  ///< number of its program, + 1; 0: trivial
  std::uint32_t first_uniform = 0;
  std::uint64_t users = 0;  ///< number of instances, without host blocks
};
inline constexpr std::uint32_t kTrivialLoss = 0;  ///< entry of the trivial loss

/// Entries of losses, and their programs: losses that differ in numbers alone share one.
class LossTable {
 public:
  /// The entry of an equal loss. If there is none, it is added, and its numbers become the last
  /// uniforms. Throws Error{Unsupported} for a host loss.
  ///
  ///   built_in  gives a trivial loss an entry in the program of the built-in losses
  std::uint32_t entry(const char* call, const Loss& loss, std::vector<double>& uniforms,
                      bool built_in = false);
  /// Changes an entry and its uniforms to a loss with the same program.
  void replace(std::uint32_t entry, const Loss& loss, std::vector<double>& uniforms);
  void add_users(std::uint32_t entry, std::uint64_t count = 1);
  void remove_user(std::uint32_t entry);

  /// In the order of their uniforms; the first one is trivial.
  const std::vector<LossEntry>& entries() const { return entries_; }
  const LossEntry& operator[](std::uint32_t entry) const { return entries_[entry]; }
  /// The entry whose numbers include this uniform.
  std::uint32_t at_uniform(std::uint32_t uniform) const;
  /// Null for 0.
  const ir::Program* program(std::uint32_t number) const {
    return number == 0 ? nullptr : &programs_[number - 1];
  }
  /// The number of uniforms of a program.
  std::uint32_t uniform_count(std::uint32_t program) const;

 private:
  std::deque<ir::Program> programs_;
  std::vector<LossEntry> entries_ = std::vector<LossEntry>(1);
  std::uint32_t last_ = kTrivialLoss;  // that was requested last
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

}  // namespace topograd::detail
