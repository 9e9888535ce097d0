// Traces elements again and updates their forms.
#include "callables.hpp"

#include "problem_state.hpp"

#include <algorithm>
#include <string>

namespace topograd::detail {
namespace {

/// Number of branches of one path whose other sides are evaluated together.
constexpr std::size_t kMostNeighbours = 64;
/// Failed branches after which an element becomes one expression of all its paths.
constexpr std::uint32_t kFlipsToCombine = 2;

}  // namespace

TracedPath trace_element(const RowsOfElement& call, const ProblemState& state, MapTrace& trace,
                         const Point& point, std::span<const std::uint32_t> indices,
                         std::span<const double> data, std::span<const bool> script,
                         const Caller& caller) {
  const BranchScope::Element element{&trace, indices, data};
  const BranchScope scope(state, point, &element, script);
  TracedPath path =
      trace_path([&](std::vector<Value>& rows) { call(Element(trace), rows); }, caller);
  path.forms = trace.forms;
  return path;
}

TracedMap::TracedMap(RowsOfElement call, const MapOptions& options, std::vector<std::uint64_t> ids)
    : call_(std::move(call)),
      indices_(options.indices.begin(), options.indices.end()),
      offsets_(options.offsets.begin(), options.offsets.end()),
      data_offsets_(options.data_offsets.begin(), options.data_offsets.end()),
      data_(options.data.begin(), options.data.end()),
      options_{
          .indices = indices_, .data = data_, .offsets = offsets_, .data_offsets = data_offsets_},
      elements_(ids.size(), options_,
                Caller{.call = "add_residuals", .label = {}, .number = 0, .problem = 0}),
      ids_(std::move(ids)),
      states_(ids_.size()) {}

void TracedMap::add_shape(ElementPaths paths) {
  const auto number = static_cast<std::uint32_t>(shapes_.size());
  ElementForms& shape = shapes_.emplace_back();
  shape.paths = std::move(paths.paths);
  for (std::uint32_t k = 0; k < shape.paths.size(); ++k) shape.forms.push_back({{k}, {}});
  for (std::size_t k = 0; k < paths.elements.size(); ++k)
    states_[paths.elements[k]] = {number, paths.path_of[k], 0};
}

std::size_t TracedMap::element_of(std::uint64_t id) const {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  return at != ids_.end() && *at == id ? static_cast<std::size_t>(at - ids_.begin()) : ids_.size();
}

std::uint32_t TracedMap::run(const ProblemState& state, std::size_t element, const Point& point,
                             std::span<const bool> script, const Caller& caller) {
  const std::span<const std::uint32_t> indices = elements_.indices(element);
  const std::span<const double> data = elements_.data(element);
  MapTrace trace{state.serial,
                 next_serial(),
                 static_cast<int>(indices.size()),
                 static_cast<int>(data.size()),
                 {}};
  TracedPath path = trace_element(call_, state, trace, point, indices, data, script, caller);
  const std::size_t one[] = {element};
  elements_.check_ranges(path.forms, one, caller);
  ElementForms& shape = shapes_[states_[element].shape];
  const auto known = std::ranges::find_if(
      shape.paths, [&](const TracedPath& p) { return same_branches(p, path); });
  const auto number = static_cast<std::uint32_t>(known - shape.paths.begin());
  if (known == shape.paths.end()) shape.paths.push_back(std::move(path));
  return number;
}

std::uint32_t TracedMap::path_at(const ProblemState& state, std::size_t element, const Point& point,
                                 const Caller& caller) {
  const ElementForms& shape = shapes_[states_[element].shape];
  for (std::uint32_t k = 0; k < shape.paths.size(); ++k) {
    const ElementNumbers own = numbers(element, shape.paths[k]);
    if (holds(shape.paths[k], state, point, &own)) return k;
  }
  return run(state, element, point, {}, caller);
}

std::vector<std::uint32_t> TracedMap::neighbours(const ProblemState& state, std::size_t element,
                                                 const Point& point, std::uint32_t path,
                                                 const Caller& caller) {
  std::vector<std::uint32_t> out;
  const TracedPath base = shapes_[states_[element].shape].paths[path];
  const std::size_t count = base.own_branches().size();
  if (count > kMostNeighbours)
    caller.fail(ErrorCode::StaleBranch,
                "one of " + std::to_string(count) +
                    " branches is decided otherwise by the backend than by its numbers; at most " +
                    std::to_string(kMostNeighbours) + " can be combined");
  const auto script = std::make_unique<bool[]>(count);
  for (std::size_t k = 0; k < count; ++k) {
    script[k] = !base.own_branches()[k].taken;
    out.push_back(run(state, element, point, {script.get(), k + 1}, caller));
    script[k] = base.own_branches()[k].taken;
  }
  return out;
}

std::uint32_t TracedMap::form_of(std::uint32_t number, std::vector<std::uint32_t> paths,
                                 const Caller& caller) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  ElementForms& shape = shapes_[number];
  const auto known = std::ranges::find_if(
      shape.forms, [&](const ElementForms::Form& form) { return form.paths == paths; });
  if (known != shape.forms.end()) return static_cast<std::uint32_t>(known - shape.forms.begin());
  ElementForms::Form form{std::move(paths), {}};
  if (form.paths.size() > 1) {
    std::vector<const TracedPath*> parts;
    for (const std::uint32_t k : form.paths) parts.push_back(&shape.paths[k]);
    form.combined = combine(parts, caller);
  }
  shape.forms.push_back(std::move(form));
  return static_cast<std::uint32_t>(shape.forms.size() - 1);
}

ConcreteTape TracedMap::retake(const ProblemState& state, std::size_t element, const Point& point,
                               const Caller& caller) {
  if (shapes_.empty()) shapes_.emplace_back();
  ElementState& own = states_[element];
  const std::uint32_t path = path_at(state, element, point, caller);
  const ElementNumbers read = numbers(element, shapes_[own.shape].paths[path]);
  if (!outer_holds(shapes_[own.shape].paths[path], state, point, &read))
    caller.fail(ErrorCode::StaleBranch,
                "a branch that was taken outside of the callable holds no longer");
  ++own.flips;
  std::vector<std::uint32_t> paths;
  if (own.form != kUnknownForm) paths = shapes_[own.shape].forms[own.form].paths;
  const bool stuck = std::ranges::find(paths, path) != paths.end();
  if (!stuck && own.flips < kFlipsToCombine && paths.size() < 2) paths.clear();
  paths.push_back(path);
  if (stuck) {
    const std::vector<std::uint32_t> others = neighbours(state, element, point, path, caller);
    paths.insert(paths.end(), others.begin(), others.end());
  }
  own.form = form_of(own.shape, std::move(paths), caller);
  const ElementForms& shape = shapes_[own.shape];
  const ElementForms::Form& form = shape.forms[own.form];
  const TracedPath& taken = form.paths.size() > 1 ? form.combined : shape.paths[form.paths.front()];
  return concrete(taken, numbers(element, taken), state.serial);
}

bool TracedMap::includes(const ElementState& a, const ElementState& b) const {
  if (a.form == kUnknownForm || b.form == kUnknownForm) return false;
  const std::vector<ElementForms::Form>& forms = shapes_[a.shape].forms;
  return std::ranges::includes(forms[a.form].paths, forms[b.form].paths);
}

std::size_t TracedMap::bytes() const {
  std::size_t total = (indices_.capacity() + offsets_.capacity() + data_offsets_.capacity()) * 4 +
                      (data_.capacity() + ids_.capacity()) * 8 +
                      states_.capacity() * sizeof(ElementState);
  for (const ElementForms& shape : shapes_) {
    for (const TracedPath& path : shape.paths)
      total += path.nodes.capacity() * (sizeof(TapeNode) + sizeof(std::uint64_t));
    for (const ElementForms::Form& form : shape.forms)
      total += form.combined.nodes.capacity() * (sizeof(TapeNode) + sizeof(std::uint64_t));
  }
  return total;
}

TracedMap* Callables::find(std::uint64_t id) {
  auto after = maps.upper_bound(id);
  if (after != maps.begin()) {
    TracedMap& map = *std::prev(after)->second;
    if (map.element_of(id) < map.ids().size()) return &map;
  }
  const auto single = singles.find(id);
  if (single == singles.end()) return nullptr;
  auto made = std::make_unique<TracedMap>(
      [call = std::move(single->second)](Element, std::vector<Value>& rows) { call(rows); },
      MapOptions{}, std::vector<std::uint64_t>{id});
  singles.erase(single);
  return maps.emplace(id, std::move(made)).first->second.get();
}

}  // namespace topograd::detail
