// Problems that the command knows by name or reads from files, and the options of their solves.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../../api/problem_file.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../ir/share.hpp"
#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"
#include "../../problems/bundle.hpp"
#include "../../problems/mesh.hpp"
#include "../../problems/mgh.hpp"
#include "../../problems/nist.hpp"
#include "../arguments/arguments.hpp"
#include "../arguments/shared_arguments.hpp"

namespace topograd::command {

/// All functions but share() and speaks() are collective: all processes call them in the same
/// order.
class ShareGroup {
 public:
  virtual ~ShareGroup() = default;
  virtual Share share() const = 0;
  /// True for the one process, the first, that prints and writes files.
  virtual bool speaks() const = 0;
  /// Numbers of all processes, in their order; empty on all but the first.
  virtual std::vector<double> gather_at_first(std::span<const double> numbers) const = 0;
  /// Bytes of all processes, in their order, on all of them.
  virtual std::vector<std::string> gather(const std::string& bytes) const = 0;
  /// Writes a file of all processes' parts: the first text of each process in their order, then the
  /// second ones. Every process gives as many texts. Throws Error{File} on all.
  virtual void write(const std::string& path, std::span<const std::string> texts) const = 0;
};

/// Selects a problem on the command line.
struct ProblemArguments {
  std::string name;                        ///< or the path of a problem file, ending in .json
  std::string mesh;                        ///< a file: arap, smooth, developable, multi
  std::optional<std::uint32_t> icosphere;  ///< subdivisions of an icosahedron instead of a file
  std::uint32_t subdivide = 0;             ///< number of times each triangle is split into four
  double perturb = 0;                      ///< largest random move of a coordinate of the mesh
  std::string energy = "covariance";       ///< developable
  bool edges = false;                      ///< developable: also edge lengths as residuals
  std::uint32_t width = 100;               ///< springs
  std::optional<std::uint64_t> shuffle;    ///< seed for springs, and for the meshes of the others
  std::string data;                        ///< nist: a file or a folder of files *.dat
  std::string set;                         ///< nist, mgh: one problem of the set, by name
  std::optional<std::uint32_t> count;      ///< mgh: unknowns of the problems of variable size
  problems::BundleOptions bundle;          ///< without `noise`
  std::optional<double> noise;             ///< bundle, smooth
  std::string handles;                     ///< arap: a file of targets
  std::string file;                     ///< bal, openmvg, pose-graph: the file; colmap: the folder
  std::vector<std::string> fixed;       ///< bal: names of BundleAdjustmentOptions::fixed
  std::string loss;                     ///< bal, colmap, openmvg, pose-graph: "huber:1"
  std::vector<std::string> refine;      ///< colmap, openmvg: ColmapOptions::refine
  std::string gauge = "automatic";      ///< colmap, openmvg
  std::string priors, prior_loss;       ///< the same: a file of positions, "huber:1"
  std::string retriangulate = "front";  ///< the same
  bool normalize = false;               ///< bal
  std::string objective = "chordal", start = "chordal";  ///< pose-graph
  bool gnc = false, skip_unknown = false;                ///< pose-graph
  bool strict = false;                                   ///< pose-graph, and those on meshes
  std::optional<double> gnc_threshold;                   ///< pose-graph
  /// The processes with the other shares of the residuals (can_share()); null: the problem is
  /// whole.
  const ShareGroup* shares = nullptr;
};
/// The scene of bundle.
problems::BundleOptions bundle_options(const ProblemArguments& arguments);
/// True if make_problem() can make a share of the problem's residuals.
bool can_share(const ProblemArguments& arguments);
/// Names of all problems except files.
const std::vector<std::string>& problem_names();

/// Options of a command for its problem.
struct ProblemScope {
  bool required = true;
  bool takes_file = true;  ///< the second positional argument is the problem's file
  std::vector<std::string> on_grids = {"springs"};  ///< problems with --width and --shuffle
  std::vector<std::string> also = {};               ///< problems of the command alone
};
/// Adds the options that select a problem; `name` is the first positional argument.
void add_problem_options(Command app, ProblemArguments& arguments, const ProblemScope& scope = {});
/// Adds --data, unless it means the data of an expression.
void add_data_option(Command app, ProblemArguments& arguments);
/// Adds --count and --seed, unless they mean something else.
void add_generator_options(Command app, ProblemArguments& arguments);

/// The content of a picture.
struct Shown {
  problems::TriangleMesh mesh;
  std::vector<double> values;  ///< by vertex, for its colour; or empty
  std::string caption;         ///< empty: the cost
};

/// A problem, its memory, and the mesh that it was made from.
class NamedProblem {
 public:
  virtual ~NamedProblem() = default;
  virtual Problem& problem() = 0;
  /// The mesh with the present positions; empty if the problem has none.
  virtual problems::TriangleMesh mesh() const { return {}; }
  /// The processes that call write().
  enum class Writers {
    none,  ///< there is nothing to write
    one,   ///< the first one, after the others have ended
    all    ///< each for its part
  };
  virtual Writers writers() const {
    return mesh().positions.empty() ? Writers::none : Writers::one;
  }
  /// Before a solve: throws Error{InvalidArgument} if write() cannot write a file of this name.
  virtual void check_out(const std::string& path) const;
  /// Writes what --out asks for: the mesh. Throws Error{File}.
  virtual void write(const std::string& path) const;
  /// Minimises it from the present values. Throws what topograd::solve() throws.
  virtual Summary minimize(const SolverOptions& options);
  /// After a solve, before what is said of the answer below. All processes call it.
  virtual void join_answer() {}
  /// Pictures of the start and of the present state.
  virtual Shown shown_before() const { return shown(); }
  virtual Shown shown() const { return {mesh(), {}, {}}; }
  /// The meaning of the colours of its pictures, for people.
  virtual std::string legend() const { return "Colour: how far a vertex has moved."; }
  /// How the command solves it unless its options say otherwise.
  virtual SolverOptions options() const { return {.max_iterations = 100}; }
  /// The file that it was read from; null for a problem that has a name.
  virtual const ProblemFile* file() const { return nullptr; }
  /// Curves that its residuals fit to data.
  virtual std::span<const Curve> curves() const { return {}; }
  /// What the problem does to its input unless it is told otherwise; empty if nothing.
  virtual std::string first_line() const { return {}; }
  /// Adds known facts about the answer to a solve's report.
  virtual void describe_answer(nlohmann::ordered_json& /*report*/) const {}
  /// The same as lines of text for people; empty if there is nothing to say.
  virtual std::vector<std::string> answer_lines() const { return {}; }
  /// The error of residuals at a cost, in the problem's own unit: "RMSE 0.931 px"; empty if it has
  /// none.
  virtual std::string error_text(double /*cost*/) const { return {}; }
  double build_seconds = 0;
};

/// A named problem.
struct ProblemKind {
  std::string name;
  bool needs_mesh = false;
  std::string set;  ///< mgh: one of its problems
};
/// All of them in alphabetical order, then the rows of mgh.
const std::vector<ProblemKind>& problem_kinds();

/// Builds the problem, with the time of tracing. Throws Error{InvalidArgument} for an unknown name
/// or a missing option, and what reading a mesh or a problem file throws. For nist and mgh, --set
/// must select one problem; its first start is used.
std::unique_ptr<NamedProblem> make_problem(const ProblemArguments& arguments);

/// Reads a problem file and the files that it names, which are input files of the command
/// (input_file()). Throws as read_problem_file() does.
std::unique_ptr<ProblemFile> read_problem(const std::string& path, Share share = {});

/// One of NIST's sets, with start 0 or 1.
std::unique_ptr<NamedProblem> make_nist(const problems::NistSet& set, std::size_t start);

/// Options of solves of nist and mgh, whose published digits need the tightest tolerances.
SolverOptions nist_options();

/// The sets selected by --data and --set: the whole folder if --set is empty. Throws
/// Error{InvalidArgument} without --data or for an unknown name, and what problems::read_nist
/// throws.
std::vector<problems::NistSet> read_nist_sets(const ProblemArguments& arguments);
/// The rows selected by --set, all nineteen if it is empty. Throws Error{InvalidArgument} that
/// lists the names.
std::vector<problems::MghProblem> mgh_rows(const ProblemArguments& arguments);
/// Names of the large problems that can have --count unknowns, or the one selected by --set. Throws
/// Error{InvalidArgument} likewise.
std::vector<std::string> large_mgh_rows(const ProblemArguments& arguments);

/// The options of the problem's file, or the command's defaults for a named problem, overridden by
/// the given options. Throws Error{InvalidArgument} as to_options() does.
SolverOptions options_of(const SolverArguments& arguments, const NamedProblem& named);

}  // namespace topograd::command
