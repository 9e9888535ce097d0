// A subset of gflags for machines without it: command-line flags of programs for Ceres.
#pragma once

#ifndef GFLAGS_GFLAGS_H_  // gflags itself, which glog includes

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>

#define GFLAGS_NAMESPACE gflags

namespace gflags {

struct Flag {
  bool is_bool;
  std::string help;
  std::function<bool(const std::string&)> set;  ///< returns false for invalid text
};

/// All flags of the program by name.
inline std::map<std::string, Flag>& Flags() {
  static auto& flags = *new std::map<std::string, Flag>;
  return flags;
}

template <class T>
bool ParseFlag(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    value = text == "true" || text == "1" || text == "yes";
    return value || text == "false" || text == "0" || text == "no";
  } else {
    std::istringstream in(text);
    T parsed;
    if (!(in >> parsed) || !in.eof()) return false;
    value = parsed;
    return true;
  }
}

template <class T>
struct FlagRegistration {
  FlagRegistration(const char* name, const char* help, T& value) {
    Flags()[name] = {std::is_same_v<T, bool>, help,
                     [&value](const std::string& text) { return ParseFlag(text, value); }};
  }
};

inline std::string& UsageMessage() {
  static auto& usage = *new std::string;
  return usage;
}
inline void SetUsageMessage(const std::string& usage) { UsageMessage() = usage; }

[[noreturn]] inline void RefuseFlag(const std::string& text) {
  std::cerr << "ERROR: " << text << "\n" << UsageMessage() << "\n";
  for (const auto& [name, flag] : Flags()) std::cerr << "  --" << name << "  " << flag.help << "\n";
  std::exit(1);
}

/// Sets flags from --name=value, --name value, --name and --noname; an unknown flag ends the
/// program. With `remove_flags` the other arguments remain, in their order. Returns the index of
/// the first of them.
inline int ParseCommandLineFlags(int* argc, char*** argv, bool remove_flags) {
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    std::string name = (*argv)[i];
    if (name == "--" || name.size() < 2 || name[0] != '-') {
      (*argv)[kept++] = (*argv)[i];
      continue;
    }
    name.erase(0, name[1] == '-' ? 2 : 1);
    std::string value = "true";
    const std::size_t equals = name.find('=');
    if (equals != name.npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    auto flag = Flags().find(name);
    if (flag == Flags().end() && name.rfind("no", 0) == 0 && equals == name.npos) {
      flag = Flags().find(name.substr(2));
      value = "false";
    }
    if (flag == Flags().end()) RefuseFlag("unknown command line flag '" + name + "'");
    if (equals == name.npos && !flag->second.is_bool) {
      if (++i >= *argc) RefuseFlag("flag '--" + name + "' is missing its argument");
      value = (*argv)[i];
    }
    if (!flag->second.set(value))
      RefuseFlag("illegal value '" + value + "' for flag '" + name + "'");
  }
  if (remove_flags) *argc = kept;
  return 1;
}

}  // namespace gflags

namespace google {
using gflags::ParseCommandLineFlags;
using gflags::SetUsageMessage;
}  // namespace google

#define TG_DEFINE_FLAG(type, name, value, help)                                             \
  namespace gflags_of_program {                                                             \
  type FLAGS_##name = value;                                                                \
  const ::gflags::FlagRegistration<type> registration_of_##name(#name, help, FLAGS_##name); \
  }                                                                                         \
  using gflags_of_program::FLAGS_##name
#define DEFINE_bool(name, value, help) TG_DEFINE_FLAG(bool, name, value, help)
#define DEFINE_int32(name, value, help) TG_DEFINE_FLAG(std::int32_t, name, value, help)
#define DEFINE_int64(name, value, help) TG_DEFINE_FLAG(std::int64_t, name, value, help)
#define DEFINE_uint64(name, value, help) TG_DEFINE_FLAG(std::uint64_t, name, value, help)
#define DEFINE_double(name, value, help) TG_DEFINE_FLAG(double, name, value, help)
#define DEFINE_string(name, value, help) TG_DEFINE_FLAG(std::string, name, value, help)

#endif
