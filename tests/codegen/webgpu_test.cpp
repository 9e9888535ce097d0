// Kernels as WGSL, run by Chromium's WebGPU on SwiftShader, or by Node with the package `webgpu` on
// a graphics processor, against the evaluator and against the JavaScript of the same programs.
// Opt-in: TOPOGRAD_WEBGPU=1; a larger number is that of random programs, and FIRST-LAST are theirs.
// TOPOGRAD_WEBGPU_NODE names the folder that has node_modules/webgpu, and chooses Node.
#include "../../autodiff/derivatives.hpp"
#include "../../codegen/glsl/c_source.hpp"
#include "../../codegen/spirv/cross.hpp"
#include "../../codegen/spirv/shader_compiler.hpp"
#include "../support/browser.hpp"
#include "../support/random_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "kernel_requests.hpp"
#include "spring_set.hpp"

namespace topograd::test {
namespace {

using codegen::BufferRole;
using codegen::KernelRequest;
using codegen::KernelSource;
using codegen::Precision;
using nlohmann::json;

/// `kernel(job)` runs WGSL, and `plain(job)` runs JavaScript.
constexpr std::string_view kScript = R"script("use strict";
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const textOf = (bytes) => {
  let text = "";
  for (let k = 0; k < bytes.length; k += 8192)
    text += String.fromCharCode(...bytes.subarray(k, k + 8192));
  return btoa(text);
};
let device;
async function open() {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return "";
  device = await adapter.requestDevice();
  const { vendor, architecture, device: name, description } = adapter.info;
  return [vendor, architecture, name, description].join(" ");
}
async function kernel({ text, buffers, push, groups }) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code: text });
  const { messages } = await module.getCompilationInfo();
  const wrong = messages.filter((one) => one.type === "error");
  if (wrong.length > 0) {
    await device.popErrorScope();
    const { message, lineNum } = wrong[0];
    return { error: `${message}: ${text.split("\n")[lineNum - 1]}` };
  }
  const visibility = GPUShaderStage.COMPUTE, usage = GPUBufferUsage;
  const entries = buffers.map(({ binding, writes }) => ({
    binding, visibility, buffer: { type: writes ? "storage" : "read-only-storage" } }));
  const layouts = [device.createBindGroupLayout({ entries }), device.createBindGroupLayout({
    entries: [{ binding: 0, visibility, buffer: { type: "uniform" } }] })];
  const layout = device.createPipelineLayout({ bindGroupLayouts: layouts });
  const pipeline = await device.createComputePipelineAsync(
    { layout, compute: { module, entryPoint: "main" } }).catch((error) => error);
  const make = (bytes, how) => {
    const size = Math.ceil(bytes.length / 16) * 16;
    const buffer = device.createBuffer({ size, usage: how, mappedAtCreation: true });
    new Uint8Array(buffer.getMappedRange()).set(bytes);
    buffer.unmap();
    return buffer;
  };
  const made = buffers.map(({ bytes }) =>
    make(bytesOf(bytes), usage.STORAGE | usage.COPY_SRC));
  const words = make(bytesOf(push), usage.UNIFORM);
  const out = [];
  if (!(pipeline instanceof Error)) {
    const commands = device.createCommandEncoder(), pass = commands.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: layouts[0], entries: made.map(
      (buffer, k) => ({ binding: buffers[k].binding, resource: { buffer } })) }));
    pass.setBindGroup(1, device.createBindGroup({ layout: layouts[1], entries: [
      { binding: 0, resource: { buffer: words } }] }));
    pass.dispatchWorkgroups(groups);
    pass.end();
    const reads = buffers.map(({ writes }, k) => {
      if (!writes) return undefined;
      const size = made[k].size;
      const to = device.createBuffer({ size, usage: usage.MAP_READ | usage.COPY_DST });
      commands.copyBufferToBuffer(made[k], 0, to, 0, size);
      return to;
    });
    device.queue.submit([commands.finish()]);
    for (const read of reads) {
      if (read === undefined) {
        out.push("");
        continue;
      }
      await read.mapAsync(GPUMapMode.READ);
      out.push(textOf(new Uint8Array(read.getMappedRange())));
      read.destroy();
    }
  }
  for (const buffer of [...made, words]) buffer.destroy();
  const invalid = await device.popErrorScope();
  if (pipeline instanceof Error) return { error: pipeline.message };
  return invalid ? { error: invalid.message } : { out };
}
async function plain({ text, numbers, counts, outputs }) {
  const { f } = await import(`data:text/javascript,${encodeURIComponent(text)}`);
  const all = new Float64Array(bytesOf(numbers).buffer);
  const width = counts.reduce((a, b) => a + b, 0), rows = all.length / width;
  const results = new Float64Array(rows * outputs);
  for (let i = 0, at = 0; i < rows; ++i) {
    const parts = counts.map((count) => all.subarray(at, at += count));
    f(...parts, results.subarray(i * outputs, (i + 1) * outputs));
  }
  return textOf(new Uint8Array(results.buffer));
}
)script";

/// Answers expressions as a page does: one message after the other, through files 3 and 4.
constexpr std::string_view kNode = R"node(
import { createReadStream, readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { constants, runInThisContext } from "node:vm";
const [script, folder] = process.argv.slice(2);
const { create, globals } = await import(createRequire(`${folder}/`).resolve("webgpu"));
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) } });
const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
runInThisContext(readFileSync(script, "utf8"), { importModuleDynamically });
const tell = (message) => {
  const bytes = Buffer.from(`${JSON.stringify(message)}\0`);
  for (let sent = 0; sent < bytes.length;) sent += writeSync(4, bytes, sent);
};
let received = "";
for await (const piece of createReadStream(null, { fd: 3, encoding: "utf8" })) {
  const parts = (received + piece).split("\0");
  received = parts.pop();
  for (const part of parts)
    await Promise.resolve(part).then((text) => runInThisContext(JSON.parse(text)))
      .then((value) => tell({ value }), (error) => tell({ error: String(error.stack) }));
}
)node";

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    std::uint32_t bits = 0;
    for (std::size_t b = 0; b < 3; ++b)
      bits = bits << 8 | (k + b < bytes.size() ? std::to_integer<std::uint32_t>(bytes[k + b]) : 0);
    for (std::size_t d = 0; d < 4; ++d)
      out += k + d > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * d) & 63];
  }
  return out;
}

using Buffers = std::map<BufferRole, std::vector<std::byte>>;

std::string wgsl_of(const KernelSource& source) {
  return codegen::wgsl(
      codegen::compile({.name = source.name, .glsl = source.glsl, .includes = {}}));
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> number_bytes(const std::vector<double>& values, Precision precision) {
  if (precision == Precision::f64) return bytes_of(values);
  return bytes_of(std::vector<float>(values.begin(), values.end()));
}

template <class T>
std::vector<double> read_as(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return {values.begin(), values.end()};
}

std::vector<double> numbers_of(const std::string& bytes, Precision precision) {
  return precision == Precision::f64 ? read_as<double>(bytes) : read_as<float>(bytes);
}

/// Runs expressions of kScript, and answers with their values.
class ScriptHost {
 public:
  virtual ~ScriptHost() = default;
  virtual json evaluate(const std::string& expression) = 0;
};

class PageHost : public ScriptHost {
 public:
  explicit PageHost(const std::filesystem::path& folder)
      : browser_(400, 300,
                 {"--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
                  "--enable-features=Vulkan"}) {
    const std::string page = folder / "page.html";
    std::ofstream(page) << "<!doctype html><title>WebGPU</title><script>" << kScript << "</script>";
    browser_.open("file://" + page);
    EXPECT_TRUE(browser_.wait_until("typeof plain === 'function'"));
  }
  json evaluate(const std::string& expression) override { return browser_.evaluate(expression); }

 private:
  Browser browser_;
};

class NodeHost : public ScriptHost {
 public:
  NodeHost(const std::filesystem::path& folder, const std::string& package) {
    const std::string script = folder / "script.js", host = folder / "host.mjs";
    std::ofstream(script) << kScript;
    std::ofstream(host) << kNode;
    process_.emplace(std::vector<std::string>{"/usr/bin/env", "node", host, script, package});
  }
  json evaluate(const std::string& expression) override {
    process_->send(expression);
    constexpr int kSeconds = 300;
    json answer = process_->next(kSeconds);
    if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
    return answer.value("value", json());
  }

 private:
  std::optional<PipedProcess> process_;
};

/// One host for all tests.
class WebGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TOPOGRAD_WEBGPU") == nullptr)
      GTEST_SKIP() << "opt-in: TOPOGRAD_WEBGPU=1 runs kernels in Chromium for a few minutes";
    if (package() == nullptr && Browser::program().empty())
      GTEST_SKIP() << "no Chromium (Debian: chromium)";
    if (host_ == nullptr) start();
    if (adapter_.empty()) GTEST_SKIP() << "no adapter for WebGPU";
  }
  static void TearDownTestSuite() { host_ = nullptr; }

  /// The folder of Node's package; nullptr if Chromium is to run the kernels.
  static const char* package() { return std::getenv("TOPOGRAD_WEBGPU_NODE"); }

  static void start() {
    folder_ = std::make_unique<TemporaryDir>();
    if (package() != nullptr)
      host_ = std::make_unique<NodeHost>(folder_->path(), package());
    else
      host_ = std::make_unique<PageHost>(folder_->path());
    adapter_ = host_->evaluate("open()").get<std::string>();
    std::cout << "adapter: " << adapter_ << "\n";
  }

  /// Tells whether a program's kernel is too long for the compiler. SwiftShader compiles each call
  /// as a copy of its function, which takes minutes for these.
  static bool too_long(const ir::Program& program, const std::string& name, Precision precision) {
    if (package() != nullptr) return false;
    const std::size_t longest = precision == Precision::f64 ? 22'000 : 44'000;
    return wgsl_of(codegen::generate(storing(program, name, precision))).size() > longest;
  }

  /// Runs a kernel; buffers that it writes are replaced.
  static void run(const KernelSource& source, const codegen::PushConstants& push,
                  std::uint32_t groups, Buffers& buffers) {
    const std::string text = wgsl_of(source);
    json list = json::array();
    for (const codegen::BindingInfo& binding : source.bindings) {
      const bool writes = text.find("@binding(" + std::to_string(binding.binding) +
                                    ") var<storage, read_write>") != std::string::npos;
      EXPECT_GE(writes, binding.writes) << source.name << " " << binding.name;
      list.push_back({{"binding", binding.binding},
                      {"writes", writes},
                      {"bytes", to_base64(buffers.at(binding.role))}});
    }
    std::vector<std::uint32_t> words(source.push_constants.size());
    std::memcpy(words.data(), &push, std::min(sizeof push, 4 * words.size()));
    words.resize(std::max<std::size_t>(words.size(), 1));
    const json answer = call("kernel", {{"text", text},
                                        {"buffers", list},
                                        {"push", to_base64(std::as_bytes(std::span(words)))},
                                        {"groups", groups}});
    ASSERT_FALSE(answer.contains("error")) << source.name << ": " << answer["error"];
    for (std::size_t k = 0; k < source.bindings.size(); ++k) {
      const std::string bytes = from_base64(answer["out"][k].get<std::string>());
      if (bytes.empty()) continue;
      std::vector<std::byte>& to = buffers.at(source.bindings[k].role);
      std::memcpy(to.data(), bytes.data(), to.size());
    }
  }

  static json call(const std::string& function, const json& job) {
    return host_->evaluate(function + "(" + job.dump() + ")");
  }

  /// A kernel that stores the outputs of a program.
  static KernelRequest storing(const ir::Program& program, const std::string& name,
                               Precision precision) {
    KernelRequest request;
    request.name = name;
    request.precision = precision;
    request.program = program;
    request.layout = codegen::general_layout(program.leaves);
    return request;
  }

  /// Outputs of a program's kernel at points, point by point.
  static std::vector<double> on_device(const ir::Program& program, const std::string& name,
                                       const std::vector<Point>& points, Precision precision) {
    const KernelRequest request = storing(program, name, precision);
    const auto rows = static_cast<std::uint32_t>(points.size());
    const ir::LeafCounts& leaves = program.leaves;
    std::vector<std::uint32_t> index;
    std::vector<double> x, uniforms, data;
    for (std::uint32_t k = 0; k < leaves.parameters; ++k) {
      for (const Point& point : points) {
        index.push_back(static_cast<std::uint32_t>(x.size()));
        x.push_back(point.parameters[k]);
      }
    }
    for (std::uint32_t k = 0; k < leaves.uniforms; ++k) {
      for (const Point& point : points) {
        index.push_back(static_cast<std::uint32_t>(uniforms.size()));
        uniforms.push_back(point.uniforms[k]);
      }
    }
    for (std::uint32_t k = 0; k < leaves.data; ++k)
      for (const Point& point : points) data.push_back(point.data[k]);
    const std::size_t outputs = program.outputs.size();
    Buffers buffers = {
        {BufferRole::x, number_bytes(x, precision)},
        {BufferRole::uniforms, number_bytes(uniforms, precision)},
        {BufferRole::data_columns, number_bytes(data, precision)},
        {BufferRole::index_columns, bytes_of(index)},
        {BufferRole::results, number_bytes(std::vector<double>(rows * outputs, -77), precision)}};
    run(codegen::generate(request), {.count = rows, .stride = rows, .out_stride = rows},
        (rows + request.workgroup_size - 1) / request.workgroup_size, buffers);
    const std::vector<std::byte>& bytes = buffers.at(BufferRole::results);
    const std::vector<double> columns = numbers_of(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), precision);
    std::vector<double> out(columns.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < outputs; ++k) out[i * outputs + k] = columns[k * rows + i];
    return out;
  }

  /// The same by JavaScript.
  static std::vector<double> in_javascript(const ir::Program& program,
                                           const std::vector<Point>& points) {
    std::vector<double> numbers;
    for (const Point& point : points)
      for (const auto* values : {&point.parameters, &point.data, &point.uniforms})
        numbers.insert(numbers.end(), values->begin(), values->end());
    const ir::LeafCounts& n = program.leaves;
    const json answer = call("plain", {{"text", codegen::javascript_source(std::vector{
                                                    codegen::PlainFunction{"f", "", program}})},
                                       {"numbers", to_base64(std::as_bytes(std::span(numbers)))},
                                       {"counts", {n.parameters, n.data, n.uniforms}},
                                       {"outputs", program.outputs.size()}});
    return read_as<double>(from_base64(answer.get<std::string>()));
  }

  static inline std::unique_ptr<ScriptHost> host_;
  static inline std::unique_ptr<TemporaryDir> folder_;
  static inline std::string adapter_;
};

ir::Program op_program(const ir::OpInfo& info) {
  ir::Program program = single_op(info.op);
  program.leaves = {.parameters = 3};
  return program;
}

/// Points of numbers as the precision has them.
std::vector<Point> op_points(const ir::OpInfo& info, Precision precision) {
  const auto columns = op_operands(info, precision == Precision::f64);
  std::vector<Point> points;
  for (std::size_t i = 0; i < columns[0].size(); ++i) {
    Point point;
    for (const auto& column : columns) {
      point.parameters.push_back(precision == Precision::f64
                                     ? column[i]
                                     : static_cast<double>(static_cast<float>(column[i])));
    }
    points.push_back(std::move(point));
  }
  return points;
}

TEST_F(WebGpu, EveryOpInF32) {
  for (const ir::OpInfo& info : ir::kOps) {
    if (info.leaf) continue;
    const std::vector<Point> points = op_points(info, Precision::f32);
    const auto got =
        on_device(op_program(info), "op_" + std::string(info.name), points, Precision::f32);
    for (std::size_t i = 0, shown = 0; i < got.size() && shown < 3; ++i) {
      const auto& p = points[i].parameters;
      const ir::Deviation d = op_deviation<float>(info, {p[0], p[1], p[2]}, got[i]);
      if (d.within) continue;
      ++shown;
      ADD_FAILURE() << info.name << "(" << p[0] << ", " << p[1] << ", " << p[2] << "): expected "
                    << static_cast<double>(d.expected) << ", got " << got[i] << ", " << d.ulp
                    << " ulp";
    }
  }
}

// Basic ops have JavaScript's bits.
TEST_F(WebGpu, OpsInFloat64ByIntegers) {
  std::string left;
  for (const ir::OpInfo& info : ir::kOps) {
    if (info.leaf) continue;
    const std::vector<Point> points = op_points(info, Precision::f64);
    const ir::Program program = op_program(info);
    const std::string name = "op_" + std::string(info.name);
    if (too_long(program, name, Precision::f64)) {
      EXPECT_TRUE(info.composite || info.ulp_f64 != 0 || info.op == ir::Op::Mod) << info.name;
      left += " " + std::string(info.name);
      continue;
    }
    const auto got = on_device(program, name, points, Precision::f64);
    const auto plain = in_javascript(program, points);
    ASSERT_EQ(got.size(), plain.size());
    for (std::size_t i = 0, shown = 0; i < got.size() && shown < 3; ++i) {
      const auto& p = points[i].parameters;
      const ir::Deviation d = op_deviation<double>(info, {p[0], p[1], p[2]}, got[i]);
      if (d.within && (info.composite || info.ulp_f64 != 0 || same_bits(got[i], plain[i])))
        continue;
      ++shown;
      ADD_FAILURE() << info.name << "(" << p[0] << ", " << p[1] << ", " << p[2] << "): expected "
                    << static_cast<double>(d.expected) << ", got " << got[i] << ", " << d.ulp
                    << " ulp; JavaScript: " << plain[i];
    }
  }
  if (!left.empty()) std::cout << "not run, too long for SwiftShader's compiler:" << left << "\n";
}

/// Ops that are one correctly rounded operation, or none.
std::vector<ir::Op> basic_ops() {
  return {ir::Op::Add, ir::Op::Sub,  ir::Op::Mul, ir::Op::Div,   ir::Op::Neg,
          ir::Op::Abs, ir::Op::Sqrt, ir::Op::Lt,  ir::Op::Select};
}

/// Numbers of random programs.
struct Seeds {
  std::uint64_t first, last;
};
/// From 1 to `usual`, or those that TOPOGRAD_WEBGPU asks for: LAST, above `usual`, or FIRST-LAST.
Seeds seeds_of_programs(std::uint64_t usual) {
  const char* asked = std::getenv("TOPOGRAD_WEBGPU");
  char* end = nullptr;
  const std::uint64_t number = asked != nullptr ? std::strtoull(asked, &end, 10) : 0;
  if (end != nullptr && *end == '-') return {number, std::strtoull(end + 1, nullptr, 10)};
  return {1, std::max(usual, number)};
}

/// Random programs in parts, which processes can share by GTEST_TOTAL_SHARDS.
constexpr std::uint64_t kParts = 16;

class WebGpuPrograms : public WebGpu, public ::testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Parts, WebGpuPrograms, ::testing::Range(std::uint64_t{1}, kParts + 1));

TEST_P(WebGpuPrograms, OfBasicOpsHaveTheBitsOfJavaScript) {
  std::size_t compared = 0, programs = 0;
  const Seeds seeds = seeds_of_programs(48);
  for (std::uint64_t seed = seeds.first + GetParam() - 1; seed <= seeds.last; seed += kParts) {
    const ir::Program f = random_program(seed, {.operations = 12, .ops = basic_ops()});
    const ir::Program program = autodiff::residual_and_jacobian(f, autodiff::all_slots(f));
    const std::string name = "random_" + std::to_string(seed);
    if (too_long(program, name, Precision::f64)) continue;
    std::vector<Point> points;
    for (std::uint64_t k = 0; k < 16; ++k)
      points.push_back(random_point(16 * seed + k, f.leaves, k % 4 == 3 ? 0.3 : 0));
    const auto got = on_device(program, name, points, Precision::f64);
    const auto plain = in_javascript(program, points);
    ++programs;
    ASSERT_EQ(got.size(), plain.size());
    for (std::size_t k = 0; k < got.size(); ++k, ++compared)
      ASSERT_TRUE(same_bits(got[k], plain[k])) << name << " " << got[k] << " " << plain[k];
  }
  std::cout << programs << " programs, " << compared << " numbers compared\n";
  EXPECT_GE(compared, 64u);  // 1,024 in all parts
}

/// Programs of all smooth ops, with their Jacobians, against bounds of their rounding errors.
class WebGpuSmoothPrograms : public WebGpuPrograms {
 protected:
  template <class T>
  static void compare(Precision precision) {
    std::size_t compared = 0, programs = 0;
    const Seeds seeds = seeds_of_programs(64);
    for (std::uint64_t seed = seeds.first + GetParam() - 1; seed <= seeds.last; seed += kParts) {
      Point at = random_point(seed, {.parameters = 3, .data = 2, .uniforms = 1});
      for (auto* values : {&at.parameters, &at.data, &at.uniforms})
        *values = rounded(*values, precision);
      // A driver compiles a copy of a function for each call: five minutes are not enough for ten
      // programs of eight operations with float64 by integers.
      const std::size_t operations = precision == Precision::f32 ? 8 : 3;
      const ir::Program f =
          random_program(seed, {.operations = operations, .ops = smooth_ops(), .ordinary_at = &at});
      const ir::Program program = autodiff::residual_and_jacobian(f, autodiff::all_slots(f));
      const std::string name = "random_" + std::to_string(seed);
      if (too_long(program, name, precision)) continue;
      const auto got = on_device(program, name, {at}, precision);
      const auto as_t = [](const std::vector<double>& values) {
        return std::vector<T>(values.begin(), values.end());
      };
      const std::vector<T> p = as_t(at.parameters), d = as_t(at.data), u = as_t(at.uniforms);
      const ir::RunningError error =
          ir::running_error<T>(program, {.parameters = p, .data = d, .uniforms = u});
      if (!error.decided) continue;
      ++programs;
      for (std::size_t k = 0; k < got.size(); ++k) {
        const ir::Enclosure& result = error.nodes[program.outputs[k]];
        if (!result.known()) continue;
        ++compared;
        EXPECT_TRUE(result.contains(got[k]))
            << seed << " output " << k << ": " << got[k] << ", expected "
            << static_cast<double>(result.value) << " ± " << static_cast<double>(result.error);
      }
    }
    std::cout << programs << " programs, " << compared << " numbers compared\n";
    EXPECT_GT(compared, 3u);  // 64 in all parts
  }
};

INSTANTIATE_TEST_SUITE_P(Parts, WebGpuSmoothPrograms,
                         ::testing::Range(std::uint64_t{1}, kParts + 1));

TEST_P(WebGpuSmoothPrograms, InF32) { compare<float>(Precision::f32); }

TEST_P(WebGpuSmoothPrograms, InFloat64ByIntegers) {
  if (package() == nullptr) GTEST_SKIP() << "too long for SwiftShader's compiler";
  compare<double>(Precision::f64);
}

/// Buffers by role, as KernelRunner has them.
struct WebBuffers {
  void set(BufferRole role, Precision precision, const std::vector<double>& values) {
    buffers[role] = number_bytes(values, precision);
  }
  void set(BufferRole role, const std::vector<std::uint32_t>& values) {
    buffers[role] = bytes_of(values);
  }
  std::vector<double> numbers(BufferRole role, Precision precision) const {
    const auto& bytes = buffers.at(role);
    return numbers_of(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                      precision);
  }
  Buffers buffers;
};

double relative_difference(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double norm = 0, difference = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    norm += want[k] * want[k];
    difference += (got[k] - want[k]) * (got[k] - want[k]);
  }
  return std::sqrt(difference / norm);
}

// Residuals, the gradient and JᵀJ·p by planned gathers, and the cost by trees of workgroups.
TEST_F(WebGpu, SumsOfSprings) {
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    const double tolerance = precision == Precision::f32 ? 2e-6 : 4e-15;
    const SpringSet set(1000, precision);
    const auto groups = [](std::uint32_t count) { return (count + 127) / 128; };
    WebBuffers entries;
    set.set_entries(entries, precision);
    const auto gather = [&](const KernelRequest& request) {
      entries.set(BufferRole::results, precision, std::vector<double>(set.x.size(), -77));
      run(codegen::generate(request),
          {.count = set.vertices, .stride = 2 * set.count, .overwrite = 1}, groups(set.vertices),
          entries.buffers);
      return entries.numbers(BufferRole::results, precision);
    };
    // With float64 these two kernels are too long for SwiftShader's compiler.
    if (precision == Precision::f32 || package() != nullptr) {
      const auto gradient =
          springs_gradient_scatter(Precision::f64, codegen::Accumulation::atomic_cas).program;
      EXPECT_LE(relative_difference(gather(springs_gradient_gather(precision)), set.sums(gradient)),
                tolerance);
      const auto product = springs_jtjp_scatter(Precision::f64).program;
      EXPECT_LE(relative_difference(gather(springs_jtjp_gather(precision)), set.sums(product)),
                tolerance);
    }

    WebBuffers instances;
    set.set_instances(instances, precision);
    std::vector<double> rows;
    double cost = 0;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      rows.push_back(set.evaluate(springs(), i)[0]);
      cost += rows.back() * rows.back() / 2;
    }
    instances.set(BufferRole::results, precision, std::vector<double>(set.count, -77));
    run(codegen::generate(springs_residual(precision)),
        {.count = set.count, .stride = set.count, .out_stride = set.count}, groups(set.count),
        instances.buffers);
    EXPECT_LE(relative_difference(instances.numbers(BufferRole::results, precision), rows),
              tolerance);
    instances.set(BufferRole::results, precision, std::vector<double>(groups(set.count), -77));
    run(codegen::generate(springs_cost(precision)), {.count = set.count, .stride = set.count},
        groups(set.count), instances.buffers);
    double sum = 0;
    for (const double part : instances.numbers(BufferRole::results, precision)) sum += part;
    EXPECT_NEAR(sum, cost, tolerance * cost) << name(precision);
  }
}

}  // namespace
}  // namespace topograd::test
