// The losses and labels of a problem's residuals: each different one is stored once.
#include "loss_table.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "../../ir/error.hpp"

namespace topograd::detail {
namespace {

std::uint64_t hash_of(std::uint32_t program, std::span<const double> uniforms) {
  std::uint64_t hash = program;
  for (const double u : uniforms) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(u)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// Number of an equal program, + 1; the program is added if there is none.
std::uint32_t program_number(std::deque<ir::Program>& programs, const ir::Program& program) {
  const auto known = std::find(programs.begin(), programs.end(), program);
  const auto number = static_cast<std::uint32_t>(known - programs.begin());
  if (known == programs.end()) programs.push_back(program);
  return number + 1;
}

}  // namespace

std::uint32_t Labels::number(std::string_view text) {
  if (text.empty()) return 0;
  if (texts_[last_] == text) return last_;  // loops repeat their label
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return last_ = known->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return last_ = number;
}

std::uint32_t LossTable::entry(const char* call, const Loss& loss, std::vector<double>& uniforms,
                               bool built_in) {
  if (loss.is_trivial() && !built_in) return kTrivialLoss;
  if (last_ != kTrivialLoss && entries_[last_].loss == loss) return last_;
  if (loss.is_host())
    throw Error(ErrorCode::Unsupported,
                std::string(call) + ": the loss " + loss.describe() +
                    " is opaque code; only host residuals can have it, write it with Loss::custom");
  const std::vector<double> numbers = loss.uniforms();
  const std::uint32_t program = program_number(programs_, *loss.program());
  const std::uint64_t hash = hash_of(program, numbers);
  const auto [first, beyond] = by_hash_.equal_range(hash);
  for (auto at = first; at != beyond; ++at)
    if (entries_[at->second].program == program && entries_[at->second].loss == loss)
      return last_ = at->second;
  last_ = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({loss, program, static_cast<std::uint32_t>(uniforms.size()), 0});
  by_hash_.emplace(hash, last_);
  uniforms.insert(uniforms.end(), numbers.begin(), numbers.end());
  return last_;
}

void LossTable::replace(std::uint32_t number, const Loss& loss, std::vector<double>& uniforms) {
  LossEntry& entry = entries_[number];
  const std::vector<double> numbers = loss.uniforms();
  const std::uint64_t hash =
      hash_of(entry.program, std::span(uniforms).subspan(entry.first_uniform, numbers.size()));
  std::erase_if(by_hash_,
                [&](const auto& item) { return item.first == hash && item.second == number; });
  std::ranges::copy(numbers, uniforms.begin() + entry.first_uniform);
  by_hash_.emplace(hash_of(entry.program, numbers), number);
  entry.loss = loss;
}

void LossTable::add_users(std::uint32_t entry, std::uint64_t count) {
  if (entry != kTrivialLoss) entries_[entry].users += count;
}

void LossTable::remove_user(std::uint32_t entry) {
  if (entry != kTrivialLoss) --entries_[entry].users;
}

std::uint32_t LossTable::at_uniform(std::uint32_t uniform) const {
  const auto after = std::upper_bound(
      entries_.begin() + 1, entries_.end(), uniform,
      [](std::uint32_t u, const LossEntry& entry) { return u < entry.first_uniform; });
  return static_cast<std::uint32_t>(after - entries_.begin()) - 1;
}

std::uint32_t LossTable::uniform_count(std::uint32_t program) const {
  return program == 0 ? 0 : programs_[program - 1].leaves.uniforms;
}

}  // namespace topograd::detail
