// Calls Scotch in a context of one thread.
#include "scotch_parts.hpp"

#include "../ir/error.hpp"

#include <cstdint>
#include <cstdio>  // scotch.h needs it

#include <scotch.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>

namespace topograd::distributed {
namespace {

static_assert(SCOTCH_VERSION >= 7, "contexts came with Scotch 7");

void check(int result, const char* call) {
  if (result != 0)
    throw Error(ErrorCode::Internal, std::string("distributed: Scotch: ") + call + " has failed");
}

/// A structure of Scotch between its init and exit functions.
template <class T, int (*init)(T*), void (*exit)(T*)>
class Owned {
 public:
  Owned() { check(init(&it_), "an init function"); }
  ~Owned() { exit(&it_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* get() { return &it_; }

 private:
  T it_;
};
using Graph = Owned<SCOTCH_Graph, SCOTCH_graphInit, SCOTCH_graphExit>;
using Context = Owned<SCOTCH_Context, SCOTCH_contextInit, SCOTCH_contextExit>;
using Strategy = Owned<SCOTCH_Strat, SCOTCH_stratInit, SCOTCH_stratExit>;

/// Weights whose sum Scotch can hold, each 1 or more.
std::vector<SCOTCH_Num> scaled(std::span<const std::uint64_t> weights) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  const std::uint64_t by = sum / kMost + 1;
  std::vector<SCOTCH_Num> out;
  out.reserve(weights.size());
  for (const std::uint64_t weight : weights)
    out.push_back(static_cast<SCOTCH_Num>(std::max<std::uint64_t>(weight / by, 1)));
  return out;
}

}  // namespace

std::vector<int> scotch_parts(const ChunkGraph& graph, int parts) {
  const std::vector<SCOTCH_Num> starts(graph.starts.begin(), graph.starts.end());
  const std::vector<SCOTCH_Num> neighbours(graph.neighbours.begin(), graph.neighbours.end());
  const std::vector<SCOTCH_Num> weights = scaled(graph.weights), shared = scaled(graph.shared);
  const auto chunks = static_cast<SCOTCH_Num>(weights.size());
  Graph whole, in_context;
  check(SCOTCH_graphBuild(whole.get(), 0, chunks, starts.data(), nullptr, weights.data(), nullptr,
                          static_cast<SCOTCH_Num>(neighbours.size()), neighbours.data(),
                          shared.data()),
        "SCOTCH_graphBuild");
  // Threads divide in another way each time. Random numbers of the default context go on from call
  // to call.
  Context context;
  SCOTCH_contextRandomReset(context.get());
  check(SCOTCH_contextThreadSpawn(context.get(), 1, nullptr), "SCOTCH_contextThreadSpawn");
  check(SCOTCH_contextBindGraph(context.get(), whole.get(), in_context.get()),
        "SCOTCH_contextBindGraph");
  Strategy strategy;
  std::vector<SCOTCH_Num> out(graph.weights.size());
  check(SCOTCH_graphPart(in_context.get(), parts, strategy.get(), out.data()), "SCOTCH_graphPart");
  return {out.begin(), out.end()};
}

}  // namespace topograd::distributed
