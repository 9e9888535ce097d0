// Values of a record as bytes: a head with name, type and count, then the numbers in little endian.
#include "state_record.hpp"

#include "../error.hpp"

#include <algorithm>
#include <bit>

namespace topograd::ir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kLongestName = 255;

}  // namespace

void StateRecord::refuse(std::string_view name, std::string_view why) const {
  throw Error(ErrorCode::Parse,
              "the value \"" + std::string(name) + "\" of the state " + std::string(why));
}

void StateRecord::take(void* to, std::size_t bytes, std::string_view name) {
  if (bytes > bytes_.size() - at_) refuse(name, "is cut off");
  if (bytes > 0) std::memcpy(to, bytes_.data() + at_, bytes);
  at_ += bytes;
}

void StateRecord::move(void* at, std::size_t bytes) {
  if (bytes == 0) return;
  if (restores_) return take(at, bytes, "numbers");
  const auto* const first = static_cast<const std::byte*>(at);
  bytes_.insert(bytes_.end(), first, first + bytes);
}

std::size_t StateRecord::begin(std::string_view name, char kind, std::size_t size,
                               std::size_t count) {
  std::string head;
  head += static_cast<char>(std::min(name.size(), kLongestName));
  head += name.substr(0, kLongestName);
  head += kind;
  head += static_cast<char>(size);
  std::uint64_t stored = count;
  if (!restores_) {
    move(head.data(), head.size());
    move(&stored, sizeof stored);
    return count;
  }
  std::string found(head.size(), '\0');
  take(found.data(), found.size(), name);
  if (found != head) refuse(name, "is not where it is expected");
  take(&stored, sizeof stored, name);
  if (stored > (bytes_.size() - at_) / size) refuse(name, "is cut off");
  return static_cast<std::size_t>(stored);
}

void StateRecord::numbers(std::string_view name, char kind, std::size_t size, std::size_t count,
                          void* at) {
  if (begin(name, kind, size, count) != count) refuse(name, "has another length");
  move(at, count * size);
}

void StateRecord::value(std::string_view name, bool& value) {
  std::uint8_t byte = value ? 1 : 0;
  numbers(name, 'b', 1, 1, &byte);
  if (byte > 1) refuse(name, "is neither true nor false");
  value = byte != 0;
}

void StateRecord::text(std::string_view name, std::string& text) {
  const std::size_t count = begin(name, 't', 1, text.size());
  if (restores_) text.resize(count);
  move(text.data(), count);
}

void StateRecord::require_end() const {
  if (at_ != bytes_.size())
    throw Error(ErrorCode::Parse, "the state has " + std::to_string(bytes_.size() - at_) +
                                      " bytes that nothing reads");
}

void StateRecord::append(const StateRecord& more) {
  bytes_.insert(bytes_.end(), more.bytes_.begin(), more.bytes_.end());
}

}  // namespace topograd::ir
