// Golden files: expected text in the source tree, rewritten on request.
#pragma once

#include <functional>
#include <string>

namespace topograd::test {

/// Fails the running test if `actual` differs from the file, and shows the first different line.
///
/// With TOPOGRAD_UPDATE_GOLDEN=1 in the environment the file and its folders are written instead.
///
///   relative_path  from the root of the source tree, e.g. "tests/codegen/golden/springs.glsl"
void expect_golden(const std::string& relative_path, const std::string& actual);

/// A golden file with several cases, each with input and expected text.
///
/// The file repeats "=== name", input, "---", expected. `run` maps an input to the expected text;
/// both end with a line feed. If it throws, a std::exception, the text is "error: ..." with the
/// exception's message, so that error messages are golden too.
void expect_golden_cases(const std::string& relative_path,
                         const std::function<std::string(const std::string& input)>& run);

}  // namespace topograd::test
