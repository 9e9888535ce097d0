// Named values that move between objects and a byte string.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ir {

template <class T>
concept StateValue = std::is_arithmetic_v<T>;

/// Lists with a number for each unknown, in an object that has a part of the unknowns.
class PartOfLists {
 public:
  virtual ~PartOfLists() = default;
  /// Unknowns of the whole.
  virtual std::size_t size() const = 0;
  /// The numbers of all unknowns, from those that each part owns.
  virtual void widen(std::span<const double> here, std::span<double> whole) = 0;
  /// The numbers of the part's unknowns.
  virtual void narrow(std::span<const double> whole, std::span<double> here) = 0;
};

/// Saves or restores the state of objects. An object has one function that names its values in
/// turn; the same function writes them to a record and reads them from it.
///
///   void TrustRegion::transfer(ir::StateRecord& record) {
///     record.value("radius", radius_);
///
/// Names, types and counts are part of the bytes. Restoring from bytes that another sequence of
/// calls has written throws Error{Parse}, which names the value; so does a value that is out of its
/// range. Nothing is allocated before its bytes are known to be there.
class StateRecord {
 public:
  /// Saves: values are appended.
  StateRecord() = default;
  /// Restores the values of these bytes.
  explicit StateRecord(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), restores_(true) {}

  bool restores() const { return restores_; }

  template <StateValue T>
  void value(std::string_view name, T& value) {
    numbers(name, kind_of<T>(), sizeof(T), 1, &value);
  }
  void value(std::string_view name, bool& value);
  template <class E>
  requires std::is_enum_v<E>
  void value(std::string_view name, E& value, E last) {
    int number = static_cast<int>(value);
    in_range(name, number, 0, static_cast<int>(last));
    value = static_cast<E>(number);
  }
  /// A number in [least, most].
  template <StateValue T>
  void in_range(std::string_view name, T& number, std::type_identity_t<T> least,
                std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
    value(name, number);
    if (!(number >= least && number <= most)) refuse(name, "is out of its range");
  }
  void text(std::string_view name, std::string& text);
  /// A list of any length.
  template <class T>
  void list(std::string_view name, std::vector<T>& values) {
    static_assert(StateValue<T> && !std::is_same_v<T, bool>);
    const std::size_t count = begin(name, kind_of<T>(), sizeof(T), values.size());
    if (restores_) values.resize(count);
    move(values.data(), count * sizeof(T));
  }
  /// A list whose length is known.
  template <class T>
  void list(std::string_view name, std::span<T> values) {
    numbers(name, kind_of<T>(), sizeof(T), values.size(), values.data());
  }
  /// A number for each unknown, of the whole if objects have a part.
  template <class T>
  void by_unknown(std::string_view name, std::span<T> values) {
    if (part_ == nullptr) return list(name, values);
    std::vector<double> here(values.begin(), values.end()), whole(part_->size());
    if (!restores_) part_->widen(here, whole);
    std::vector<T> numbers(whole.begin(), whole.end());
    list(name, std::span<T>(numbers));
    if (!restores_) return;
    whole.assign(numbers.begin(), numbers.end());
    part_->narrow(whole, here);
    for (std::size_t k = 0; k < here.size(); ++k) values[k] = static_cast<T>(here[k]);
  }
  /// From now on, objects have a part of the unknowns; null: all. `part` outlives the transfers.
  void set_part(PartOfLists* part) { part_ = part; }

  /// Throws Error{Parse} if values have not been read.
  void require_end() const;
  /// Throws Error{Parse}: the value is refused.
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const;
  /// Appends the values of another record that saves.
  void append(const StateRecord& more);
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class T>
  static constexpr char kind_of() {
    return std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
  }
  /// The head of a list. Returns the count, that of the bytes when it restores.
  std::size_t begin(std::string_view name, char kind, std::size_t size, std::size_t count);
  void numbers(std::string_view name, char kind, std::size_t size, std::size_t count, void* at);
  void move(void* at, std::size_t bytes);
  void take(void* to, std::size_t bytes, std::string_view name);

  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
  bool restores_ = false;
  PartOfLists* part_ = nullptr;
};

}  // namespace topograd::ir
