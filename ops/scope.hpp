// The header for scopes that redirect or record the operations of a thread.
#pragma once

#include "run/run.hpp"
