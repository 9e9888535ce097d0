// The header for scopes of a thread: operations run elsewhere, or are recorded.
#pragma once

#include "run/scope.hpp"
