// Builds problems from descriptions of problem files.
#include "problem_file.hpp"

#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "expression/expression.hpp"
#include "formats/packed_text.hpp"
#include "problem_file/problem_file_description.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace topograd {
namespace {

using problem_file::ArrayDescription;
using problem_file::Binding;
using problem_file::BlockDescription;
using problem_file::Description;
using problem_file::Document;

/// A binding and the array that it reads; null for numbers in the file.
struct Bound {
  const Binding* binding = nullptr;
  const ArrayDescription* array = nullptr;
  std::size_t position = 0;  ///< index of the array in its list

  std::uint32_t width() const { return array == nullptr || binding->coordinate ? 1 : array->width; }
  /// Number of instances for which it is valid; 0 = any number.
  std::size_t count() const {
    if (array == nullptr) return binding->one_for_all ? 0 : binding->numbers.size();
    if (!binding->index.empty()) return binding->index.size();
    return binding->block || array->blocks() == 1 ? 0 : array->blocks();
  }
  std::uint32_t block(std::size_t instance) const {
    if (!binding->index.empty()) return binding->index[instance];
    return count() == 0 ? binding->block.value_or(0) : static_cast<std::uint32_t>(instance);
  }
  std::uint32_t coordinate(std::uint32_t k) const { return binding->coordinate.value_or(0) + k; }
  double number(std::size_t instance, std::uint32_t k) const {
    if (array != nullptr)
      return array->values[std::size_t{block(instance)} * array->width + coordinate(k)];
    return binding->numbers[binding->one_for_all ? 0 : instance];
  }
};

class Builder {
 public:
  Builder(const Document& document, const Description& description, Share share, ProblemFile& file)
      : document_(document), description_(description), share_(share), file_(file) {}

  void build() {
    check_names();
    file_.title = description_.title;
    for (const problem_file::TableDescription& table : description_.tables)
      file_.tables.push_back({table.path, table.rows, table.header, table.skipped});
    for (const ArrayDescription& array : description_.parameters)
      file_.parameters.push_back({array.name, array.width, array.values});
    for (std::size_t k = 0; k < file_.parameters.size(); ++k) add_array(k);
    for (const auto& uniform : description_.uniforms)
      uniforms_.push_back(file_.problem.add_uniform(uniform.value));
    std::vector<Block> blocks;
    std::uint64_t instances = 0;
    for (const BlockDescription& block : description_.residuals)
      instances += blocks.emplace_back(make_block(block)).count;
    const Slice slice = share_.slice(instances);
    std::uint64_t before = 0;
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const Slice here = slice.within({before, before + blocks[k].count});
      add_residuals(description_.residuals[k], blocks[k], {here.first - before, here.end - before});
      before += blocks[k].count;
    }
    for (const BlockDescription& block : description_.constraints) {
      const Block made = make_block(block);
      add_instances(block, made, {0, made.count});
    }
    file_.options = description_.options;
  }

 private:
  [[noreturn]] void fail(const std::string& pointer, const std::string& message) const {
    problem_file::fail(document_, pointer, message);
  }

  // Checks the names of parameters, data and uniforms, each list separately.
  void check_names() const {
    const auto check = [&](const auto& list) {
      std::set<std::string> seen;
      for (const auto& item : list) {
        if (!seen.insert(item.name).second)
          fail(item.pointer, "the name \"" + item.name + "\" is there twice");
      }
    };
    check(description_.parameters);
    check(description_.data);
    check(description_.uniforms);
  }

  void add_array(std::size_t k) {
    const ArrayDescription& array = description_.parameters[k];
    arrays_.push_back(file_.problem.add_parameters(file_.parameters[k].values,
                                                   static_cast<int>(array.width), array.name));
    if (array.all_constant) {
      for (std::size_t b = 0; b < array.blocks(); ++b) file_.problem.set_constant(arrays_[k], b);
    }
    for (const std::uint32_t b : array.constant) file_.problem.set_constant(arrays_[k], b);
    if (array.manifold) file_.problem.set_manifold(arrays_[k], *array.manifold);
    for (std::size_t s = 0; s < array.values.size(); ++s) {
      const auto coordinate = static_cast<int>(s % array.width);
      if (!array.lower.empty())
        file_.problem.set_lower_bound(arrays_[k], s / array.width, coordinate, array.lower[s]);
      if (!array.upper.empty())
        file_.problem.set_upper_bound(arrays_[k], s / array.width, coordinate, array.upper[s]);
    }
  }

  Bound bind(const Binding& binding, const std::vector<ArrayDescription>& arrays) const {
    if (binding.array.empty() && !binding.numbers.empty()) return {&binding};
    const auto found = std::ranges::find(arrays, binding.array, &ArrayDescription::name);
    if (found == arrays.end()) {
      std::string known;
      for (const ArrayDescription& array : arrays)
        known += (known.empty() ? "" : ", ") + array.name;
      fail(binding.pointer, "expected one of the arrays " + (known.empty() ? "(none)" : known) +
                                ", got \"" + binding.array + "\"");
    }
    if (binding.coordinate && *binding.coordinate >= found->width)
      fail(binding.pointer, "expected a coordinate below " + std::to_string(found->width) +
                                ", got " + std::to_string(*binding.coordinate));
    check_blocks(binding, *found);
    return {&binding, &*found, static_cast<std::size_t>(found - arrays.begin())};
  }

  void check_blocks(const Binding& binding, const ArrayDescription& array) const {
    const auto check = [&](std::uint32_t block, const std::string& where) {
      if (block < array.blocks()) return;
      fail(binding.pointer + "/index" + where, "expected a block of " + array.name + " below " +
                                                   std::to_string(array.blocks()) + ", got " +
                                                   std::to_string(block));
    };
    if (binding.block) check(*binding.block, "");
    for (std::size_t k = 0; k < binding.index.size(); ++k)
      check(binding.index[k], "/" + std::to_string(k));
  }

  std::size_t count_of(const BlockDescription& block, const std::vector<Bound>& columns) const {
    std::size_t count = block.count.value_or(0);
    std::string given = "\"count\" says";
    for (const Bound& column : columns) {
      if (column.count() == 0) continue;
      if (count != 0 && count != column.count()) {
        fail(column.binding->pointer, "expected " + std::to_string(count) + " entries as " + given +
                                          ", got " + std::to_string(column.count()));
      }
      if (count == 0) given = column.binding->pointer + " has";
      count = column.count();
    }
    check_repetitions(block, columns);
    return std::max<std::size_t>(count, 1);
  }

  // Limits the instances without distinct lists, so that a short file cannot exhaust memory.
  void check_repetitions(const BlockDescription& block, const std::vector<Bound>& columns) const {
    constexpr std::size_t kMostNumbers = std::size_t{1} << 24;
    if (!std::ranges::all_of(columns, [](const Bound& column) { return column.count() == 0; }))
      return;
    std::size_t width = 1;
    for (const Bound& column : columns) width += column.width();
    if (block.count.value_or(0) > kMostNumbers / width)
      fail(block.pointer + "/count", "expected at most " + std::to_string(kMostNumbers / width) +
                                         " instances that no list tells apart, got " +
                                         std::to_string(*block.count));
  }

  static void add_names(std::vector<std::string>& names, const Bound& bound) {
    for (std::uint32_t k = 0; k < bound.width(); ++k) {
      names.push_back(bound.binding->name +
                      (bound.width() == 1 ? "" : "[" + std::to_string(k) + "]"));
    }
  }

  /// One block of the file, ready to be traced.
  struct Block {
    std::vector<Bound> parameters, data;  ///< the weight is the last of `data`
    std::optional<std::size_t> weight_uniform;
    bool weighted = false;
    bool leaves_out = false;  ///< a weight of an instance is 0
    ExpressionNames names;
    std::vector<ir::Program> programs;
    std::size_t count = 0;
  };

  Block make_block(const BlockDescription& block) const {
    Block made;
    ExpressionNames& names = made.names;
    for (const Binding& binding : block.parameters) {
      made.parameters.push_back(bind(binding, description_.parameters));
      add_names(names.parameters, made.parameters.back());
    }
    for (const Binding& binding : block.data) {
      made.data.push_back(bind(binding, description_.data));
      add_names(names.data, made.data.back());
    }
    for (const auto& uniform : description_.uniforms) names.uniforms.push_back(uniform.name);
    if (block.weight) add_weight(*block.weight, made);
    for (std::size_t k = 0; k < block.expressions.size(); ++k)
      made.programs.push_back(expression(block.expressions[k], names,
                                         block.pointer + "/expressions/" + std::to_string(k)));
    std::vector<Bound> columns = made.parameters;
    columns.insert(columns.end(), made.data.begin(), made.data.end());
    made.count = count_of(block, columns);
    for (std::size_t i = 0; made.weighted && i < made.count && !made.leaves_out; ++i)
      made.leaves_out = made.data.back().number(i, 0) == 0;
    return made;
  }

  /// Describes all instances, and adds those of the slice.
  void add_residuals(const BlockDescription& block, const Block& made, Slice slice) {
    ProblemFile::Block described{.label = block.label, .first_row = rows_, .instances = made.count};
    for (const ir::Program& program : made.programs)
      described.rows += static_cast<std::uint32_t>(program.outputs.size());
    for (std::size_t i = 0; made.weighted && i < made.count; ++i)
      if (made.data.back().number(i, 0) == 0) described.left_out.push_back(i);
    if (block.kind == BlockKind::residual) rows_ += made.count * described.rows;
    file_.residuals.push_back(std::move(described));
    add_instances(block, made, slice);
    add_curve(block, made);
  }

  /// Adds the curve that the block fits, if there is one.
  void add_curve(const BlockDescription& block, const Block& made) {
    if (made.programs.size() != 1) return;
    CurveSource source{
        .label = block.label, .expression = block.expressions.front(), .names = made.names};
    for (const Bound& bound : made.parameters) {
      if (bound.count() != 0) return;  // each instance has its own unknowns
      for (std::uint32_t k = 0; k < bound.width(); ++k)
        source.parameters.push_back(
            &file_.parameters[bound.position]
                 .values[std::size_t{bound.block(0)} * bound.array->width + bound.coordinate(k)]);
    }
    const std::size_t instances = file_.residuals.back().instances;
    for (std::size_t b = 0; b < made.data.size() - (made.weighted ? 1 : 0); ++b) {
      const Bound& bound = made.data[b];
      for (std::uint32_t k = 0; k < bound.width(); ++k) {
        std::vector<double>& column = source.data.emplace_back();
        for (std::size_t i = 0; i < instances; ++i) column.push_back(bound.number(i, k));
      }
    }
    for (const auto& uniform : description_.uniforms) source.uniforms.push_back(uniform.value);
    std::optional<Curve> curve = find_curve(std::move(source));
    if (!curve) return;
    curve->left_out = file_.residuals.back().left_out;
    file_.curves.push_back(std::move(*curve));
  }

  void add_weight(const Binding& weight, Block& block) const {
    const auto& uniforms = description_.uniforms;
    const auto uniform =
        std::ranges::find(uniforms, weight.array, &problem_file::UniformDescription::name);
    if (!weight.array.empty() && uniform != uniforms.end()) {
      block.weight_uniform = static_cast<std::size_t>(uniform - uniforms.begin());
      return;
    }
    block.data.push_back(bind(weight, description_.data));
    block.weighted = true;
    if (block.data.back().width() != 1)
      fail(weight.pointer, "expected one number an instance, got an array of width " +
                               std::to_string(block.data.back().width()));
  }

  ir::Program expression(const std::string& text, const ExpressionNames& names,
                         const std::string& pointer) const {
    try {
      return parse(text, names);
    } catch (const Error& error) {
      const std::string message = error.what();
      fail(pointer, message.substr(0, message.find('\n')));
    }
  }

  void add_instances(const BlockDescription& block, const Block& made, Slice slice) {
    if (slice.size() == 0) return;
    std::vector<std::uint32_t> indices;
    std::vector<double> numbers;
    for (std::size_t i = slice.first; i < slice.end; ++i) {
      for (const Bound& bound : made.parameters) indices.push_back(bound.block(i));
      for (const Bound& bound : made.data) {
        for (std::uint32_t k = 0; k < bound.width(); ++k) numbers.push_back(bound.number(i, k));
      }
      if (made.weighted) numbers.back() = root_of_weight(block, i, numbers.back());
    }
    const auto count = static_cast<std::size_t>(slice.size());
    const auto rows = [&](Element e) { return trace(made, e); };
    const MapOptions options{
        .indices = indices, .data = numbers, .loss = block.loss, .label = block.label};
    try {
      switch (block.kind) {
        case BlockKind::residual: file_.problem.add_residuals(count, rows, options); break;
        case BlockKind::energy: file_.problem.add_energies(count, rows, options); break;
        case BlockKind::equality: file_.problem.add_equalities(count, rows, options); break;
        case BlockKind::inequality: file_.problem.add_inequalities(count, rows, options); break;
      }
    } catch (const Error& error) {
      fail(block.pointer, error.what());
    }
  }

  double root_of_weight(const BlockDescription& block, std::size_t instance, double weight) const {
    if (weight >= 0) return std::sqrt(weight);
    fail(block.weight->pointer, "expected weights >= 0, got " + ir::print_number(weight) +
                                    " for instance " + std::to_string(instance));
  }

  std::vector<Value> trace(const Block& block, const Element& e) const {
    std::vector<Value> parameters, data, uniforms;
    for (std::size_t b = 0; b < block.parameters.size(); ++b) {
      const Bound& bound = block.parameters[b];
      for (std::uint32_t k = 0; k < bound.width(); ++k)
        parameters.push_back(arrays_[bound.position](e.index(static_cast<int>(b)),
                                                     static_cast<int>(bound.coordinate(k))));
    }
    for (int k = 0; k < e.data_count(); ++k) data.push_back(e.data(k));
    for (const Uniform& uniform : uniforms_) uniforms.push_back(uniform);
    std::vector<Value> rows;
    for (const ir::Program& program : block.programs) {
      for (Value& row : to_values(program, {parameters, data, uniforms}))
        rows.push_back(std::move(row));
    }
    for (Value& row : rows) {
      if (block.weighted) row = weighted(row, data.back(), data.back(), block.leaves_out);
      if (!block.weight_uniform) continue;
      const Value& weight = uniforms[*block.weight_uniform];
      row = weighted(row, weight, sqrt(weight), true);
    }
    return rows;
  }

  /// The row times the root of its weight; 0 without the weight, also where it is not finite.
  ///
  ///   leaves_out  weights may be 0
  static Value weighted(const Value& row, const Value& weight, const Value& root, bool leaves_out) {
    return leaves_out ? select(weight != literal(0), row * root, literal(0)) : row * root;
  }

  const Document& document_;
  const Description& description_;
  Share share_;
  ProblemFile& file_;
  std::uint64_t rows_ = 0;  // of residuals so far, of all shares
  std::vector<Parameters> arrays_;
  std::vector<Uniform> uniforms_;
};

}  // namespace

std::unique_ptr<ProblemFile> parse_problem_file(std::string_view text, const std::string& name,
                                                const problem_file::FileReader& read_file,
                                                Share share) {
  const auto beside = [&](const std::string& path) {
    return read_packed_text((std::filesystem::path(name).parent_path() / path).string());
  };
  text.remove_prefix(text_begin(text, name));
  const Document document = {name, text, read_file ? read_file : beside};
  Description description = problem_file::read_description(document);
  problem_file::repeat(document, description);
  auto file = std::make_unique<ProblemFile>();
  Builder(document, description, share, *file).build();
  return file;
}

std::unique_ptr<ProblemFile> read_problem_file(const std::string& path, Share share) {
  return parse_problem_file(read_packed_text(path), path, {}, share);
}

}  // namespace topograd
