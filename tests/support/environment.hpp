// An environment variable that has a value for a scope.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

#include <topograd/ir/platform.hpp>

namespace topograd::test {

class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value)
      : name_(name), before_(platform::environment(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    // To the Vulkan loader an empty variable is not an absent one.
    before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace topograd::test
