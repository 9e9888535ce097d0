// Validation of kernel requests, and assembly of the shader.
#include "../kernel.hpp"

#include "../../ir/error.hpp"
#include "../glsl/shader.hpp"
#include "kernel_forms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>

namespace topograd::codegen {
namespace {

constexpr std::array<PushMember, 13> kPushMembers = {{
    {"count", "end of the rows of this dispatch"},
    {"first", "row of invocation 0"},
    {"stride", "between columns"},
    {"out_stride", "between outputs, seeds, terms"},
    {"out_first", "position of the first result"},
    {"x_first", "position of owner 0 in x"},
    {"overwrite", "1: store sums, 0: add them"},
    {"zero_bits", "0, which compilers do not know"},
    {"sums_first", "position of the first partial sum that is read"},
    {"sums_count", "how many there are"},
    {"sums_stride", "between kinds of them"},
    {"curvature_first", "position of workgroup 0's sum"},
    {"fused_stride", "between columns of fused terms"},
}};
constexpr std::size_t kUnfusedMembers = 8;
constexpr std::array<PushMember, 2> kValueMembers = {{
    {"costs_first", "position of workgroup 0's part of the cost"},
    {"rows_stride", "between rows"},
}};
static_assert(sizeof(PushConstants) == 4 * kPushMembers.size());
static_assert(sizeof(PushConstants) + 4 * kMostFormWords <= 128, "what every device has");

std::string_view comment(ColumnForm::Word word) {
  switch (word) {
    case ColumnForm::Word::index: return "where an index column lies";
    case ColumnForm::Word::step: return "how it grows";
    case ColumnForm::Word::data: return "where a data column lies";
  }
  return "";
}

[[noreturn]] void refuse(const KernelRequest& request, const std::string& what) {
  throw Error(ErrorCode::InvalidArgument, "generate: \"" + request.name + "\": " + what);
}

void check_head(const KernelRequest& request) {
  if (!is_identifier(request.name))
    refuse(request, "expected a name of letters, digits and underscores");
  if (request.title.find_first_of("\n\r\\") != std::string::npos) {
    refuse(request, "expected a title of one line without backslashes");
  }
  if (!std::has_single_bit(request.workgroup_size) || request.workgroup_size > 1024) {
    refuse(request, text("expected a workgroup size that is a power of two up to 1024, got ",
                         request.workgroup_size));
  }
}

void check_fusion(const KernelRequest& request) {
  if (request.fusion != Fusion::none && (request.form != Form::gather || request.predicated ||
                                         request.block_width != request.out_width)) {
    refuse(request, "expected a fused kernel to be an unpredicated gather of vectors");
  }
  const auto first = std::ranges::find_if(request.block_slots, &GatherSlot::is_fused);
  if (first != request.block_slots.end() &&
      (request.fusion == Fusion::none || first == request.block_slots.begin() ||
       !std::all_of(first, request.block_slots.end(),
                    [](auto& block_slot) { return block_slot.is_fused; }))) {
    refuse(request, "expected fused block slots behind the others, in a fused kernel");
  }
}

void check(const KernelRequest& request) {
  check_head(request);
  check_fusion(request);
  const bool by_block = request.form == Form::gather || request.form == Form::sum_terms;
  if (by_block && request.block_slots.empty())
    refuse(request, "expected at least one block slot, got none");
  if (by_block && (request.block_width == 0 || request.out_width == 0)) {
    refuse(request, "expected widths of at least 1, got 0");
  }
  if (request.workgroup_items && (!by_block || request.fusion != Fusion::none)) {
    refuse(request, "expected work items of workgroups in an unfused gather or sum of terms");
  }
  const bool valued = request.values.given || request.values.rows > 0;
  if (valued && (!request.values.given || request.predicated || request.fusion != Fusion::none ||
                 request.form == Form::reduce || request.form == Form::sum_terms)) {
    refuse(request, "expected values beside an unpredicated, unfused store, scatter or gather");
  }
  const auto givers = static_cast<std::size_t>(
      std::ranges::count(request.block_slots, true, &GatherSlot::gives_values));
  if (by_block && givers != (request.values.given ? 1u : 0u)) {
    refuse(request,
           text("expected one block slot to give values if any are asked for, got ", givers));
  }
  if (request.columns_in_loop && (request.form != Form::store || valued))
    refuse(request, "expected columns in a loop in a store without values");
  if (!by_block && request.program.outputs.empty()) refuse(request, "expected outputs, got none");
}

BodyFacts write_body(const KernelRequest& request, Shader& shader) {
  switch (request.form) {
    case Form::store: return write_store(request, shader);
    case Form::reduce: return write_reduce(request, shader);
    case Form::scatter: return write_scatter(request, shader);
    case Form::gather: return write_gather(request, shader);
    case Form::sum_terms: return write_sum_terms(request, shader);
  }
  return {};
}

std::string shape(const ir::LeafCounts& leaves, std::size_t outputs) {
  std::string out = text(leaves.parameters, " parameters, ", leaves.data, " data, ",
                         leaves.uniforms, " uniforms");
  if (leaves.seeds > 0) out += text(", ", leaves.seeds, " seeds");
  return out + text(" -> ", outputs, outputs == 1 ? " output" : " outputs");
}

std::string form_line(const KernelRequest& request) {
  std::string out = std::string(name(request.form));
  if (request.form == Form::scatter) out += text(" by ", name(request.accumulation));
  if (request.form == Form::reduce && (request.wide_sums || request.precision == Precision::f64)) {
    out += ", summed in f64";
  } else if (request.form == Form::reduce) {
    out += ", summed in compensated f32";
  }
  if (request.columns_in_loop) out += " of columns in a loop";
  if (request.values.given) out += " with the cost";
  if (request.values.rows > 0) out += text(" and ", request.values.rows, " rows");
  return out + text(", ", name(request.precision), ", ", request.workgroup_size,
                    " invocations a workgroup", request.workgroup_items ? " and an item" : "");
}

std::uint32_t total(const BodyFacts& facts) {
  return std::accumulate(facts.operations.begin(), facts.operations.end(), 0u);
}

// "5: 2 add, 3 mul"
std::string operations(const BodyFacts& facts) {
  std::string out = text(total(facts));
  std::string_view separator = ": ";
  for (const ir::OpInfo& info : ir::kOps) {
    const std::uint32_t count = facts.operations[static_cast<std::size_t>(info.op)];
    if (count == 0) continue;
    out += text(separator, count, " ", info.name);
    separator = ", ";
  }
  return out;
}

std::vector<std::string> header(const KernelRequest& request, const BodyFacts& facts) {
  std::vector<std::string> out = {request.name +
                                  (request.title.empty() ? "" : ": " + request.title)};
  out.push_back("");
  out.push_back("form        " + form_line(request));
  if (request.form == Form::gather || request.form == Form::sum_terms) {
    out.push_back(text("owners      ", request.block_width, " scalars, ", request.out_width,
                       " sums, ", request.block_slots.size(),
                       request.block_slots.size() == 1 ? " role" : " roles"));
    if (request.form == Form::gather) {
      for (const GatherSlot& block_slot : request.block_slots) {
        out.push_back("role        " +
                      shape(block_slot.program.leaves, block_slot.program.outputs.size()));
      }
    }
  } else {
    out.push_back("instance    " + shape(request.program.leaves, request.program.outputs.size()));
  }
  out.push_back("operations  " + operations(facts));
  if (facts.statements > 0)
    out.push_back(text("code        ", facts.statements, " statements, with loops"));
  out.push_back(text("bytes       ", facts.bytes, " an instance"));
  return out;
}

}  // namespace

ColumnLayout general_layout(const ir::LeafCounts& leaves) {
  ColumnLayout out;
  for (std::uint32_t k = 0; k < leaves.parameters; ++k) out.parameters.push_back({.column = k});
  for (std::uint32_t k = 0; k < leaves.uniforms; ++k) {
    out.uniforms.push_back({.column = leaves.parameters + k});
  }
  for (std::uint32_t k = 0; k < leaves.data; ++k) out.data.push_back({.column = k});
  out.index_columns = leaves.parameters + leaves.uniforms;
  out.data_columns = leaves.data;
  return out;
}

void expect_count(const KernelRequest& request, std::string_view what, std::size_t expected,
                  std::size_t got) {
  if (expected != got) refuse(request, text("expected ", expected, " ", what, ", got ", got));
}

ExpectedLayout expected_layout(const KernelSource& source) {
  ExpectedLayout out;
  for (const BindingInfo& binding : source.bindings) {
    const bool wide = binding.element == Element::f64 || binding.element == Element::u64;
    out.bindings.push_back({.set = 0,
                            .binding = binding.binding,
                            .name = block_name(binding.name),
                            .element = binding.element,
                            .lanes = 1,
                            .stride = wide ? 8u : 4u,
                            .readonly = !binding.writes,
                            .writeonly = !binding.reads});
  }
  for (const std::string& member : source.push_constants) {
    out.push_constants.push_back({member, out.push_constant_size, 4});
    out.push_constant_size += 4;
  }
  out.workgroup_size = {source.workgroup_size, 1, 1};
  return out;
}

KernelSource generate(const KernelRequest& request) {
  check(request);
  Shader shader;
  const BodyFacts facts = write_body(request, shader);
  const bool fused = request.fusion != Fusion::none;
  std::vector<PushMember> push(kPushMembers.begin(),
                               fused ? kPushMembers.end() : kPushMembers.begin() + kUnfusedMembers);
  if (request.values.given) push.insert(push.end(), kValueMembers.begin(), kValueMembers.end());
  const std::size_t members = push.size();
  const std::set<ColumnForm>& forms = shader.forms();
  if (forms.size() > kMostFormWords) {
    refuse(request, text("expected at most ", kMostFormWords, " words for flexible columns, got ",
                         forms.size()));
  }
  std::vector<std::string> names;
  for (const ColumnForm& form : forms) names.push_back(form_name(form));
  for (const ColumnForm& form : forms) {
    push.push_back({names[push.size() - members], comment(form.word)});
  }
  KernelSource out = shader.finish({.name = request.name,
                                    .header = header(request, facts),
                                    .workgroup_size = request.workgroup_size,
                                    .push_constants = push,
                                    .float_controls_f32 = request.float_controls_f32,
                                    .float_controls_f64 = request.float_controls_f64});
  out.forms.assign(forms.begin(), forms.end());
  out.operations = total(facts);
  out.statements = facts.statements > 0 ? facts.statements : out.operations;
  out.bytes_per_instance = facts.bytes;
  return out;
}

}  // namespace topograd::codegen
