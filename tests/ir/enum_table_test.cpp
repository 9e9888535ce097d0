// Names of enumerators, as each compiler writes them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../ir/enum_table.hpp"

namespace topograd::test {
namespace {

enum class Hidden { One, TwoWords, ABC };
TG_ENUM_NAMES(Hidden)

struct Outer {
  enum class Kind { only };
};
TG_ENUM_NAMES(Outer::Kind)

TEST(EnumTable, NamesAreTheEnumeratorsInSnakeCase) {
  EXPECT_EQ(names_of<Hidden>(), (std::vector<std::string>{"one", "two_words", "ABC"}));
  EXPECT_EQ(names_of<Outer::Kind>(), std::vector<std::string>{"only"});
  static_assert(name(Hidden::TwoWords) == "two_words" && kCountOf<Hidden> == 3);
  EXPECT_EQ(std::char_traits<char>::length(name(Outer::Kind::only).data()), 4U);
}

}  // namespace
}  // namespace topograd::test
