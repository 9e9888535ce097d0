// Sets or removes an environment variable for a scope.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

#include "../../ir/machine/platform.hpp"

namespace topograd::test {

class ScopedEnvironment {
 public:
  /// Without a value it is absent; the Vulkan loader treats an empty variable differently.
  ScopedEnvironment(const char* name, const std::optional<std::string>& value)
      : name_(name), before_(platform::environment(name)) {
    set(value);
  }
  ~ScopedEnvironment() { set(before_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace topograd::test
