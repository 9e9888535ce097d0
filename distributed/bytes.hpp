// Internal: numbers and texts as bytes of messages between ranks of one kind of machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

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

}  // namespace topograd::distributed
