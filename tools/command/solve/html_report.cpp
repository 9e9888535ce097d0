// A self-contained HTML page about a solve, with plots as SVG.
#include "html_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "../../draw/canvas.hpp"

namespace topograd::command {
namespace {

constexpr double kWidth = 520, kHeight = 250, kLeft = 66, kRight = 14, kTop = 34, kBottom = 34;

/// Converts numbers to coordinates of the picture.
struct Axes {
  double left = 0, right = 1;  // of the abscissa
  bool logarithmic = false;
  double low = 0, high = 1;  // of the ordinate: exponents of 10 if logarithmic

  double x(double value) const {
    return kLeft + (kWidth - kLeft - kRight) * (value - left) / (right - left);
  }
  double y(double value) const {
    const double v = logarithmic ? std::log10(value) : value;
    return kHeight - kBottom - (kHeight - kTop - kBottom) * (v - low) / (high - low);
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
};

Axes axes_of(const Plot& plot) {
  constexpr double kLogarithmicFrom = 20;
  double low = std::numeric_limits<double>::infinity(), high = -low, positive = low;
  for (const double v : plot.values) {
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
    if (v > 0) positive = std::min(positive, v);
  }
  Axes axes{.right = std::max(1.0, static_cast<double>(plot.values.size()) - 1)};
  axes.logarithmic = low >= 0 && high > kLogarithmicFrom * positive;
  if (axes.logarithmic) {
    axes.low = std::floor(std::log10(positive));
    axes.high = std::ceil(std::log10(high));
  } else {
    axes.low = low >= 0 && low < high / 2 ? 0 : low;
    axes.high = high > low ? high : low + std::max(std::abs(low), 1.0);
  }
  return axes;
}

/// A step of 1, 2 or 5 times a power of ten, with about `count` steps in `range`.
double nice_step(double range, double count) {
  const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string format(const char* text, double a, double b, double c, double d) {
  char out[256];
  std::snprintf(out, sizeof out, text, a, b, c, d);
  return out;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  char at[96];
  std::snprintf(at, sizeof at, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  return at + draw::escaped(text) + "</text>";
}

std::string line(double x1, double y1, double x2, double y2) {
  return format("<path class=\"grid\" d=\"M%.1f %.1fL%.1f %.1f\"/>", x1, y1, x2, y2);
}

/// Lines and labels of the ordinate, labels of the abscissa.
///
///   least_step  between labels of the abscissa
std::string grid(const Axes& axes, double least_step) {
  std::string out;
  const auto rule = [&](double value, const std::string& text) {
    const double y = axes.y(value);
    out += line(kLeft, y, kWidth - kRight, y) + label(kLeft - 7, y + 4, "end", text);
  };
  if (axes.logarithmic) {
    const double step = std::max(1.0, std::ceil((axes.high - axes.low) / 6));
    for (double e = axes.low; e <= axes.high; e += step) {
      char text[32];
      std::snprintf(text, sizeof text, "1e%.0f", e);
      rule(std::pow(10, e), text);
    }
  } else {
    const double step = nice_step(axes.high - axes.low, 5);
    for (double v = std::ceil(axes.low / step) * step; v <= axes.high + 1e-9 * step; v += step)
      rule(v, short_number(std::abs(v) < 1e-9 * step ? 0 : v, 6));
  }
  const double step = std::max(least_step, nice_step(axes.right - axes.left, 8));
  for (double k = std::ceil(axes.left / step) * step; k <= axes.right + 1e-9 * step; k += step)
    out += label(axes.x(k), kHeight - kBottom + 18, "middle",
                 short_number(std::abs(k) < 1e-9 * step ? 0 : k, 6));
  return out;
}

/// The <svg> element of a drawing.
std::string svg_element(const std::string& title, const std::string& drawing) {
  char head[160];
  std::snprintf(head, sizeof head,
                "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth,
                kHeight);
  return head + draw::escaped(title) + "\">" + drawing + "</svg>\n";
}

/// Makes a range non-empty, with a margin on both sides.
void widen(double& low, double& high) {
  constexpr double kMargin = 0.04;
  const double range = high > low ? high - low : std::max(std::abs(low), 1.0);
  low -= kMargin * range;
  high += kMargin * range;
}

Axes axes_of(const FitPlot& plot) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Axes axes{.left = kInfinity, .right = -kInfinity, .low = kInfinity, .high = -kInfinity};
  const auto include = [&](const std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k]) || !std::isfinite(y[k])) continue;
      axes.left = std::min(axes.left, x[k]);
      axes.right = std::max(axes.right, x[k]);
      axes.low = std::min(axes.low, y[k]);
      axes.high = std::max(axes.high, y[k]);
    }
  };
  include(plot.x, plot.y);
  if (axes.left > axes.right) return axes;
  include(plot.curve_x, plot.curve_y);
  widen(axes.left, axes.right);
  widen(axes.low, axes.high);
  return axes;
}

using draw::escaped;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light; --ink: #1d2430; --soft: #667085; --line: #e4e7ec; --blue: #2f6fed; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: #f6f7f9;
  margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 12px; }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin-top: 18px; }
code, pre { font: 12.5px/1.45 "DejaVu Sans Mono", ui-monospace, monospace; }
pre { overflow-x: auto; background: #f6f7f9; border-radius: 6px; padding: 12px; margin: 8px 0 0; }
.soft { color: var(--soft); } p { margin: 12px 0 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px; }
.cards b { display: block; font-size: 19px; font-weight: 600; }
.cards span { color: var(--soft); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 12px; }
.fits { grid-template-columns: repeat(auto-fit, minmax(430px, 640px)); }
.plot { width: 100%; font-size: 12px; fill: var(--ink); }
.plot .grid { stroke: var(--line); fill: none; }
.plot .fit { stroke: #d1495b; stroke-width: 1.8; fill: none; }
.plot .curve { stroke: var(--blue); stroke-width: 1.8; fill: none; }
.plot circle { fill: var(--blue); }
.plot circle.rejected { fill: #fff; stroke: #d64545; stroke-width: 1.4; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
td, th { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; }
.share { height: 12px; border-radius: 3px; background: #2f6fed; }
.bar { display: flex; height: 26px; border-radius: 6px; overflow: hidden; margin-bottom: 12px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 8px; }
.scroll { max-height: 420px; overflow: auto; }
img { max-width: 100%; display: block; margin: 0 auto; }
details { border-bottom: 1px solid var(--line); padding: 6px 0; }
summary { cursor: pointer; } tr.rejected td { color: #b42318; } a { color: var(--blue); }
)";

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 3; ++b)
      word = word << 8 | (k + b < bytes.size() ? static_cast<unsigned char>(bytes[k + b]) : 0u);
    for (std::size_t d = 0; d < 4; ++d)
      out += k + d > bytes.size() ? '=' : kDigits[word >> (18 - 6 * d) & 63];
  }
  return out;
}

std::string section(const std::string& heading, const std::string& body) {
  if (body.empty()) return "";
  return "<section><h2>" + escaped(heading) + "</h2>\n" + body + "</section>\n";
}

std::string card(const std::string& value, const std::string& label) {
  return "<div><b>" + escaped(value) + "</b><span>" + escaped(label) + "</span></div>\n";
}

std::string seconds_text(double s) {
  return s < 1 ? short_number(1e3 * s, 3) + " ms" : short_number(s, 4) + " s";
}

std::string result_part(const Summary& s) {
  std::string out =
      "<div class=\"cards\">" + card(std::string(name(s.termination)), "termination") +
      card(short_number(s.final_cost, 8), "cost, from " + short_number(s.initial_cost, 8)) +
      card(std::to_string(s.num_iterations()),
           "steps, " + std::to_string(s.num_unsuccessful_steps) + " of them rejected") +
      card(seconds_text(s.times.total_seconds), "on " + s.backend + ", " + s.device) +
      card(std::to_string(s.unknowns), "unknowns") +
      card(std::to_string(s.residuals),
           s.energies > 0 ? "residuals, " + std::to_string(s.energies) + " energies" : "residuals");
  return "<section>" + out + "</div>\n<p class=\"soft\">Ended by: " + escaped(s.message) +
         "<br>Backend: " + escaped(s.why) + "</p></section>\n";
}

std::string cells(std::initializer_list<std::string> numbers) {
  std::string out;
  for (const std::string& number : numbers) out += "<td class=\"number\">" + number + "</td>";
  return out;
}

std::string unknowns(const Answer& answer) {
  const bool errors = answer.uncertainty && answer.uncertainty->failure.empty();
  std::string out;
  if (!answer.unknowns.empty()) {
    out += "<table class=\"unknowns\"><tr><th>Parameter</th><th class=\"number\">Value</th>" +
           std::string(errors ? "<th class=\"number\">Standard error</th>" : "") +
           "<th></th></tr>\n";
    for (const UnknownValue& u : answer.unknowns) {
      out += "<tr><td>" + escaped(u.name) + "</td>" + cells({short_number(u.value, 10)});
      if (errors) out += cells({u.error ? short_number(*u.error, 6) : ""});
      out += "<td class=\"soft\">" + escaped(u.note) + "</td></tr>\n";
    }
    out += "</table>\n";
  }
  if (!answer.extremes.empty()) {
    out +=
        "<table><tr><th>Parameters</th><th class=\"number\">Blocks</th>"
        "<th class=\"number\">Smallest</th><th class=\"number\">in block</th>"
        "<th class=\"number\">Largest</th><th class=\"number\">in block</th></tr>\n";
    for (const ArrayExtremes& e : answer.extremes) {
      out += "<tr><td>" + escaped(e.name) + "</td>" +
             cells({std::to_string(e.blocks), short_number(e.smallest, 10),
                    std::to_string(e.smallest_block), short_number(e.largest, 10),
                    std::to_string(e.largest_block)}) +
             "</tr>\n";
    }
    out += "</table>\n";
  }
  if (errors)
    out += std::string("<p class=\"soft\">Standard errors are those of residuals of ") +
           (answer.uncertainty->scaled ? "equal, unknown variance.</p>\n" : "variance 1.</p>\n");
  if (answer.uncertainty && !errors)
    out +=
        "<p class=\"soft\">No standard errors: " + escaped(answer.uncertainty->failure) + "</p>\n";
  return out;
}

std::string correlations(const Answer& answer) {
  constexpr std::size_t kMost = 40;
  if (!answer.uncertainty) return "";
  const Uncertainty& u = *answer.uncertainty;
  const std::size_t n = std::min(u.names.size(), kMost);
  if (n < 2) return "";
  std::string out = "<div class=\"scroll\"><table class=\"correlations\"><tr><th></th>";
  for (std::size_t b = 0; b < n; ++b)
    out += "<th class=\"number\">" + escaped(u.names[b]) + "</th>";
  out += "</tr>\n";
  for (std::size_t a = 0; a < n; ++a) {
    out += "<tr><th>" + escaped(u.names[a]) + "</th>";
    for (std::size_t b = 0; b < n; ++b) {
      const double c = u.correlation[a * u.names.size() + b];
      // Red for positive and blue for negative correlations, more intense for stronger ones.
      out += "<td class=\"number\" style=\"background: rgba(" +
             std::string(c >= 0 ? "209,73,91," : "47,111,237,") +
             short_number(a == b ? 0 : 0.5 * c * c, 3) + ")\">" + short_number(c, 4) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n" +
         (n < u.names.size() ? "<p class=\"soft\">The first " + std::to_string(n) + " of " +
                                   std::to_string(u.names.size()) + ".</p>\n"
                             : "");
}

std::string curves(const Answer& answer) {
  std::string out;
  for (const Answer::FittedCurve& curve : answer.curves) {
    const std::string title =
        (curve.label.empty() ? "" : curve.label + ": ") + curve.y_name + " over " + curve.x_name;
    out += svg(FitPlot{.title = title,
                       .x_name = curve.x_name,
                       .y_name = curve.y_name,
                       .x = curve.x,
                       .y = curve.y,
                       .marked = curve.left_out,
                       .curve_x = curve.fit_x,
                       .curve_y = curve.fit_y});
  }
  return out.empty() ? "" : "<div class=\"plots fits\">\n" + out + "</div>\n";
}

/// The problem's own lines as they are printed.
std::string problem_lines(const Answer& answer) {
  if (answer.lines.empty()) return "";
  std::string text;
  for (const std::string& line : answer.lines) text += escaped(line) + "\n";
  return "<pre>" + text + "</pre>";
}

std::string residuals(const Answer& answer) {
  if (!answer.residuals) return "";
  const ResidualStatistics& r = *answer.residuals;
  std::string out =
      "<div class=\"cards\">" +
      card(std::to_string(r.rows),
           r.left_out > 0 ? "rows, " + std::to_string(r.left_out) + " of them with weight 0"
                          : "rows") +
      card(short_number(r.rmse, 6), "RMSE");
  if (r.reduced_chi2)
    out += card(short_number(*r.reduced_chi2, 6),
                "reduced χ², " + std::to_string(r.degrees_of_freedom) + " degrees of freedom");
  out += "</div>\n";
  if (r.worst.empty()) return out;
  out += "<table><tr><th>Largest residuals</th><th class=\"number\">Value</th></tr>\n";
  for (const ResidualStatistics::Worst& w : r.worst)
    out += "<tr><td>" + escaped(w.label) + "</td>" + cells({short_number(w.value, 6)}) + "</tr>\n";
  return out + "</table>\n";
}

std::string plots(const Summary& s) {
  Plot cost{"Cost", {}, {}}, gradient{"‖gradient‖", {}, {}}, step{"‖step‖", {}, {}},
      radius{"Trust region radius", {}, {}}, linear{"Linear iterations", {}, {}};
  bool radii = false, iterations = false;
  for (const IterationSummary& i : s.iterations) {
    cost.values.push_back(i.cost);
    gradient.values.push_back(i.gradient_norm);
    step.values.push_back(i.step_norm);
    radius.values.push_back(i.trust_region_radius);
    linear.values.push_back(i.linear_iterations);
    cost.marked.push_back(!i.step_is_successful);
    radii = radii || i.trust_region_radius > 0;
    iterations = iterations || i.linear_iterations > 0;
  }
  gradient.marked = step.marked = radius.marked = linear.marked = cost.marked;
  std::string out = svg(cost) + svg(gradient) + svg(step);
  if (radii) out += svg(radius);
  if (iterations) out += svg(linear);
  return out.empty() ? "" : "<div class=\"plots\">\n" + out + "</div>\n";
}

struct Phase {
  const char *name, *color;
  double seconds;
};

std::string phases(const PhaseTimes& t) {
  std::vector<Phase> all = {{"Build: trace and match residuals", "#98a2b3", t.build_seconds},
                            {"Look for devices", "#b692f6", t.device_search_seconds},
                            {"Plan: layouts, transfers at the start", "#7cc4a4", t.plan_seconds},
                            {"Compile: GLSL", "#f2c14e", t.glsl_ms * 1e-3},
                            {"Compile: SPIR-V", "#f78154", t.spirv_ms * 1e-3},
                            {"Compile: pipelines", "#d1495b", t.pipeline_ms * 1e-3},
                            {"Evaluation", "#2f6fed", t.evaluation_seconds},
                            {"Linear solver", "#6941c6", t.linear_solver_seconds}};
  double sum = 0;
  for (const Phase& p : all) sum += p.seconds;
  const double total = std::max(t.build_seconds + t.total_seconds, sum);
  all.push_back({"Other", "#d0d5dd", total - sum});
  if (total <= 0) return "";
  std::string bar, rows;
  for (const Phase& p : all) {
    if (p.seconds <= 0) continue;
    const std::string share = short_number(100 * p.seconds / total, 3);
    bar += std::string("<div style=\"background:") + p.color + ";width:" + share + "%\" title=\"" +
           p.name + "\"></div>";
    rows += std::string("<tr><td><span class=\"swatch\" style=\"background:") + p.color +
            "\"></span>" + p.name + "</td><td class=\"number\">" + seconds_text(p.seconds) +
            "</td><td class=\"number\">" + share + " %</td></tr>\n";
  }
  return "<div class=\"bar\">" + bar + "</div>\n<table>" + rows + "</table>\n";
}

/// Kernels and passes of the steps as bars, the longest first.
std::string profile(const Summary& s) {
  if (!s.profile.measured || s.profile.step_us <= 0) return "";
  std::string out = "<p>" + seconds_text(s.profile.step_us * 1e-6) + " of steps, " +
                    short_number(100 * explained_share(s), 3) + " % of it named.</p>\n";
  if (!s.profile.note.empty()) out += "<p class=\"soft\">" + escaped(s.profile.note) + "</p>\n";
  out +=
      "<table><tr><th>Kernel or pass</th><th>On</th><th class=\"number\">Calls</th>"
      "<th class=\"number\">Time</th><th class=\"number\">Share</th><th></th>"
      "<th class=\"number\">Share of a copy's rate</th></tr>\n";
  for (const runtime::KernelTime& one : s.kernels) {
    const double share = 100 * one.us / s.profile.step_us;
    const double rate = one.us > 0 ? static_cast<double>(one.bytes) / (one.us * 1e-6) : 0;
    const bool moves = rate > 0 && s.profile.copy_rate > 0;
    out += "<tr><td><code>" + escaped(one.name) + "</code></td><td>" + std::string(name(one.work)) +
           "</td><td class=\"number\">" + std::to_string(one.calls) + "</td><td class=\"number\">" +
           seconds_text(one.us * 1e-6) + "</td><td class=\"number\">" + short_number(share, 3) +
           " %</td><td><div class=\"share\" style=\"width:" + short_number(2 * share, 3) +
           "px\"></div></td><td class=\"number\">" +
           (moves ? short_number(100 * rate / s.profile.copy_rate, 3) + " %" : "") + "</td></tr>\n";
  }
  return out + "</table>\n";
}

std::string peers(const std::vector<PageContent::Row>& rows) {
  if (rows.empty()) return "";
  std::string out =
      "<table><tr><th>Solver</th><th class=\"number\">Time</th><th class=\"number\">Cost</th>"
      "<th class=\"number\">Steps</th><th></th></tr>\n";
  for (const PageContent::Row& r : rows) {
    out += "<tr><td>" + escaped(r.name) + "</td><td class=\"number\">" + seconds_text(r.seconds) +
           "</td><td class=\"number\">" + short_number(r.cost, 12) + "</td><td class=\"number\">" +
           std::to_string(r.iterations) + "</td><td class=\"soft\">" + escaped(r.note) +
           "</td></tr>\n";
  }
  return out + "</table>\n";
}

std::string topologies(const Summary& s) {
  std::string out =
      "<table><tr><th>Topology</th><th>Name</th><th class=\"number\">Instances</th>"
      "<th class=\"number\">Rows of one</th></tr>\n";
  for (const TopologySummary& t : s.topologies) {
    out += "<tr><td><code>" + escaped(t.hash) + "</code></td><td>" + escaped(t.name) +
           "</td><td class=\"number\">" + std::to_string(t.instances) +
           "</td><td class=\"number\">" + std::to_string(t.outputs) + "</td></tr>\n";
  }
  return s.topologies.empty() ? "" : out + "</table>\n";
}

std::string kernel_list(const std::vector<NamedSource>& kernels) {
  std::string links, sources;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string id = "kernel-" + std::to_string(k);
    const auto lines = std::count(kernels[k].text.begin(), kernels[k].text.end(), '\n');
    links += "<tr><td><a href=\"#" + id + "\"><code>" + escaped(kernels[k].name) +
             "</code></a></td><td>" + escaped(kernels[k].title) + "</td><td class=\"number\">" +
             std::to_string(lines) + " lines</td></tr>\n";
    sources += "<details id=\"" + id + "\"><summary><code>" + escaped(kernels[k].name) +
               "</code></summary><pre>" + escaped(kernels[k].text) + "</pre></details>\n";
  }
  if (kernels.empty()) return "";
  // A link opens the source to which it leads.
  return "<table>" + links + "</table>\n" + sources +
         "<script>addEventListener('hashchange', open_source); open_source();\n"
         "function open_source() {\n"
         "  const source = location.hash && document.querySelector(location.hash);\n"
         "  if (source) { source.open = true; source.scrollIntoView(); }\n"
         "}</script>\n";
}

std::string steps(const Summary& s) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>Step</th><th class=\"number\">Cost</th>"
      "<th class=\"number\">‖gradient‖</th><th class=\"number\">‖step‖</th>"
      "<th class=\"number\">Radius</th><th class=\"number\">Linear iterations</th>"
      "<th class=\"number\">Time</th></tr>\n";
  for (const IterationSummary& i : s.iterations) {
    out += i.step_is_successful ? "<tr>" : "<tr class=\"rejected\">";
    out +=
        "<td>" + std::to_string(i.iteration) + (i.step_is_successful ? "" : " rejected") + "</td>";
    for (const std::string& cell :
         {short_number(i.cost, 10), short_number(i.gradient_norm), short_number(i.step_norm),
          short_number(i.trust_region_radius), std::to_string(i.linear_iterations),
          seconds_text(i.cumulative_time_in_seconds)})
      out += "<td class=\"number\">" + cell + "</td>";
    out += "</tr>\n";
  }
  return s.iterations.empty() ? "" : out + "</table></div>\n";
}

std::string answer_part(const Answer& answer) {
  const std::string first =
      answer.first_line.empty() ? "" : "<p>" + escaped(answer.first_line) + "</p>\n";
  return first + section("Parameters", unknowns(answer)) + section("Data and fit", curves(answer)) +
         section("Residuals", problem_lines(answer) + residuals(answer)) +
         section("Correlations", correlations(answer));
}

std::string picture(const PageContent& content) {
  if (content.picture.empty()) return "";
  return "<img alt=\"the mesh before and after\" src=\"data:image/png;base64," +
         base64(content.picture) + "\">\n<p class=\"soft\">" + escaped(content.legend) + "</p>\n";
}

std::string page(const PageContent& content, const std::string& body) {
  const std::string title = escaped(content.title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + title +
         "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>" +
         std::string(kStyle) + "</style></head>\n<body><main>\n<h1>" + title +
         "</h1>\n<code class=\"soft\">" + escaped(content.command) + "</code>\n" + body +
         "</main></body></html>\n";
}

}  // namespace

std::string short_number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string svg(const Plot& plot) {
  const Axes axes = axes_of(plot);
  std::string path, dots;
  for (std::size_t k = 0; k < plot.values.size(); ++k) {
    const double v = plot.values[k], x = axes.x(static_cast<double>(k));
    if (!axes.shows(v)) continue;
    const bool marked = k < plot.marked.size() && plot.marked[k];
    path += format(path.empty() ? "M%.1f %.1f" : "L%.1f %.1f", x, axes.y(v), 0, 0);
    dots += "<circle" + std::string(marked ? " class=\"rejected\"" : "") +
            format(" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x, axes.y(v),
                   plot.values.size() > 80 && !marked ? 1.3 : 2.6, 0) +
            "<title>step " + std::to_string(k) + (marked ? " (rejected)" : "") + ": " +
            short_number(v, 8) + "</title></circle>";
  }
  if (path.empty()) return "";
  return svg_element(
      plot.title,
      label(kLeft, 18, "start", plot.title + (axes.logarithmic ? " (logarithmic)" : "")) +
          grid(axes, 1) + "<path class=\"curve\" d=\"" + path + "\"/>" + dots);
}

std::string svg(const FitPlot& plot) {
  constexpr std::size_t kMostPoints = 2000;
  const Axes axes = axes_of(plot);
  if (axes.left > axes.right) return "";
  std::string path, dots;
  for (std::size_t k = 0; k < plot.curve_x.size(); ++k) {
    if (!std::isfinite(plot.curve_y[k])) continue;
    path += format(path.empty() ? "M%.1f %.1f" : "L%.1f %.1f", axes.x(plot.curve_x[k]),
                   axes.y(plot.curve_y[k]), 0, 0);
  }
  const std::size_t shown = std::min(plot.x.size(), kMostPoints);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t k = shown < 2 ? 0 : i * (plot.x.size() - 1) / (shown - 1);
    if (!std::isfinite(plot.x[k]) || !std::isfinite(plot.y[k])) continue;
    const bool marked = k < plot.marked.size() && plot.marked[k];
    dots += std::string("<circle") + (marked ? " class=\"rejected\"" : "") +
            format(" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", axes.x(plot.x[k]), axes.y(plot.y[k]),
                   shown > 200 ? 1.6 : 3, 0) +
            "<title>#" + std::to_string(k) + ": " + draw::escaped(plot.x_name) + " " +
            short_number(plot.x[k], 8) + ", " + draw::escaped(plot.y_name) + " " +
            short_number(plot.y[k], 8) + "</title></circle>";
  }
  return svg_element(plot.title, label(kLeft, 18, "start", plot.title) + grid(axes, 0) +
                                     label(kWidth - kRight, kHeight - 3, "end", plot.x_name) +
                                     dots + "<path class=\"fit\" d=\"" + path + "\"/>");
}

std::string html_report(const Summary& summary, const PageContent& content) {
  return page(
      content,
      result_part(summary) + answer_part(content.answer) +
          section("Before and after", picture(content)) + section("Iterations", plots(summary)) +
          section("Beside other solvers", peers(content.peers)) +
          section("Where the time went", phases(summary.times)) +
          section("Time of kernels and passes", profile(summary)) +
          section("Topologies", topologies(summary)) +
          section("Kernels", kernel_list(content.kernels)) + section("Steps", steps(summary)) +
          section("Report",
                  content.verbose ? "<pre>" + escaped(summary.full_report()) + "</pre>" : ""));
}

std::string html_set_report(const nlohmann::ordered_json& report, const PageContent& content) {
  std::string rows =
      "<table><tr><th>Problem</th><th class=\"number\">Start</th><th>Solved</th>"
      "<th class=\"number\">Cost</th><th class=\"number\">Digits</th>"
      "<th class=\"number\">Steps</th><th class=\"number\">Time</th><th>Termination</th></tr>\n";
  const auto number = [](const nlohmann::ordered_json& run, const char* key, int digits) {
    const bool there = run.contains(key) && run[key].is_number();
    return "<td class=\"number\">" + (there ? short_number(run[key].get<double>(), digits) : "") +
           "</td>";
  };
  for (const nlohmann::ordered_json& run : report["runs"]) {
    const bool solved = run["solved"].get<bool>();
    rows += "<tr class=\"run" + std::string(solved ? "" : " rejected") + "\"><td>" +
            escaped(run["name"].get<std::string>()) + "</td>" + number(run, "start", 6) + "<td>" +
            (solved ? "yes" : "no") + "</td>" + number(run, "cost", 10) + number(run, "digits", 4) +
            number(run, "iterations", 9) + "<td class=\"number\">" +
            seconds_text(run["solve_s"].get<double>()) + "</td><td title=\"" +
            escaped(run["message"].get<std::string>()) + "\">" +
            escaped(run["termination"].get<std::string>()) + "</td></tr>\n";
  }
  const std::string where = "on " + report["backend"].get<std::string>() + ", " +
                            report["device"].get<std::string>() + ", in " +
                            seconds_text(report["solve_s"].get<double>());
  return page(content, "<section><div class=\"cards\">" +
                           card(report["message"].get<std::string>(), where) +
                           "</div></section>\n" + section("Runs", rows + "</table>\n") +
                           answer_part(content.answer));
}

}  // namespace topograd::command
