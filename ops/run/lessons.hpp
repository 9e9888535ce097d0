// Internal: runs from which the executor learns nothing, because later ones will not be like them.
#pragma once

namespace topograd::ops {

/// While one lives, what this thread runs is not remembered: on fewer threads, say, than usual.
class WithoutLessons {
 public:
  WithoutLessons() { ++living_; }
  ~WithoutLessons() { --living_; }
  WithoutLessons(const WithoutLessons&) = delete;
  WithoutLessons& operator=(const WithoutLessons&) = delete;

  static bool any() { return living_ > 0; }

 private:
  inline static thread_local int living_ = 0;
};

}  // namespace topograd::ops
