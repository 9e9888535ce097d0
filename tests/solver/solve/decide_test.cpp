// The decision about fictional problems and machines, and its text.
#include <gtest/gtest.h>

#include <algorithm>

#include "../../../ir/error.hpp"
#include "../../../solver/plan/report.hpp"

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

constexpr Backend cpu = Backend::cpu, vulkan = Backend::vulkan, automatic = Backend::automatic;
constexpr LinearSolver pcg = LinearSolver::pcg, cholesky = LinearSolver::cholesky,
                       schur = LinearSolver::schur, dense = LinearSolver::dense,
                       any = LinearSolver::automatic;

const DeviceFacts kGpu = {.name = "GPU"};
const DeviceFacts kSingle = {.name = "GPU32", .float64 = false};
const DeviceFacts kEmulating = {.name = "GPU32", .emulated_float64 = true};
const DeviceFacts kSoftware = {.name = "soft", .kind = "software"};
const DeviceFacts kMissing = {.available = false,
                              .problem = "no Vulkan loader: install libvulkan1",
                              .code = ErrorCode::NoLoader};
const hybrid::Decision kFaster = {.target = 1, .reason = hybrid::Reason::faster};

MachineFacts against(hybrid::Reason reason) {
  return {false, kGpu, hybrid::Decision{.reason = reason}};
}

/// Gives facts to decide() one after the other, on request. Returns the requested ones.
std::vector<Fact> settle(Plan& plan, const ProblemFacts& known, const SolverOptions& options,
                         const MachineFacts& machine) {
  ProblemFacts problem = known;
  if (problem.system) {
    problem.system->elimination.reset();
    problem.system->on_device.reset();
    problem.system->factor.reset();
    problem.system->device_factor.reset();
    problem.system->iterations.reset();
  }
  MachineFacts now = {.named = machine.named, .failure = machine.failure};
  std::vector<Fact> asked;
  while ((plan = decide(problem, options, now)).next != Fact::none && plan.next != Fact::system) {
    asked.push_back(plan.next);
    switch (plan.next) {
      case Fact::device: now.device = machine.device.value(); break;
      case Fact::scheduler: now.scheduler = machine.scheduler.value(); break;
      case Fact::elimination:
        problem.system->elimination = known.system->elimination.value();
        break;
      case Fact::device_elimination:
        problem.system->on_device = known.system->on_device.value();
        break;
      case Fact::factor: problem.system->factor = known.system->factor.value(); break;
      case Fact::iterations: {
        SystemFacts& system = *problem.system;
        const int most = iterations_to_try(system);
        system.iterations = {.most = most,
                             .count = std::min(known.system->iterations->count, most + 1)};
        break;
      }
      case Fact::device_factor:
        problem.system->device_factor = known.system->device_factor.value();
        break;
      case Fact::none:
      case Fact::system: break;
    }
  }
  return asked;
}

TEST(Decide, Backend) {
  const Precision f64 = Precision::f64, f32 = Precision::f32;
  const std::vector<Fact> nothing, device = {Fact::device}, both = {Fact::device, Fact::scheduler};
  const MachineFacts gpu = {false, kGpu}, faster = {false, kGpu, kFaster},
                     missing = {true, kMissing}, single = {true, kSingle},
                     single_faster = {false, kSingle, kFaster}, software = {false, kSoftware},
                     named = {true, kSoftware, kFaster}, lost = {false, kGpu, kFaster, "lost"};
  MachineFacts slower = against(hybrid::Reason::slower);
  slower.scheduler->speed_up = 0.5;
  slower.scheduler->needed = 1.1;
  const struct {
    const char* name;
    Backend asked;
    Precision precision;
    std::uint64_t instances;
    MachineFacts machine;
    Backend expected;
    const char* why;
    std::vector<Fact> facts;
  } rows[] = {
      {"cpu never looks", cpu, f64, 1u << 20, gpu, cpu, "asked for", nothing},
      {"forced", vulkan, f64, 1, gpu, vulkan, "asked for", device},
      {"forced on software", vulkan, f64, 1, software, vulkan, "asked for", device},
      {"forced in f32", vulkan, f32, 1, single, vulkan, "asked for", device},
      {"below the threshold", automatic, f64, 1023, gpu, cpu,
       "cpu: 1023 instances are below the threshold of 1024", nothing},
      {"at the threshold", automatic, f64, 1024, faster, vulkan,
       "vulkan: 1024 instances reach the threshold of 1024", both},
      {"software unnamed", automatic, f64, 5000, software, cpu,
       "cpu: the only Vulkan device is software (soft) and was not named", device},
      {"software named", automatic, f64, 5000, named, vulkan,
       "vulkan: 5000 instances reach the threshold of 1024", both},
      {"no loader", automatic, f64, 5000, missing, cpu, "cpu: no Vulkan loader: install libvulkan1",
       device},
      {"no float64", automatic, f64, 5000, single, cpu,
       "cpu: device \"GPU32\" has no float64, which precision f64 needs", device},
      {"no float64 needed", automatic, f32, 5000, single_faster, vulkan,
       "vulkan: 5000 instances reach the threshold of 1024", both},
      {"slower", automatic, f64, 5000, slower, cpu,
       "cpu: \"GPU\" is slower here (speed-up 0.50 measured, 1.10 needed)", both},
      {"failed before", automatic, f64, 5000, against(hybrid::Reason::breaker_open), cpu,
       "cpu: \"GPU\" failed before and is left alone for a while", both},
      {"failed often", automatic, f64, 5000, against(hybrid::Reason::success_rate), cpu,
       "cpu: \"GPU\" failed before and is left alone for a while", both},
      {"memory limit", automatic, f64, 5000, against(hybrid::Reason::memory_limit), cpu,
       "cpu: more memory than \"GPU\" has, or memory_limit allows", both},
      {"out of memory", automatic, f64, 5000, against(hybrid::Reason::out_of_memory), cpu,
       "cpu: \"GPU\" ran out of memory before with a problem of this size", both},
      {"explored", automatic, f64, 5000, against(hybrid::Reason::explored), cpu,
       "cpu: to know how long it takes there, beside \"GPU\"", both},
      {"guessed", automatic, f64, 5000, against(hybrid::Reason::guessed), cpu,
       "cpu: \"GPU\" was not chosen (guessed)", both},
      {"failed under way", automatic, f64, 5000, lost, cpu, "cpu: the device failed: lost",
       nothing},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const SolverOptions options = {
        .backend = row.asked, .precision = row.precision, .fallback_threshold = 1024};
    Plan plan;
    EXPECT_EQ(settle(plan, {.instances = row.instances}, options, row.machine), row.facts);
    EXPECT_EQ(plan.next, Fact::system);
    EXPECT_EQ(name(plan.backend.backend), name(row.expected));
    EXPECT_EQ(backend_text(plan.backend), row.why);
    EXPECT_EQ(plan.backend.may_leave, row.asked == automatic && row.expected == vulkan);
    EXPECT_EQ(plan.backend.cpu_first, plan.backend.may_leave);
  }
}

TEST(Decide, BackendWithoutKernelsOrMeasurements) {
  Plan plan;
  SolverOptions options = {.fallback_threshold = 0};
  EXPECT_TRUE(settle(plan, {.has_kernels = false}, options, {true, kGpu}).empty());
  EXPECT_EQ(backend_text(plan.backend), "cpu: every residual runs on the host");
  settle(plan, {.at_once = true}, options, {true, kGpu, kFaster});
  EXPECT_TRUE(plan.backend.may_leave);
  EXPECT_FALSE(plan.backend.cpu_first) << "nothing else may serve";
  options.deterministic = true;
  EXPECT_EQ(settle(plan, {}, options, {true, kGpu}), std::vector{Fact::device});
  EXPECT_EQ(plan.backend.backend, vulkan);
  EXPECT_FALSE(plan.backend.cpu_first);
}

TEST(Decide, ShortSolvesDoNotLookForDevices) {
  const struct {
    const char* name;
    double seconds;
    MachineFacts machine;
    SolverOptions options;
    bool looks;
  } rows[] = {
      {"short", 0.01, {}, {.fallback_threshold = 1024}, false},
      {"long", 0.3, {}, {.fallback_threshold = 1024}, true},
      {"not known", 0, {}, {.fallback_threshold = 1024}, true},
      {"many short ones", 0.01, {.spent = 0.195}, {.fallback_threshold = 1024}, true},
      {"the process has looked", 0.01, {.looked_for = true}, {.fallback_threshold = 1024}, true},
      {"a device is named", 0.01, {.named = true}, {.fallback_threshold = 1024}, true},
      {"at any size", 0.01, {}, {.fallback_threshold = 0}, true},
      {"by rules alone", 0.01, {}, {.fallback_threshold = 1024, .deterministic = true}, true},
      {"forced", 0.01, {}, {.backend = vulkan, .fallback_threshold = 1024}, true},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Plan plan =
        decide({.instances = 5000, .cpu_seconds = row.seconds}, row.options, row.machine);
    EXPECT_EQ(plan.next, row.looks ? Fact::device : Fact::system);
    if (row.looks) continue;
    EXPECT_EQ(plan.backend.backend, cpu);
    EXPECT_EQ(backend_text(plan.backend),
              "cpu: 5000 instances, about 0.01 s, less than a device takes to be found and opened");
  }
}

TEST(Decide, EmulatedFloat64) {
  Plan plan;
  SolverOptions options = {.backend = vulkan, .deterministic = true};
  settle(plan, {.instances = 5000}, options, {true, kEmulating});
  EXPECT_EQ(plan.backend.backend, vulkan) << "forced";
  EXPECT_TRUE(plan.backend.emulated_float64);
  options.backend = automatic;
  settle(plan, {.instances = 5000}, options, {true, kEmulating});
  EXPECT_EQ(plan.backend.backend, cpu) << "no rule can tell which is faster";
  EXPECT_EQ(backend_text(plan.backend),
            "cpu: device \"GPU32\" has no float64 of its own, and deterministic choices do not "
            "emulate it");
  options.precision = Precision::f32;
  settle(plan, {.instances = 5000}, options, {true, kEmulating});
  EXPECT_EQ(plan.backend.backend, vulkan) << "f32 needs none";
}

TEST(Decide, ForcedDeviceThrows) {
  const struct {
    DeviceFacts facts;
    ErrorCode code;
    const char* message;
  } rows[] = {
      {kMissing, ErrorCode::NoLoader, "backend vulkan: no Vulkan loader: install libvulkan1"},
      {kSingle, ErrorCode::Unsupported,
       "backend vulkan: device \"GPU32\" has no float64, which precision f64 needs; use float64 "
       "emulated, precision f32 or backend automatic"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.message);
    try {
      decide({.instances = 1 << 20}, {.backend = vulkan}, {true, row.facts});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code);
      EXPECT_STREQ(error.what(), row.message);
    }
  }
}

/// Forced backend: cpu, a device, or `automatic` for a device whose kernels are waited for.
Plan plan_on(Backend backend, ProblemFacts problem, SolverOptions options,
             std::vector<Fact>* facts = nullptr) {
  options.backend = backend;
  options.fallback_threshold = 0;
  Plan plan;
  std::vector<Fact> asked = settle(plan, problem, options, {true, kGpu, kFaster});
  std::erase_if(asked, [](Fact f) { return f == Fact::device || f == Fact::scheduler; });
  EXPECT_EQ(plan.next, Fact::none);
  if (facts != nullptr) *facts = asked;
  return plan;
}

constexpr HostNeeds kBounds = {.bounds = true}, kManifolds = {.manifolds = true},
                    kBoth = {.bounds = true, .manifolds = true},
                    kOpaque = {.bounds = true, .host_residuals = true},
                    kDogleg = {.bounds = true, .dogleg = true};

TEST(Decide, WhereStepsAreMade) {
  const StepBackend engine = StepBackend::engine, host = StepBackend::host;
  // `automatic` on a device: a small system is read back, a larger one is not.
  const SystemFacts small = {.unknowns = 8,
                             .rows = 20,
                             .work = {.unknowns = 8, .instances = 20, .numbers = 160},
                             .factor = FactorFacts{36, 200}},
                    large = {.unknowns = 900, .rows = 1000},
                    few = {.unknowns = 7,
                           .rows = 100'000,
                           .work = {.unknowns = 7, .instances = 1e5, .numbers = 7e5}};
  const Method lm = Method::levenberg_marquardt;
  const struct {
    const char* name;
    HostNeeds needs;
    bool moves;  // the model defines how engines move blocks on manifolds
    Backend backend;
    Method method;
    LinearSolver asked;
    SystemFacts system;
    StepBackend expected;
    LinearSolver kind;
  } rows[] = {
      {"nothing", {}, false, cpu, lm, any, small, engine, cholesky},
      {"bounds, pcg on the CPU", kBounds, false, cpu, lm, pcg, small, engine, pcg},
      {"bounds on the CPU", kBounds, false, cpu, lm, any, large, host, cholesky},
      {"bounds, another solver", kBounds, false, vulkan, lm, cholesky, large, host, cholesky},
      {"bounds on a device, pcg chosen", kBounds, false, vulkan, lm, any, large, engine, pcg},
      {"bounds on a device, a factor chosen", kBounds, false, vulkan, lm, any, small, host,
       cholesky},
      {"manifolds that nobody moves", kManifolds, false, vulkan, lm, pcg, large, host, pcg},
      {"manifolds on a device", kManifolds, true, vulkan, lm, pcg, large, engine, pcg},
      {"manifolds and bounds on a device", kBoth, true, vulkan, lm, any, large, engine, pcg},
      {"manifolds, pcg on the CPU", kManifolds, true, cpu, lm, pcg, large, engine, pcg},
      {"manifolds on the CPU", kManifolds, true, cpu, lm, any, large, host, cholesky},
      {"few unknowns of many rows on a manifold", kManifolds, true, cpu, lm, any, few, engine, pcg},
      {"the same within bounds", kBoth, true, cpu, lm, any, few, host, cholesky},
      {"manifolds while the interpreter could serve", kManifolds, true, automatic, lm, pcg, large,
       engine, pcg},
      {"opaque residuals", kOpaque, true, vulkan, lm, pcg, large, host, pcg},
      {"dogleg", kDogleg, true, vulkan, lm, pcg, large, host, pcg},
      {"dense", {.solver = LinearSolver::dense}, true, vulkan, lm, dense, large, host, dense},
      {"energies", kBounds, true, vulkan, Method::lbfgs, pcg, large, host, pcg},
      {"Newton", kBounds, false, cpu, Method::newton, any, large, host, cholesky},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Plan plan = plan_on(
        row.backend, {.needs = row.needs, .engine_manifolds = row.moves, .system = row.system},
        {.method = row.method, .linear_solver = row.asked});
    EXPECT_EQ(plan.steps, row.expected);
    EXPECT_EQ(name(plan.linear.kind), name(row.kind));
    if (row.expected == host && !takes_energies(row.method)) {
      EXPECT_EQ(linear_text(plan), "steps on the host: " + text(row.needs));
    }
  }
  const ProblemFacts fixed = {.needs = kBounds, .nothing_free = true, .system = SystemFacts{}};
  EXPECT_EQ(linear_text(plan_on(cpu, fixed, {.method = lm})), "nothing to solve");
}

constexpr EliminationFacts kPoints = {
    .blocks = 500, .eliminated = 1500, .kept = 300, .reach = 2, .pays = true};
constexpr EliminationFacts kMesh = {
    .blocks = 900, .eliminated = 900, .kept = 2100, .reach = 40, .remains_wide = true};
constexpr EliminationFacts kNarrow = {.blocks = 900, .eliminated = 900, .kept = 2100, .reach = 9};

TEST(Decide, AFactorOfADeviceKnowsBoundsAndManifolds) {
  const runtime::FactorUse quick = {.possible = true, .dispatches = 100, .steps = 25},
                           slow = {.possible = true, .dispatches = 1u << 24},
                           cannot = {.why = {runtime::MatrixReason::memory}};
  const auto system = [](const runtime::FactorUse& device) {
    return SystemFacts{
        .unknowns = 3000, .rows = 9000, .factor = FactorFacts{1e8, 1e11}, .device_factor = device};
  };
  const std::vector<Fact> device = {Fact::device_factor},
                          both = {Fact::factor, Fact::device_factor};
  const struct {
    const char* name;
    HostNeeds needs;
    LinearSolver asked;
    FactorPlace factor;
    runtime::FactorUse use;
    std::vector<Fact> facts;
    StepBackend expected;
    const char* why;
  } rows[] = {
      {"bounds", kBounds, cholesky, FactorPlace::device, quick, device, StepBackend::engine,
       "asked for"},
      {"manifolds", kManifolds, any, FactorPlace::device, quick, device, StepBackend::engine,
       "asked for"},
      {"both", kBoth, cholesky, FactorPlace::automatic, quick, both, StepBackend::engine,
       "asked for"},
      {"slower there", kBoth, cholesky, FactorPlace::automatic, slow, both, StepBackend::host,
       "steps on the host: bounds, manifolds"},
      {"not possible", kManifolds, cholesky, FactorPlace::automatic, cannot, both,
       StepBackend::host, "steps on the host: manifolds"},
      {"on the host",
       kManifolds,
       cholesky,
       FactorPlace::host,
       quick,
       {},
       StepBackend::host,
       "steps on the host: manifolds"},
  };
  const auto plan = [&](const HostNeeds& needs, LinearSolver asked, FactorPlace factor,
                        const runtime::FactorUse& use, std::vector<Fact>* facts) {
    return plan_on(
        vulkan, {.needs = needs, .engine_manifolds = true, .system = system(use)},
        {.method = Method::levenberg_marquardt, .linear_solver = asked, .factor = factor}, facts);
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<Fact> facts;
    const Plan made = plan(row.needs, row.asked, row.factor, row.use, &facts);
    EXPECT_EQ(facts, row.facts);
    EXPECT_EQ(made.steps, row.expected);
    EXPECT_EQ(made.linear.kind, cholesky);
    EXPECT_EQ(made.linear.by_engine, row.expected == StepBackend::engine);
    EXPECT_EQ(linear_text(made), row.why);
  }
  // A mesh without two levels.
  SystemFacts mesh = system(quick);
  mesh.elimination = kMesh;
  mesh.device_factor->operations = 2e8;
  const SolverOptions automatic_steps{.method = Method::levenberg_marquardt};
  for (const bool moves : {false, true}) {
    std::vector<Fact> facts;
    const Plan made = plan_on(
        vulkan, {.needs = moves ? kManifolds : kBounds, .engine_manifolds = moves, .system = mesh},
        automatic_steps, &facts);
    EXPECT_EQ(facts, (std::vector{Fact::elimination, Fact::device_factor}));
    EXPECT_EQ(made.steps, StepBackend::engine);
    EXPECT_EQ(made.linear.kind, cholesky);
    EXPECT_EQ(factor_text(made), "the data are there; 0.0021 s expected");
  }
  const auto refusal = [&](const HostNeeds& needs, const runtime::FactorUse& use) {
    try {
      plan(needs, cholesky, FactorPlace::device, use, nullptr);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(kManifolds, cannot),
            "factor device: it takes too much memory; use factor host or automatic");
  EXPECT_EQ(refusal(kDogleg, quick),
            "factor device: steps are made on the host (bounds, dogleg); use factor host or "
            "automatic");
}

TEST(Decide, NamesWhatAsksForTheHost) {
  EXPECT_EQ(text(HostNeeds{}), "");
  EXPECT_EQ(text(kBoth), "bounds, manifolds");
  EXPECT_EQ(text({.host_residuals = true, .dogleg = true, .solver = dense}),
            "residuals on the host, dogleg, dense");
}

TEST(Decide, LinearSolver) {
  const runtime::EliminationUse can = {true, runtime::because(runtime::MatrixReason::eliminated,
                                                              500, 300)},
                                cannot = {false,
                                          runtime::because(runtime::MatrixReason::wide_block, 40)};
  const FactorFacts cheap = {1e5, 1e6}, dear = {1e9, 1e12};
  const runtime::FactorUse there = {.possible = true, .operations = 2e9, .steps = 125},
                           slow = {.possible = true, .operations = 2e9, .steps = 220};
  const SystemFacts points = {
      .unknowns = 2500,
      .rows = 9000,
      .slots = 90000,
      .widest = 9,
      .work = {.unknowns = 2500, .instances = 9000, .numbers = 2.5e5, .block_pairs = 27000},
      .iterations = TriedIterations{.most = 500, .count = 501},
      .elimination = kPoints,
      .on_device = can,
      .factor = cheap,
      .device_factor = there};
  const auto with = [&](auto change) {
    SystemFacts out = points;
    change(out);
    return out;
  };
  const SystemFacts hinted = with([](SystemFacts& s) { s.hinted = true; });
  const SystemFacts refused = with([&](SystemFacts& s) {
    s.on_device = cannot;
    s.device_factor = runtime::FactorUse{};
  });
  const SystemFacts mesh = with([](SystemFacts& s) { s.elimination = kMesh; });
  const SystemFacts dear_mesh = with([&](SystemFacts& s) {
    s.elimination = kMesh;
    s.factor = FactorFacts{1e7, 1e8};
  });
  const SystemFacts long_mesh = with([](SystemFacts& s) {
    s.elimination = kMesh;
    s.elimination->kept = 40000;
  });
  const SystemFacts guessed_mesh = with([](SystemFacts& s) {  // twice the time of iterations
    s.elimination = kMesh;
    s.elimination->kept = 21000;
  });
  const SystemFacts narrow = with([](SystemFacts& s) { s.elimination = kNarrow; });
  const SystemFacts narrow_slow = with([&](SystemFacts& s) {
    s.elimination = kNarrow;
    s.device_factor = slow;
  });
  const SystemFacts narrow_dear = with([&](SystemFacts& s) {
    s.elimination = kNarrow;
    s.factor = dear;
  });
  const SystemFacts few = {.unknowns = 30,
                           .rows = 100,
                           .work = {.unknowns = 30, .instances = 100, .numbers = 3000},
                           .factor = FactorFacts{465, 9000}};
  const SystemFacts some = {.unknowns = 300, .rows = 900, .work = {.unknowns = 300}};
  const auto tried = [&](int count) {
    return with([&](SystemFacts& s) {
      s.elimination = kNarrow;
      s.factor = FactorFacts{4e5, 2e9};
      s.iterations->count = count;
    });
  };
  const SystemFacts penalties = with([](SystemFacts& s) { s.work.penalties = true; });
  const SystemFacts middle = {.unknowns = 999, .rows = 2000};
  const SystemFacts many = {.unknowns = 1'000'001, .rows = 2'000'000, .slots = 8'000'001};
  const SystemFacts wide = {.unknowns = 3000,
                            .rows = 3,
                            .widest = 3000,
                            .work = {.unknowns = 3000, .instances = 3, .numbers = 9000}};
  const std::vector<Fact> nothing,
      search = {Fact::elimination}, search_ask = {Fact::elimination, Fact::device_elimination},
      search_there = {Fact::elimination, Fact::device_factor},
      ask_both = {Fact::elimination, Fact::device_elimination, Fact::device_factor},
      search_factor = {Fact::elimination, Fact::factor}, costs = {Fact::factor},
      search_try = {Fact::elimination, Fact::factor, Fact::iterations},
      there_alone = {Fact::device_factor};
  const Preconditioner none = Preconditioner::automatic, blocks = Preconditioner::block_jacobi;
  const ForcingSequence constant = ForcingSequence::constant,
                        by_gradient = ForcingSequence::eisenstat_walker;
  const struct {
    const char* name;
    Backend backend;
    LinearSolver asked;
    Preconditioner preconditioner;
    SystemFacts system;
    std::vector<Fact> facts;
    LinearSolver kind;
    bool by_engine;
    ForcingSequence forcing;
    const char* why;
  } rows[] = {
      {"nothing", cpu, schur, none, SystemFacts(), nothing, pcg, true, constant,
       "nothing to solve"},
      {"pcg", vulkan, pcg, blocks, points, nothing, pcg, true, constant, "asked for"},
      {"preconditioner", cpu, any, blocks, hinted, nothing, pcg, true, constant,
       "its preconditioner is asked for"},
      {"cholesky", cpu, cholesky, none, points, nothing, cholesky, false, constant, "asked for"},
      {"cholesky from a device", vulkan, cholesky, none, points, costs, cholesky, false, constant,
       "asked for; Jacobian and gradient are read back at each accepted point"},
      {"schur", cpu, schur, none, points, search, schur, false, constant,
       "asked for; 500 blocks eliminated, 300 unknowns remain"},
      {"schur by iterations", cpu, schur, blocks, points, search, schur, false, constant,
       "asked for; 500 blocks eliminated, 300 unknowns remain: conjugate gradients on products "
       "with their complement"},
      {"schur by a hint", cpu, any, none, hinted, search, schur, false, constant,
       "asked for in the order given; 500 blocks eliminated, 300 unknowns remain"},
      {"schur on a device", vulkan, schur, none, hinted, search_ask, schur, true, constant,
       "asked for in the order given; on the device, 500 blocks eliminated, 300 unknowns remain"},
      {"schur that a device cannot", vulkan, schur, none, refused, search_ask, schur, false,
       constant,
       "asked for; Jacobian and gradient are read back at each accepted point; 500 blocks "
       "eliminated, 300 unknowns remain (not on the device: a block has 40 unknowns)"},
      {"few on a device", vulkan, any, none, few, nothing, cholesky, false, constant,
       "30 unknowns: fewer than iterations are worth; the Jacobian is read back"},
      {"few on the CPU", cpu, any, none, few, costs, cholesky, false, constant, "30 unknowns"},
      {"no search on a device", vulkan, any, none, middle, nothing, pcg, true, constant,
       "the data are on the device"},
      {"read back", vulkan, any, none, some, nothing, cholesky, false, constant,
       "300 unknowns: iterations on the device are expected to take longer than the way of the "
       "Jacobian and a factor on the host"},
      {"penalties on a device", vulkan, any, none, penalties, there_alone, cholesky, true, constant,
       "the data are on the device; 2500 unknowns: a factor there takes 2e+09 operations, less "
       "time than iterations"},
      {"search too long", vulkan, any, none, many, nothing, pcg, true, constant,
       "the data are on the device"},
      {"mesh on a device", vulkan, any, none, mesh, search, pcg, true, by_gradient,
       "the data are on the device; a mesh, up to 40 residuals wide: solved as exactly as the "
       "gradient falls"},
      {"more kept than eliminated", vulkan, any, none, narrow_slow, search_there, pcg, true,
       constant, "the data are on the device"},
      {"the same with a cheap factor there", vulkan, any, none, narrow, search_there, cholesky,
       true, constant,
       "the data are on the device; 2500 unknowns: a factor there takes 2e+09 operations, less "
       "time "
       "than iterations"},
      {"eliminated on a device", vulkan, any, none, points, search_ask, schur, true, constant,
       "the data are on the device; 500 blocks eliminated, 300 unknowns remain"},
      {"not eliminated on a device", vulkan, any, none, refused, ask_both, pcg, true, constant,
       "the data are on the device; no elimination: a block has 40 unknowns"},
      {"wide residual", vulkan, any, none, wide, nothing, pcg, true, constant,
       "3000 unknowns: a residual reads 3e+03, whose part of a factor takes 9e+09 operations"},
      {"many on the CPU", cpu, any, none, many, nothing, pcg, true, constant, "1000001 unknowns"},
      {"elimination pays", cpu, any, none, points, search, schur, false, constant,
       "2500 unknowns: 500 blocks eliminated, 300 unknowns remain"},
      {"mesh with a cheap factor", cpu, any, none, mesh, search_factor, cholesky, false, constant,
       "2500 unknowns: a factor has 1e+05 entries and takes 1e+06 operations"},
      {"mesh with a dear factor", cpu, any, none, dear_mesh, search_factor, pcg, true, by_gradient,
       "2500 unknowns: a factor has 1e+07 entries and takes 1e+08 operations; a mesh, up to 40 "
       "residuals wide: solved as exactly as the gradient falls"},
      {"mesh whose factor is dear at a guess", cpu, any, none, long_mesh, search, pcg, true,
       by_gradient,
       "2500 unknowns; a mesh, up to 40 residuals wide: solved as exactly as the gradient falls"},
      {"mesh whose factor may be cheaper than the guess", cpu, any, none, guessed_mesh,
       search_factor, cholesky, false, constant,
       "2500 unknowns: a factor has 1e+05 entries and takes 1e+06 operations"},
      {"few iterations", cpu, any, none, tried(9), search_try, pcg, true, by_gradient,
       "2500 unknowns: a factor has 4e+05 entries and takes 2e+09 operations; 9 iterations solve "
       "the first system"},
      {"many iterations", cpu, any, none, tried(201), search_try, cholesky, false, constant,
       "2500 unknowns: a factor has 4e+05 entries and takes 2e+09 operations"},
      {"dear factor", cpu, any, none, narrow_dear, search_factor, pcg, true, constant,
       "2500 unknowns: a factor has 1e+09 entries and takes 1e+12 operations, too many"},
      {"cheap factor", cpu, any, none, narrow, search_factor, cholesky, false, constant,
       "2500 unknowns: a factor has 1e+05 entries and takes 1e+06 operations"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<Fact> facts;
    const Plan plan = plan_on(row.backend, {.system = row.system},
                              {.method = Method::levenberg_marquardt,
                               .linear_solver = row.asked,
                               .preconditioner = row.preconditioner},
                              &facts);
    EXPECT_EQ(facts, row.facts);
    EXPECT_EQ(plan.steps, StepBackend::engine);
    EXPECT_EQ(name(plan.linear.kind), name(row.kind));
    EXPECT_EQ(plan.linear.by_engine, row.by_engine);
    EXPECT_EQ(plan.linear.forcing, row.forcing);
    EXPECT_EQ(linear_text(plan), row.why);
  }
}

TEST(Decide, MethodsThatTakeEnergies) {
  const SystemFacts few = {.unknowns = 2000}, many = {.unknowns = 2001, .slots = 8'000'001};
  const SystemFacts mesh = {.unknowns = 3000, .elimination = kMesh};
  const SystemFacts narrow = {.unknowns = 3000, .elimination = kNarrow};
  const SystemFacts wide = {
      .unknowns = 3000, .widest = 3000, .work = {.unknowns = 3000, .numbers = 9000}};
  // Logistic regression: 2,000 energies of 120 unknowns.
  const SystemFacts regression = {.unknowns = 120,
                                  .work = {.operations = 5e5, .cubes = 3.5e9, .columns = 6e7}};
  const struct {
    Method method;
    LinearSolver asked;
    SystemFacts system;
    LinearSolver kind;
    const char* why;
  } rows[] = {
      {Method::lbfgs, any, mesh, cholesky, "steps come from gradients"},
      {Method::adam, pcg, mesh, pcg, "steps come from gradients"},
      {Method::newton, pcg, few, pcg, "on products with the Hessian"},
      {Method::newton, schur, mesh, cholesky, "of projected Hessians, on the host"},
      {Method::newton, any, few, cholesky, "of projected Hessians, on the host"},
      {Method::newton, any, regression, pcg,
       "120 unknowns: Hessians without negative eigenvalues take longer than products: on products "
       "with the Hessian"},
      {Method::newton, any, many, pcg, "2001 unknowns: on products with the Hessian"},
      {Method::newton, any, wide, pcg, "3000 unknowns: on products with the Hessian"},
      {Method::newton, any, narrow, cholesky, "3000 unknowns: of projected Hessians, on the host"},
      {Method::newton, any, mesh, pcg,
       "3000 unknowns, a mesh up to 40 terms wide: on products with the Hessian"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.why);
    const Plan plan =
        plan_on(vulkan, {.system = row.system}, {.method = row.method, .linear_solver = row.asked});
    EXPECT_EQ(plan.steps, StepBackend::engine);
    EXPECT_EQ(name(plan.linear.kind), name(row.kind));
    EXPECT_EQ(linear_text(plan), row.why);
  }
}

TEST(Decide, Precision) {
  const struct {
    Precision asked, point, system;
  } rows[] = {{Precision::f32, Precision::f32, Precision::f32},
              {Precision::f64, Precision::f64, Precision::f64},
              {Precision::mixed, Precision::f64, Precision::f32}};
  for (const auto& row : rows) {
    const Plan plan = decide({}, {.backend = cpu, .precision = row.asked}, {});
    EXPECT_EQ(plan.precision.point, row.point);
    EXPECT_EQ(plan.precision.system, row.system);
  }
}

/// The one that is asked for, wherever it exists, else block_jacobi with the reason.
TEST(Decide, Preconditioner) {
  for (const runtime::PreconditionerRow& row : std::span(runtime::kPreconditioners).subspan(1)) {
    for (const Backend backend : {cpu, vulkan}) {
      SCOPED_TRACE(row.name);
      const bool exists = backend == cpu ? row.on_cpu : row.on_device;
      Plan plan;
      settle(plan, {}, {.backend = backend, .preconditioner = row.value}, {false, kGpu, kFaster});
      EXPECT_EQ(plan.preconditioner.kind, exists ? row.value : Preconditioner::block_jacobi);
      const std::string why = preconditioner_text(
          plan, {.asked_for = true, .why = {runtime::PreconditionerReason::asked_for}});
      EXPECT_EQ(why, exists ? "asked for"
                     : backend == cpu
                         ? "the preconditioner that is asked for exists on devices alone"
                         : "the preconditioner that is asked for exists on the CPU alone");
    }
  }
}

TEST(Report, PreconditionerTexts) {
  using Reason = runtime::PreconditionerReason;
  const struct {
    runtime::PreconditionerUse use;
    const char* text;
  } rows[] = {
      {{}, ""},
      {{.asked_for = true, .why = {Reason::asked_for}}, "asked for"},
      {{.why = {Reason::few_iterations}}, "few iterations"},
      {{.why = runtime::because(Reason::cheaper_iterations, 84)},
       "fewer iterations than the 84 that a coarse space and its trial must be worth"},
      {{.why = runtime::because(Reason::coarse_space, 115, 84, 234, 6, 13, 84)},
       "115 aggregates of 84 to 234 unknowns, 6 vectors on each, made 13 times by 84 products "
       "each"},
      {{.why = runtime::because(Reason::no_gain, 420, 379)},
       "no coarse space: a trial took 420 iterations with it, 379 without"},
      {{.asked_for = true, .why = runtime::because(Reason::coarse_space, 2, 3, 4, 1, 1, 5)},
       "asked for; 2 aggregates of 3 to 4 unknowns, 1 vectors on each, made 1 time by 5 products "
       "each"},
  };
  for (const auto& row : rows) EXPECT_EQ(preconditioner_text({}, row.use), row.text);
}

TEST(Decide, OnTheHost) {
  EXPECT_EQ(host_solver(cholesky, true, true), cholesky);
  EXPECT_EQ(host_solver(any, false, false), cholesky);
  EXPECT_EQ(host_solver(any, true, false), schur);
  EXPECT_EQ(host_solver(any, false, true), schur);
}

}  // namespace
}  // namespace topograd
