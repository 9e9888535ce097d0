// Columns that change, on the interpreter.
#include "column_checks.hpp"

namespace topograd::test {
namespace {

TEST(Columns, FollowTheirNumbers) { check_changing_columns({.backend = Backend::cpu}); }

}  // namespace
}  // namespace topograd::test
