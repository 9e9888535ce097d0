// Checks of numeric options, with a message for the first failure.
#pragma once

#include <locale>
#include <sstream>
#include <string>
#include <utility>

namespace ceres::internal {

class Checks {
 public:
  /// `owner` names the options in messages: "Solver::Options".
  explicit Checks(std::string owner) : owner_(std::move(owner)) {}

  template <class Number>
  void AtLeast(const char* name, Number value, Number least) {
    if (!(value >= least)) Complain(name, ">=", value, least);
  }
  template <class Number>
  void Above(const char* name, Number value, Number bound) {
    if (!(value > bound)) Complain(name, ">", value, bound);
  }
  /// Checks that two options are in order.
  template <class Number>
  void Ordered(const char* low_name, Number low, const char* high_name, Number high) {
    if (!(low <= high)) Complain(low_name, "<=", low, owner_ + "::" + high_name);
  }
  /// True if all checks passed; otherwise `error`, unless nullptr, receives the first message.
  bool Passed(std::string* error) const {
    if (text_.empty()) return true;
    if (error != nullptr) *error = text_;
    return false;
  }

 private:
  template <class Number, class Bound>
  void Complain(const char* name, const char* relation, Number value, const Bound& bound) {
    if (!text_.empty()) return;
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out << "Invalid configuration. " << owner_ << "::" << name << " = " << value
        << ". Violated constraint: " << owner_ << "::" << name << " " << relation << " " << bound;
    text_ = out.str();
  }

  std::string owner_, text_;
};

}  // namespace ceres::internal
