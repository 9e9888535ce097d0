// The process's store of generated kernels.
#include "kernel_store.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <vector>

namespace topograd::ops {
namespace {

struct Row {
  std::string_view name, words;
  std::vector<KernelArgument> arguments;
};

const std::vector<Row>& rows() {
  using enum Access;
  static const auto& all = *new std::vector<Row>{
#define TG_COMPUTE_KERNEL(name, words, ...) {#name, words, {__VA_ARGS__}},
#include "compute_kernels.def"
  };
  return all;
}

/// Puts a file's functions and the body of its main() into `parts`. Comments at its top that stand
/// alone are left out.
void read_file(std::string_view name, KernelParts& parts) {
  const auto file = std::ranges::find(embedded_files(), name, &EmbeddedFile::name);
  if (file == embedded_files().end())
    throw Error(ErrorCode::Internal, "kernels: expected a file " + std::string(name) + ".glsl");
  constexpr std::string_view kMain = "void main() {\n";
  const std::string_view text = file->text;
  const std::size_t begin = text.find("\n\n") + 2, main = text.find(kMain);
  if (main > begin) parts.functions = text.substr(begin, main - begin - 1);
  parts.body = text.substr(main + kMain.size(), text.rfind('}') - main - kMain.size());
}

}  // namespace

const ComputeKernel& kernel_for(const ir::Hash128& key,
                                const std::function<ComputeKernel()>& make) {
  static auto& mutex = *new std::mutex;
  static auto& kernels = *new std::unordered_map<ir::Hash128, std::unique_ptr<const ComputeKernel>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kernels.find(key); found != kernels.end()) return *found->second;
  }
  auto made = std::make_unique<const ComputeKernel>(make());
  const std::lock_guard lock(mutex);
  return *kernels.try_emplace(key, std::move(made)).first->second;
}

const ComputeKernel& kernel_for(std::string_view key, const std::function<ComputeKernel()>& make) {
  return kernel_for(key_of(key), make);
}

const ComputeKernel& kernel_for(KernelFile file, Type type,
                                std::initializer_list<codegen::Replacement> replacements,
                                std::uint32_t local) {
  ir::Hash128 key = key_of("file", file, type, local);
  for (const codegen::Replacement& r : replacements)
    ir::add_bytes(key, r.value.data(), r.value.size());
  return kernel_for(key, [&] {
    const Row& row = rows()[static_cast<std::size_t>(file)];
    const auto filled = [&](std::string_view text) {
      return codegen::substitute(
          codegen::substitute(text, replacements),
          {{"T", std::string(glsl_name(type))}, {"V", type == Type::f64 ? "dvec2" : "vec2"}});
    };
    KernelParts parts{.name = std::string(row.name), .local_size = {local, 1, 1}};
    for (const KernelArgument& a : row.arguments)
      parts.arguments.push_back({a.name, filled(a.type), a.access});
    std::istringstream words{std::string(row.words)};
    for (std::string word; words >> word;) parts.words.push_back(word);
    read_file(row.name, parts);
    parts.functions = filled(parts.functions);
    parts.body = filled(parts.body);
    return make_kernel(parts);
  });
}

}  // namespace topograd::ops
