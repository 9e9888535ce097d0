// Values that last while what they were derived from stays the same.
#pragma once

#include <vector>

namespace topograd::runtime::vulkan {

/// A source of derived values, which are dropped when it changes. Outlives them.
class Source {
 public:
  Source() = default;
  /// A part of `whole`: changes with it, too.
  explicit Source(Source& whole) { whole.parts_.push_back(this); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void changed() {
    for (Source* part : parts_) part->changed();
    for (Value* value : values_) value->drop();
  }

 private:
  template <class T>
  friend class Derived;
  struct Value {
    virtual void drop() = 0;

   protected:
    ~Value() = default;
  };

  std::vector<Source*> parts_;
  std::vector<Value*> values_;
};

/// A T() from when `source` has changed until somebody fills it again.
template <class T>
class Derived final : private Source::Value {
 public:
  explicit Derived(Source& source) : source_(source) { source_.values_.push_back(this); }
  ~Derived() { std::erase(source_.values_, static_cast<Source::Value*>(this)); }
  Derived(const Derived&) = delete;
  Derived& operator=(const Derived&) = delete;

  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  void drop() override { value_ = T(); }

  Source& source_;
  T value_{};
};

}  // namespace topograd::runtime::vulkan
