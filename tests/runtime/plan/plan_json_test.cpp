// Plan records as JSON: round trip, and invalid records.
#include "../../../ir/error.hpp"
#include "../../../runtime/plan/record/plan_record.hpp"

#include <gtest/gtest.h>

#include <string>

namespace topograd::runtime {
namespace {

using codegen::Accumulation;

TEST(PlanJson, ComesBackAsItWas) {
  PlanRecord plan{.device = "made-up device",
                  .precision = "f32",
                  .workgroup_size = 128,
                  .product = "recompute",
                  .batches = {}};
  plan.batches.push_back({.topology = "00112233445566778899aabbccddeeff",
                          .name = "edge",
                          .pass = "gradient",
                          .instances = 5000,
                          .accumulation = Accumulation::gather_store,
                          .by = ChosenBy::measured,
                          .candidates = {{Accumulation::gather_recompute, 12.5, 30.25},
                                         {Accumulation::gather_store, 11, 24}},
                          .entries = 9000,
                          .operations = 120000,
                          .bytes = 240000});
  plan.batches.push_back(plan.batches[0]);
  plan.batches[1].pass = "values";
  plan.batches[1].one_pass = plan.batches[1].candidates[0].one_pass = true;
  const PlanRecord back = parse_plan(to_json(plan));
  EXPECT_EQ(back.device, plan.device);
  EXPECT_EQ(back.precision, plan.precision);
  EXPECT_EQ(back.workgroup_size, 128u);
  EXPECT_EQ(back.product, plan.product);
  ASSERT_EQ(back.batches.size(), 2u);
  EXPECT_FALSE(back.batches[0].one_pass);
  EXPECT_TRUE(back.batches[1].one_pass);
  EXPECT_TRUE(back.batches[1].candidates[0].one_pass);
  EXPECT_FALSE(back.batches[1].candidates[1].one_pass);
  EXPECT_EQ(back.batches[0].topology, plan.batches[0].topology);
  EXPECT_EQ(back.batches[0].pass, "gradient");
  EXPECT_EQ(back.batches[0].instances, 5000u);
  EXPECT_EQ(back.batches[0].accumulation, Accumulation::gather_store);
  EXPECT_EQ(back.batches[0].by, ChosenBy::measured);
  ASSERT_EQ(back.batches[0].candidates.size(), 2u);
  EXPECT_EQ(back.batches[0].candidates[0].measured_us, 30.25);
  EXPECT_EQ(back.batches[0].entries, 9000u);
  EXPECT_EQ(back.batches[0].operations, 120000u);
  EXPECT_EQ(back.batches[0].bytes, 240000u);
  EXPECT_EQ(to_json(back), to_json(plan));
}

TEST(PlanJson, SaysWhatIsWrong) {
  const std::string batch = R"({"topology": "0", "pass": "gradient", "instances": 1, )";
  const struct {
    std::string text, part;
    ErrorCode code;
  } rows[] = {
      {"{", "plan: expected a plan record in JSON: ", ErrorCode::Parse},
      {"{}", "'batches' not found", ErrorCode::Parse},
      {R"({"batches": [{"pass": "gradient"}]})", "'topology' not found", ErrorCode::Parse},
      {R"({"batches": [)" + batch + R"("accumulation": 3}]})", "type must be string",
       ErrorCode::Parse},
      {R"({"workgroup_size": 1e300, "batches": []})",
       "expected a whole number from 0 as workgroup_size, got 1e+300", ErrorCode::Parse},
      {R"({"batches": [{"topology": "0", "pass": "jtjp", "instances": -1}]})",
       "expected a whole number from 0 as instances, got -1", ErrorCode::Parse},
      {std::string(300, '['), "more than 256 lists and objects inside of each other",
       ErrorCode::Parse},
      {R"({"batches": [)" + batch + R"("accumulation": "pile"}]})", "\"pile\"",
       ErrorCode::InvalidArgument},
      {R"({"batches": [)" + batch + R"("accumulation": "gather_store", "chosen_by": "dice"}]})",
       "plan: chosen_by: expected one of rule, measured, remembered, given, forced, got \"dice\"",
       ErrorCode::InvalidArgument}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    try {
      parse_plan(row.text);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code);
      EXPECT_NE(std::string(error.what()).find(row.part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace topograd::runtime
