// Files of checkpoints, and solves that go on from any state.
#include "target.hpp"

#include "../support/paths.hpp"

#include "../../solver/checkpoint/checkpoints.hpp"
#include "../../solver/solve.hpp"

#include <array>
#include <cstddef>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::fuzz {
namespace {

/// A small problem for one of the methods.
class Solves {
 public:
  explicit Solves(int which) {
    using LS = LinearSolver;
    constexpr std::array methods = {Method::levenberg_marquardt, Method::levenberg_marquardt,
                                    Method::dogleg, Method::lbfgs, Method::adam};
    const auto method = static_cast<std::size_t>(which) % methods.size();
    p_ = problem_.add_parameters(x_);
    for (std::size_t k = 0; k + 1 < x_.size(); ++k) {
      problem_.add_residual({10 * (p_[k + 1] - p_[k] * p_[k])});
      problem_.add_residual({1.0 - p_[k]});
    }
    options_.backend = Backend::cpu;
    options_.threads = 1;
    options_.method = methods[method];
    options_.linear_solver = method == 1 ? LS::pcg : LS::automatic;
    options_.max_iterations = 4;
    SolverOptions first = options_;
    first.checkpoint.file = path();
    solve(problem_, first);
    ir::StateRecord written = open_checkpoint(path(), read_checkpoint_file(path())), begin;
    SolveFacts facts;
    facts.transfer(written);
    facts.transfer(begin);
    facts_ = begin.bytes();
    options_.resume = path();
    options_.max_iterations = 12;
  }

  /// Goes on from the facts of this solve and the rest of a state.
  void resume(std::span<const std::byte> rest) {
    std::vector<std::byte> state = facts_;
    state.insert(state.end(), rest.begin(), rest.end());
    const std::vector<std::byte> file = seal_checkpoint(state);
    std::ofstream(path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    x_ = {-1.2, 1, -1.2, 1};
    reads([&] { solve(problem_, options_); },
          {ErrorCode::Parse, ErrorCode::InvalidArgument, ErrorCode::NonFinite});
  }

 private:
  std::string path() const { return folder_.path() / "state"; }

  test::TemporaryDir folder_;
  std::vector<double> x_ = {-1.2, 1, -1.2, 1};
  Problem problem_;
  Parameters p_;
  SolverOptions options_;
  std::vector<std::byte> facts_;
};

}  // namespace

/// The first byte says which method continues from the others.
void checkpoint(std::string_view input) {
  static std::array<Solves, 5> solves = {Solves(0), Solves(1), Solves(2), Solves(3), Solves(4)};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input));
  reads([&] { open_checkpoint(bytes); }, {ErrorCode::Parse});
  if (bytes.empty()) return;
  solves[std::to_integer<std::size_t>(bytes[0]) % solves.size()].resume(bytes.subspan(1));
}

}  // namespace topograd::fuzz
