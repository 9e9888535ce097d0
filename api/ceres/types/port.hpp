// Macros that programs for Ceres use.
#pragma once

#include "../../../ir/language.hpp"

#define CERES_EXPORT
#define CERES_NO_EXPORT
#define CERES_DEPRECATED_WITH_MSG(message) [[deprecated(message)]]
/// Placed between a name and its arguments, prevents the expansion of a macro of that name.
#define CERES_PREVENT_MACRO_SUBSTITUTION
// Around uses of deprecated names.
#define CERES_DISABLE_DEPRECATED_WARNING \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
#define CERES_RESTORE_DEPRECATED_WARNING _Pragma("GCC diagnostic pop")
/// The value of a command-line flag of gflags.
#ifndef CERES_GET_FLAG
#define CERES_GET_FLAG(X) X
#endif
