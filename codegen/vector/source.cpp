// Vector kernels from their GLSL files: types, widths and names filled in, sums and loops written
// out.
#include "source.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "../../ir/error.hpp"

namespace topograd::codegen {
namespace {

constexpr std::string_view kMain = "void main() {";

void require(bool holds, std::string_view what, std::string_view line) {
  if (!holds) throw Error(ErrorCode::Internal, text("vector kernels: ", what, ": ", line));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// The lines of a file. Comments at its top that stand alone, or before main(), are left out.
std::vector<std::string_view> file(std::string_view name) {
  const auto found = std::ranges::find(source_texts(), name, &SourceText::name);
  require(found != source_texts().end(), "expected a file of this name", name);
  std::vector<std::string_view> lines = lines_of(found->text);
  const auto code = std::ranges::find_if(lines, [](auto line) { return !line.starts_with("//"); });
  if (code != lines.end() && (code->empty() || *code == kMain)) lines.erase(lines.begin(), code);
  return lines;
}

std::size_t blanks(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool take(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

struct Block {
  std::size_t middle, end;  ///< its #else, or #end; its #end
};
Block block(std::span<const std::string_view> lines, std::size_t at) {
  Block out{0, at};
  for (std::size_t depth = 1; depth > 0;) {
    require(++out.end < lines.size(), "expected #end after", lines[at]);
    const std::string_view line = lines[out.end].substr(blanks(lines[out.end]));
    depth += line.starts_with("#if ") || line == "#each" ? 1 : 0;
    depth -= line == "#end" ? 1 : 0;
    if (out.middle == 0 && (depth == 0 || (depth == 1 && line == "#else"))) out.middle = out.end;
  }
  return out;
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// The line for one coordinate of a block.
std::string at(std::string_view line, std::uint32_t coordinate) {
  std::string out(line);
  if (coordinate == 0) {
    replace(out, " + $u", "");
    replace(out, "$u * count + ", "");
  } else {
    replace(out, "$before", std::to_string(coordinate - 1));
  }
  replace(out, "$", std::to_string(coordinate));
  return out;
}

/// Position behind the parenthesis that ends what begins before `from`.
std::size_t closing(std::string_view text, std::size_t from) {
  for (int depth = 1; depth > 0; ++from) {
    require(from < text.size(), "expected a closing parenthesis in", text);
    depth += text[from] == '(' ? 1 : text[from] == ')' ? -1 : 0;
  }
  return from;
}

/// The number of a word that names a state or a verdict.
std::optional<double> state_number(std::string_view word) {
  const struct {
    std::string_view word;
    double number;
  } numbers[] = {{"RUNNING", static_cast<double>(SolverState::running)},
                 {"CONVERGED", static_cast<double>(SolverState::converged)},
                 {"BREAKDOWN", static_cast<double>(SolverState::breakdown)},
                 {"UNDECIDED", static_cast<double>(Verdict::undecided)},
                 {"REFUSED", static_cast<double>(Verdict::refused)},
                 {"ACCEPTED", static_cast<double>(Verdict::accepted)}};
  const auto* const found =
      std::ranges::find(numbers, word, [](const auto& one) { return one.word; });
  return found == std::end(numbers) ? std::nullopt : std::optional(found->number);
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Position of (i, j) in a packed upper triangle.
std::uint32_t packed_position(std::uint32_t width, std::uint32_t i, std::uint32_t j) {
  const std::uint32_t row = std::min(i, j), column = std::max(i, j);
  return row * (2 * width - row + 1) / 2 + column - row;
}

}  // namespace

const VectorSource::Statement VectorSource::kStatements[] = {
    {"begin_sum", &VectorSource::begin_sum},  // (s): s = 0
    {"add", &VectorSource::add},              // (s, e): s += e
    {"total", &VectorSource::total},          // (s, b, f, n): s = sum of b[f] to b[f + n - 1]
    {"store_sum", &VectorSource::store_sum},  // (n, s, b): workgroup's sum n, to buffer b
    {"begin_products", &VectorSource::begin_products},  // (s, n): s = 0, of products about n in all
    {"add_products", &VectorSource::add_products},      // (s, a, b): s += ALL(a b)
    {"add_rounded", &VectorSource::add_rounded},        // the same, but products may be rounded
    {"store_products", &VectorSource::store_products},  // as store_sum
    {"begin_row", &VectorSource::begin_row},            // (s): s = 0, of one row
    {"add_row", &VectorSource::add_row},                // (s, a, b): s += a b
    {"store_maximum", &VectorSource::store_maximum},    // the same for its maximum
    {"decide", &VectorSource::decide},                  // declares rz, rr; changes state
    {"begin_direction", &VectorSource::begin_direction},  // declares beta, or returns
    {"apply_inverse", &VectorSource::apply_inverse},  // declares z_j = Σ inverse_jk r_k of block b
    {"fold_row_sums", &VectorSource::fold_row_sums},  // sum_j of `lanes` to the first of them
};

VectorSource::VectorSource(const VectorKernelRequest& request, Shader& shader)
    : request_(request),
      row_(row(request.op)),
      shader_(shader),
      sums_(request.scalars, request.workgroup_size),
      products_(request.vectors, request.scalars, request.workgroup_size),
      conjugate_(shader, request.scalars, request.workgroup_size) {}

void VectorSource::write() {
  if (row_.predicates && request_.predicated) write_predicate(shader_, request_.scalars);
  const std::vector<std::string_view> given = file(row_.name);
  std::vector<std::string> lines;
  expand(given, "", std::nullopt, lines);
  const auto main = std::ranges::find(lines, kMain);
  std::string declarations;
  for (auto one = lines.begin(); one != main; ++one)
    declarations += one->empty() && declarations.empty() ? "" : fill(*one) + "\n";
  while (declarations.ends_with("\n\n")) declarations.pop_back();
  if (!declarations.empty()) shader_.declare(row_.name, declarations);
  for (auto one = main + 1; one + 1 < lines.end(); ++one) line(*one);
}

void VectorSource::expand(std::span<const std::string_view> lines, std::string_view indent,
                          std::optional<std::uint32_t> coordinate,
                          std::vector<std::string>& out) const {
  const auto emit = [&](std::string_view line, std::optional<std::uint32_t> j) {
    const std::string whole = line.empty() ? std::string() : text(indent, line);
    out.push_back(j ? at(whole, *j) : whole);
  };
  for (std::size_t k = 0; k < lines.size(); ++k) {
    const std::string_view before = lines[k].substr(0, blanks(lines[k]));
    std::string_view rest = lines[k].substr(before.size());
    const auto several = [&](std::uint32_t first) {
      for (std::uint32_t j = first; j < request_.width; ++j) emit(text(before, rest), j);
    };
    if (take(rest, "#include ")) {
      expand(file(rest), text(indent, before), coordinate, out);
    } else if (take(rest, "#if ")) {
      const Block b = block(lines, k);
      expand(holds(rest) ? lines.subspan(k + 1, b.middle - k - 1)
                         : lines.subspan(std::min(b.middle + 1, b.end),
                                         b.end - std::min(b.middle + 1, b.end)),
             indent, coordinate, out);
      k = b.end;
    } else if (rest == "#each") {
      const Block b = block(lines, k);
      for (std::uint32_t j = 0; j < request_.width; ++j)
        expand(lines.subspan(k + 1, b.end - k - 1), indent, j, out);
      k = b.end;
    } else if (take(rest, "#each ")) {
      several(0);
    } else if (take(rest, "#rest ")) {
      several(1);
    } else {
      emit(lines[k], coordinate);
    }
  }
}

bool VectorSource::holds(std::string_view flag) const {
  if (take(flag, "!")) return !holds(flag);
  const struct {
    std::string_view name;
    bool holds;
  } flags[] = {{"predicated", request_.predicated},
               {"unpreconditioned", request_.unpreconditioned},
               {"decides", request_.decides},
               {"now", request_.step_time == StepTime::now},
               {"later", request_.step_time == StepTime::later},
               {"both", request_.step_time == StepTime::both},
               {"wide", request_.vectors == Precision::f64}};
  const auto* const found =
      std::ranges::find(flags, flag, [](const auto& one) { return one.name; });
  require(found != std::end(flags), "expected a flag of VectorSource", flag);
  return found->holds;
}

std::string VectorSource::all(std::string line) const {
  for (std::size_t begin; (begin = line.find("ALL(")) != std::string::npos;) {
    const std::size_t end = closing(line, begin + 4);
    const std::string term = line.substr(begin + 4, end - begin - 5);
    std::string sum;
    for (std::uint32_t j = 0; j < request_.width; ++j) sum += (j > 0 ? " + " : "") + at(term, j);
    line.replace(begin, end - begin, sum);
  }
  return line;
}

std::string VectorSource::fill(std::string_view line) {
  std::string out;
  for (std::size_t k = 0; k < line.size();) {
    std::size_t end = k;
    const bool number = std::isdigit(static_cast<unsigned char>(line[k])) != 0;
    while (end < line.size() && (in_word(line[end]) || (number && line[end] == '.'))) ++end;
    if (end == k) {
      if (line.substr(k).starts_with("//")) return out + std::string(line.substr(k));
      out += line[k++];
    } else {
      out += word(line.substr(k, end - k));
      k = end;
    }
  }
  return out;
}

/// Words for sums of products; empty for others.
std::string VectorSource::sum_word(std::string_view word) {
  const bool pairs = products_.has_pairs();
  if (word == "workgroup_products") {
    if (pairs) return std::string(products_.function(shader_, "workgroup_pairs"));
    note("workgroup_sum");
    return "workgroup_sum";
  }
  if (word == "row_real")
    return std::string(pairs ? products_.function(shader_, "pair_float")
                             : scalar_type(request_.vectors));
  if (word == "row_sum")
    return std::string(pairs ? products_.function(shader_, "pair_double")
                             : scalar_type(request_.scalars));
  return {};
}

std::string VectorSource::word(std::string_view word) {
  const auto value = [&](auto of) { return literal(static_cast<double>(of), request_.scalars); };
  if (word == "REAL") return std::string(scalar_type(request_.vectors));
  if (word == "SUM") return std::string(scalar_type(request_.scalars));
  if (word == "WIDTH") return unsigned_literal(request_.width);
  if (word == "PACKED") return unsigned_literal(request_.width * (request_.width + 1) / 2);
  if (word == "GROUP") return unsigned_literal(request_.workgroup_size);
  if (const auto number = state_number(word)) return value(*number);
  if (std::string sum = sum_word(word); !sum.empty()) return sum;
  if (word == "is_nan" || word == "is_inf") return shader_.math_function(word, request_.scalars);
  if (word.ends_with("_s")) {
    double number = 0;
    const char* const end = word.data() + word.size() - 2;
    if (std::from_chars(word.data(), end, number).ptr == end) return value(number);
  }
  note(word);
  return std::string(word);
}

/// Declares the function or buffer that the word names, or the listed scalars of that buffer.
void VectorSource::note(std::string_view word) {
  if (word == "workgroup_sum") sums_.total(shader_, "");
  if (word == "maximum") declare_maximum(shader_, request_.scalars);
  if (word == "workgroup_max")
    workgroup_max(shader_, "", request_.scalars, request_.workgroup_size);
  for (const BufferRow& buffer : row_.buffers) {
    const Element element = buffer.numbers == Numbers::words     ? Element::u32
                            : buffer.numbers == Numbers::vectors ? element_of(request_.vectors)
                                                                 : element_of(request_.scalars);
    const auto found = std::ranges::find(buffer.named_scalars, word, constant_name);
    const bool named = found != buffer.named_scalars.end();
    if (named) use_scalars(shader_, buffer.role, request_.scalars, {*found}, buffer.access);
    if (!named && buffer.named_scalars.empty() && buffer.name == word)
      shader_.use(buffer.role, element, buffer.access, buffer.name);
  }
}

void VectorSource::line(std::string_view given) {
  const std::string whole = all(std::string(given));
  const std::size_t indent = blanks(whole);
  std::string_view rest = std::string_view(whole).substr(indent);
  shader_.body().set_depth(static_cast<int>(indent / 2));
  if (take(rest, "GRID(")) {
    const std::size_t comma = rest.find(", "), end = closing(rest, 0);
    const std::string i(rest.substr(0, comma));
    shader_.body().line(fill("uint grid = gl_NumWorkGroups.x * GROUP;"));
    shader_.body().line(
        fill(text("for (uint ", i, " = gl_GlobalInvocationID.x; ", i, " < ",
                  rest.substr(comma + 2, end - comma - 3), "; ", i, " += grid) {")));
    return;
  }
  if (take(rest, "CHUNK(")) {
    const std::string k(rest.substr(0, closing(rest, 0) - 1));
    shader_.body().line(fill("uint end = ends[2u * gl_WorkGroupID.x + 1u];"));
    shader_.body().line(
        fill(text("for (uint ", k, " = ends[2u * gl_WorkGroupID.x] + gl_LocalInvocationIndex; ", k,
                  " < end; ", k, " += GROUP) {")));
    return;
  }
  for (const Statement& statement : kStatements) {
    std::string_view from = rest;
    if (!take(from, statement.name) || !take(from, "(")) continue;
    from = from.substr(0, closing(from, 0) - 1);
    std::vector<std::string> arguments;
    for (std::size_t begin = 0; begin < from.size();) {
      const bool expression = statement.name == "add" && !arguments.empty();
      const std::size_t end =
          expression ? from.size() : std::min(from.find(", ", begin), from.size());
      arguments.emplace_back(from.substr(begin, end - begin));
      begin = end + 2;
    }
    return (this->*statement.write)(arguments);
  }
  shader_.body().line(fill(rest));
}

void VectorSource::begin_sum(Arguments arguments) { sums_.begin(shader_, arguments[0]); }

void VectorSource::add(Arguments arguments) {
  const std::string term = arguments[0] + "_term";
  shader_.body().line("precise ", scalar_type(request_.scalars), " ", term, " = ",
                      fill(arguments[1]), ";");
  sums_.add(shader_, arguments[0], term, request_.scalars);
}

void VectorSource::total(Arguments arguments) {
  const Summation::PartialSums one[] = {{arguments[0], fill(arguments[1]), fill(arguments[2])}};
  sums_.totals(shader_, one, fill(arguments[3]));
}

void VectorSource::store(std::string_view index, const std::string& value,
                         std::string_view buffer) {
  note(buffer);
  const std::string row = index == "0"   ? std::string()
                          : index == "1" ? std::string("out_stride + ")
                                         : text(index, "u * out_stride + ");
  const std::string total = text("total_", index);
  shader_.body().line(scalar_type(request_.scalars), " ", total, " = ", value, ";");
  shader_.body().line("if (gl_LocalInvocationIndex == 0u) ", buffer, "[out_first + ", row,
                      "gl_WorkGroupID.x] = ", total, ";");
}

void VectorSource::store_sum(Arguments arguments) {
  store(arguments[0], sums_.total(shader_, arguments[1]), arguments[2]);
}

void VectorSource::begin_products(Arguments arguments) {
  products_.begin(shader_, arguments[0],
                  arguments.size() > 1 && products_.has_pairs() ? fill(arguments[1]) : "");
}

void VectorSource::add_products(Arguments arguments) { add_products(arguments, true); }

void VectorSource::add_rounded(Arguments arguments) { add_products(arguments, false); }

void VectorSource::add_products(Arguments arguments, bool exact) {
  const std::string &a = arguments[1], &b = arguments[2];
  const bool one = a.find('$') == std::string::npos && b.find('$') == std::string::npos;
  std::vector<ProductSum::Product> products;
  for (std::uint32_t j = 0; j < (one ? 1 : request_.width); ++j)
    products.push_back({fill(at(a, j)), fill(at(b, j))});
  products_.add(shader_, arguments[0], products, exact);
}

void VectorSource::store_products(Arguments arguments) {
  store(arguments[0], products_.total(shader_, arguments[1]), arguments[2]);
}

void VectorSource::begin_row(Arguments arguments) {
  if (products_.has_pairs())
    shader_.body().line("vec2 ", arguments[0], " = vec2(0.0);");
  else
    shader_.body().line(fill(text("precise SUM ", arguments[0], " = SUM(0);")));
}

void VectorSource::add_row(Arguments arguments) {
  const std::string &sum = arguments[0], &a = arguments[1], &b = arguments[2];
  if (products_.has_pairs())
    shader_.body().line(sum, " = ", products_.function(shader_, "add_product"), "(", sum, ", ",
                        fill(a), ", ", fill(b), ");");
  else
    shader_.body().line(fill(text(sum, " += SUM(", a, ") * SUM(", b, ");")));
}

void VectorSource::store_maximum(Arguments arguments) {
  store(arguments[0],
        workgroup_max(shader_, arguments[1], request_.scalars, request_.workgroup_size),
        arguments[2]);
}

void VectorSource::decide(Arguments) { conjugate_.decide(); }

void VectorSource::begin_direction(Arguments) { conjugate_.open_direction(true); }

void VectorSource::apply_inverse(Arguments) {
  const std::uint32_t width = request_.width;
  for (std::uint32_t p = 0; p < width * (width + 1) / 2; ++p) {
    const std::string entry = p == 0 ? "" : p == 1 ? "count + " : text(p, "u * count + ");
    shader_.body().line(
        fill(text("REAL m_", p, " = inverse_blocks[inverse_first + ", entry, "b];")));
  }
  for (std::uint32_t j = 0; j < width; ++j) {
    std::string sum;
    for (std::uint32_t k = 0; k < width; ++k)
      sum += text(k > 0 ? " + " : "", "m_", packed_position(width, j, k), " * r_", k);
    shader_.body().line(fill(text("precise REAL z_", j, " = ", sum, ";")));
  }
}

/// kSumsAtOnce coordinates at a time.
void VectorSource::fold_row_sums(Arguments) {
  constexpr std::uint32_t kSumsAtOnce = 4;
  const std::uint32_t width = request_.width, together = std::min(width, kSumsAtOnce);
  Lines& body = shader_.body();
  const std::string_view type = products_.has_pairs() ? "vec2" : "SUM";
  shader_.declare("row_sums", fill(text("shared ", type, " row_sums[", together, " * GROUP];")));
  const auto each = [&](std::uint32_t first, std::string_view pattern) {
    for (std::uint32_t j = first; j < std::min(first + together, width); ++j) {
      const std::string at =
          fill(text("row_sums[", j - first, "u * GROUP + gl_LocalInvocationIndex"));
      body.line(substitute(pattern, {{"at", at}, {"j", std::to_string(j)}}));
    }
  };
  for (std::uint32_t first = 0; first < width; first += together) {
    each(first, "{at}] = sum_{j};");
    body.line("barrier();");
    body.open("for (uint other = lanes / 2u; other > 0u; other >>= 1u)");
    body.open("if (lane < other)");
    each(first, products_.has_pairs() ? "{at}] = compensated_add({at}], {at} + other]);"
                                      : "{at}] += {at} + other];");
    body.close();
    body.line("barrier();");
    body.close();
    each(first, "sum_{j} = {at}];");
    if (first + together < width) body.line("barrier();");
  }
}

// The beginning of kernels of conjugate gradients: sums of partial sums, and their consequences.
// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.

std::string constant_name(Scalar scalar) {
  std::string out(name(scalar));
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

void use_scalars(Shader& shader, BufferRole role, Precision precision,
                 std::initializer_list<Scalar> named_scalars, Access access) {
  shader.use(role, element_of(precision), access);
  for (const Scalar scalar : named_scalars) {
    const std::string key = constant_name(scalar);
    shader.declare(key, text("const uint ", key, " = ", unsigned_literal(slot(scalar)), ";"));
  }
}

void ConjugateSource::lines(std::string_view pattern) {
  if (pattern.starts_with('\n')) pattern.remove_prefix(1);
  const auto state = [&](SolverState value) {
    return literal(static_cast<double>(value), scalars_);
  };
  shader_.body().lines(
      substitute(pattern, {{"S", std::string(scalar_type(scalars_))},
                           {"running", state(SolverState::running)},
                           {"converged", state(SolverState::converged)},
                           {"breakdown", state(SolverState::breakdown)},
                           {"limit", state(SolverState::limit)},
                           {"is_nan", shader_.math_function("is_nan", scalars_)},
                           {"is_inf", shader_.math_function("is_inf", scalars_)}}));
}

void ConjugateSource::decide() {
  const std::string partials(shader_.use(BufferRole::partials, element_of(scalars_)));
  const Summation::PartialSums both[] = {{"rz", partials, "sums_first"},
                                         {"rr", partials, "sums_first + sums_stride"}};
  sums_.totals(shader_, both, "sums_count");
  use_scalars(shader_, BufferRole::scalars, scalars_,
              {Scalar::in_energy, Scalar::iterations, Scalar::threshold, Scalar::max_iterations});
  lines(R"(
{S} iterations = scalars[ITERATIONS];
precise {S} left = scalars[IN_ENERGY] != {S}(0) ? rz : rr;
if (left <= scalars[THRESHOLD]) {
  state = {converged};
} else if (!(rz > {S}(0)) || {is_inf}(rz) || {is_nan}(rr)) {
  state = {breakdown};
} else if (iterations >= scalars[MAX_ITERATIONS]) {
  state = {limit};
}
)");
}

void ConjugateSource::open_direction(bool decides) {
  use_scalars(shader_, BufferRole::scalars, scalars_,
              {Scalar::next_state, Scalar::iterations, Scalar::threshold, Scalar::max_iterations,
               Scalar::previous_rz});
  if (decides) {
    use_scalars(shader_, BufferRole::decision, scalars_, {Scalar::state, Scalar::rz, Scalar::rr},
                Access::write);
  }
  lines("{S} state = scalars[NEXT_STATE];");
  if (decides) {
    lines("if (state != {running} && gl_GlobalInvocationID.x == 0u) decision[STATE] = state;");
  }
  lines("if (state != {running}) return;");
  decide();
  if (decides) {
    lines(R"(
if (gl_GlobalInvocationID.x == 0u) {
  decision[STATE] = state;
  decision[RZ] = rz;
  decision[RR] = rr;
}
)");
  }
  lines(R"(
if (state != {running}) return;
precise {S} quotient = rz / scalars[PREVIOUS_RZ];
precise {S} beta = iterations == {S}(0) ? {S}(0) : quotient;
)");
}

}  // namespace topograd::codegen
