// A subset of glog for machines without it: messages to the standard error.
#pragma once

#if !defined(GLOG_LOGGING_H) && !defined(_LOGGING_H_)  // glog itself, new and old

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <ostream>
#include <sstream>
#include <string>

namespace google {

enum LogSeverity { INFO = 0, WARNING = 1, ERROR = 2, FATAL = 3 };
inline constexpr int GLOG_INFO = INFO, GLOG_WARNING = WARNING, GLOG_ERROR = ERROR,
                     GLOG_FATAL = FATAL;

inline void InitGoogleLogging(const char*) {}
inline void ShutdownGoogleLogging() {}
inline void InstallFailureSignalHandler() {}

/// Collects one message and prints it when it is destroyed; a FATAL message ends the program.
class LogMessage {
 public:
  LogMessage(const char* file, int line, LogSeverity severity) : severity_(severity) {
    text_ << "IWEF"[severity] << " " << file << ":" << line << "] ";
  }
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage() {
    std::cerr << text_.str() << std::endl;
    if (severity_ == FATAL) std::abort();
  }
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
  LogSeverity severity_;
};

/// Converts both sides of a conditional expression to void.
struct LogMessageVoidify {
  void operator&(const std::ostream&) const {}
};

/// The highest level that VLOG prints: the environment variable GLOG_v, or 0.
inline int VerboseLevel() {
  static const int level = [] {
    const char* text = std::getenv("GLOG_v");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return level;
}

template <class T>
T CheckNotNull(const char* file, int line, const char* names, T&& pointer) {
  if (pointer == nullptr) LogMessage(file, line, FATAL).stream() << names;
  return static_cast<T&&>(pointer);
}

}  // namespace google

#define TG_LOG_MESSAGE(severity) \
  ::google::LogMessage(__FILE__, __LINE__, ::google::severity).stream()
#define LOG(severity) TG_LOG_MESSAGE(severity)
#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::google::LogMessageVoidify() & TG_LOG_MESSAGE(severity)
#define VLOG_IS_ON(level) ((level) <= ::google::VerboseLevel())
#define VLOG(level) LOG_IF(INFO, VLOG_IS_ON(level))
#define VLOG_IF(level, condition) LOG_IF(INFO, (condition) && VLOG_IS_ON(level))

#define CHECK(condition) LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "
#define TG_CHECK_OP(a, b, op)                                                                    \
  LOG_IF(FATAL, !((a)op(b))) << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) \
                             << ") "
#define CHECK_EQ(a, b) TG_CHECK_OP(a, b, ==)
#define CHECK_NE(a, b) TG_CHECK_OP(a, b, !=)
#define CHECK_LT(a, b) TG_CHECK_OP(a, b, <)
#define CHECK_LE(a, b) TG_CHECK_OP(a, b, <=)
#define CHECK_GT(a, b) TG_CHECK_OP(a, b, >)
#define CHECK_GE(a, b) TG_CHECK_OP(a, b, >=)
#define CHECK_NEAR(a, b, margin) CHECK(std::abs((a) - (b)) <= (margin))
#define CHECK_DOUBLE_EQ(a, b) CHECK_NEAR(a, b, 1e-15)
#define CHECK_NOTNULL(pointer) \
  ::google::CheckNotNull(__FILE__, __LINE__, "'" #pointer "' Must be non NULL", (pointer))

#ifdef NDEBUG
#define TG_DCHECK(check) \
  while (false) check
#else
#define TG_DCHECK(check) check
#endif
#define DLOG(severity) TG_DCHECK(LOG(severity))
#define DCHECK(condition) TG_DCHECK(CHECK(condition))
#define DCHECK_EQ(a, b) TG_DCHECK(CHECK_EQ(a, b))
#define DCHECK_NE(a, b) TG_DCHECK(CHECK_NE(a, b))
#define DCHECK_LT(a, b) TG_DCHECK(CHECK_LT(a, b))
#define DCHECK_LE(a, b) TG_DCHECK(CHECK_LE(a, b))
#define DCHECK_GT(a, b) TG_DCHECK(CHECK_GT(a, b))
#define DCHECK_GE(a, b) TG_DCHECK(CHECK_GE(a, b))

#endif
