// Golden files: expected text that lies in the source tree and is rewritten on request.
#pragma once

#include <functional>
#include <string>

namespace topograd::test {

/// Fails the running test where `actual` differs from the file, and shows the first line that does.
///
/// With TOPOGRAD_UPDATE_GOLDEN=1 in the environment the file is written instead, folders and all.
///
///   relative_path  from the root of the source tree, e.g. "tests/codegen/golden/springs.glsl"
void expect_golden(const std::string& relative_path, const std::string& actual);

/// A golden file with several cases: input and expected text side by side.
///
/// The file repeats "=== name", input, "---", expected. `run` maps an input to what is expected of
/// it; both end with a line feed. What it throws derives from std::exception and is written as
/// "error: ..." with the exception's message, so that texts of errors are golden too.
void expect_golden_cases(const std::string& relative_path,
                         const std::function<std::string(const std::string& input)>& run);

}  // namespace topograd::test
