// GLSL to SPIR-V through shaderc; disassembly through SPIRV-Tools.
#include "shader_compiler.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/foreign_call.hpp"
#include "edit_modules.hpp"

#include <shaderc/shaderc.hpp>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>
#include <spirv_cross/spirv.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace topograd::codegen {
namespace {

constexpr int kMaxComplaints = 8;

/// Words from which a module is made smaller. A pass over a smaller one would take longer than
/// drivers gain.
constexpr std::size_t kLeastReduced = 8192;

// Resolves #include from the map of a ShaderSource, which outlives the compilation.
class MapIncluder : public shaderc::CompileOptions::IncluderInterface {
 public:
  explicit MapIncluder(const std::map<std::string, std::string>& texts) : texts_(texts) {}

  shaderc_include_result* GetInclude(const char* wanted, shaderc_include_type, const char* from,
                                     std::size_t) override {
    auto answer = std::make_unique<Answer>();
    const auto found = texts_.find(wanted);
    if (found == texts_.end()) {
      // An empty source name tells shaderc that the content is an error message.
      answer->message = "no include named \"" + std::string(wanted) + "\" (asked for by " +
                        std::string(from) + ")";
      answer->result.content = answer->message.data();
      answer->result.content_length = answer->message.size();
      answer->result.source_name = "";
    } else {
      answer->result.source_name = found->first.data();
      answer->result.source_name_length = found->first.size();
      answer->result.content = found->second.data();
      answer->result.content_length = found->second.size();
    }
    answer->result.user_data = answer.get();
    return &answer.release()->result;
  }

  void ReleaseInclude(shaderc_include_result* result) override {
    delete static_cast<Answer*>(result->user_data);
  }

 private:
  struct Answer {
    shaderc_include_result result{};
    std::string message;
  };
  const std::map<std::string, std::string>& texts_;
};

std::atomic<std::uint64_t> compiled{0};

// Never destroyed: threads may still compile while static objects are destroyed at exit.
shaderc::Compiler& shared_compiler() {
  static shaderc::Compiler& compiler = *new shaderc::Compiler;
  return compiler;
}

std::string_view nth_line(std::string_view text, int number) {
  while (--number > 0) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Line 12 of the file for "file:12: error: ...", or nothing.
std::string quoted_line(std::string_view complaint, const ShaderSource& source) {
  const auto quote = [&](std::string_view file, std::string_view text) -> std::string {
    if (!complaint.starts_with(file) || complaint.size() <= file.size() ||
        complaint[file.size()] != ':') {
      return {};
    }
    const char* first = complaint.data() + file.size() + 1;
    int number = 0;
    const auto parsed = std::from_chars(first, complaint.data() + complaint.size(), number);
    if (parsed.ec != std::errc{} || number < 1) return {};
    const std::string_view line = nth_line(text, number);
    if (line.empty()) return {};
    return "\n    " + std::to_string(number) + " | " + std::string(line);
  };
  if (std::string found = quote(source.name, source.glsl); !found.empty()) return found;
  for (const auto& [name, text] : source.includes) {
    if (std::string found = quote(name, text); !found.empty()) return found;
  }
  return {};
}

std::string explain(const ShaderSource& source, const std::string& log) {
  std::string message = "compile: shader \"" + source.name + "\" was refused";
  std::istringstream lines(log);
  std::string line;
  int shown = 0;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    if (++shown > kMaxComplaints) {
      message += "\n  ...";
      break;
    }
    message += "\n  " + line + quoted_line(line, source);
  }
  return message;
}

/// Replaces variables by their values, and removes what is then unused or there twice. The compiler
/// writes a variable for each statement, which is more than half of a module. Time and memory of
/// drivers' compilers grow faster than the number of variables: on kernels of 1,400 and 4,300
/// operations Mesa's for AMD is 2.5 and 4 times as fast without them. No arithmetic changes.
/// Members of structures that functions fill become values, too.
std::vector<std::uint32_t> reduced(std::vector<std::uint32_t> module) {
  spvtools::Optimizer optimizer(SPV_ENV_VULKAN_1_2);
  optimizer.RegisterPass(spvtools::CreateLocalAccessChainConvertPass())
      .RegisterPass(spvtools::CreateLocalSingleStoreElimPass())
      .RegisterPass(spvtools::CreateSSARewritePass())
      .RegisterPass(spvtools::CreateRedundancyEliminationPass())
      .RegisterPass(spvtools::CreateAggressiveDCEPass());
  spvtools::OptimizerOptions options;
  options.set_run_validator(false);
  std::vector<std::uint32_t> out;
  return optimizer.Run(module.data(), module.size(), &out, options) ? out : module;
}

/// Keeps only the names of buffers and of what lies in them, if a module is long: names of values,
/// parameters and functions, which list their parameters' types, are a tenth of it.
std::vector<std::uint32_t> without_names(std::vector<std::uint32_t> module) {
  constexpr std::size_t kLong = 12'000;  // words
  if (module.size() < kLong) return module;
  std::set<std::uint32_t> named;  // variables outside functions, and structures of buffers
  bool in_functions = false;
  for_each_instruction(module, [&](const SpirvInstruction& one, std::size_t) {
    in_functions = in_functions || one.opcode == spv::OpFunction;
    if (in_functions) return;
    if (one.opcode == spv::OpMemberDecorate) named.insert(one.words[1]);
    if (one.opcode == spv::OpVariable) named.insert(one.words[2]);
  });
  std::vector<std::uint32_t> out(module.begin(), module.begin() + kSpirvHeaderWords);
  for_each_instruction(module, [&](const SpirvInstruction& one, std::size_t) {
    const bool is_name = one.opcode == spv::OpName || one.opcode == spv::OpMemberName;
    if (!is_name || named.contains(one.words[1]))
      out.insert(out.end(), one.words.begin(), one.words.end());
  });
  return out;
}

}  // namespace

std::vector<std::uint32_t> compile(const ShaderSource& source) {
  if (source.glsl.find("#version") == std::string::npos) {
    // glslang would read it as GLSL 1.10, fail on its own built-ins and print them.
    throw Error(ErrorCode::ShaderCompile,
                "compile: shader \"" + source.name + "\" was refused: no #version line");
  }
  const ForeignCall permission("compile");
  shaderc::CompileOptions settings;
  settings.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  settings.SetSourceLanguage(shaderc_source_language_glsl);
  // Drivers optimise by themselves: kernels are as fast without most of SPIRV-Tools' passes, which
  // would take 97 % of the time.
  settings.SetOptimizationLevel(shaderc_optimization_level_zero);
  settings.SetIncluder(std::make_unique<MapIncluder>(source.includes));
  const shaderc::SpvCompilationResult result = shared_compiler().CompileGlslToSpv(
      source.glsl.data(), source.glsl.size(), shaderc_compute_shader, source.name.c_str(), "main",
      settings);
  if (result.GetCompilationStatus() != shaderc_compilation_status_success) {
    throw Error(ErrorCode::ShaderCompile, explain(source, result.GetErrorMessage()));
  }
  std::vector<std::uint32_t> module(result.cbegin(), result.cend());
  compiled.fetch_add(1, std::memory_order_relaxed);
  return module.size() < kLeastReduced ? module : without_names(reduced(std::move(module)));
}

std::uint64_t shaders_compiled() { return compiled.load(std::memory_order_relaxed); }

std::string disassemble(std::span<const std::uint32_t> module) {
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string text;
  if (!tools.Disassemble(module.data(), module.size(), &text,
                         SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES |
                             SPV_BINARY_TO_TEXT_OPTION_INDENT |
                             SPV_BINARY_TO_TEXT_OPTION_NO_HEADER)) {
    throw Error(ErrorCode::InvalidArgument, "disassemble: expected a SPIR-V module, got " +
                                                std::to_string(module.size()) +
                                                " words that are none");
  }
  return text;
}

}  // namespace topograd::codegen
