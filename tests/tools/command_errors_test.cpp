// Invalid input to the command: exit status 2 and one line that says what to change.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace topograd::test {
namespace {

struct Row {
  const char* name;
  const char* file;       ///< contents of mesh.obj; null = no file
  const char* arguments;  ///< MESH is replaced by its path
  const char* error;      ///< same replacement
};

/// Three triangles at one edge.
constexpr const char* kBook =
    "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 -1 0\nf 1 2 3\nf 2 1 4\nf 1 2 5\n";

const Row kRows[] = {
    {"no file", nullptr, "solve arap --mesh MESH",
     "topograd: MESH: cannot be read: No such file or directory\n"},
    {"empty file", "", "solve arap --mesh MESH", "topograd: MESH:1: the file is empty\n"},
    {"not a mesh", "hello world\n", "solve arap --mesh MESH",
     "topograd: MESH:1: expected an OBJ record, got \"hello\"\n"},
    {"truncated vertex", "v 0 0 0\nv 1 0 0\nv 0 1", "solve arap --mesh MESH",
     "topograd: MESH:3: expected a coordinate as a finite number, got the end of the file\n"},
    {"truncated face", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a face of at least three corners, got 2\n"},
    {"no faces", "v 0 0 0\nv 1 0 0\nv 0 1 0\n", "solve arap --mesh MESH",
     "topograd: MESH:4: expected faces, got none\n"},
    {"face index out of range", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a vertex number from 1 to 3, got 4\n"},
    {"records over several lines", "v 0 0 0\nv 1 0 \\\n0 # one\nv 0 1 0\nf 1 \\\r\n 2 \\\n 4\n",
     "solve arap --mesh MESH", "topograd: MESH:5: expected a vertex number from 1 to 3, got 4\n"},
    {"mark of UTF-8 is no record", "\xef\xbb\xbfv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n",
     "solve arap --mesh MESH", "topograd: MESH:4: expected a vertex number from 1 to 3, got 4\n"},
    {"face index zero", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a vertex number from 1 to 3, got 0\n"},
    {"the least number", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -9223372036854775808 1 2\n",
     "solve arap --mesh MESH",
     "topograd: MESH:4: expected a vertex number from 1 to 3, got -9223372036854775808\n"},
    {"NaN", "v 0 nan 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "solve arap --mesh MESH",
     "topograd: MESH:1: expected a coordinate as a finite number, got \"nan\"\n"},
    {"a vertex twice", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 2\n",
     "solve arap --mesh MESH --strict",
     "topograd: MESH:5: expected a face of different vertices, got vertex 2 twice\n"},
    {"three triangles at an edge", kBook, "solve multi --mesh MESH --strict",
     "topograd: MESH:8: expected a manifold mesh, but 3 triangles meet in the edge from vertex 1 "
     "to "
     "vertex 2 (lines 6, 7, 8)\n"},
    {"no fans for hinges", kBook, "solve developable --mesh MESH --energy hinge",
     "topograd: MESH:8: expected a manifold mesh, but 3 triangles meet in the edge from vertex 1 "
     "to "
     "vertex 2 (lines 6, 7, 8)\n"},
    {"no format to write", nullptr, "solve arap --icosphere 0 --out mesh.vtk",
     "topograd: expected a mesh file that ends in .obj, .off, .ply or .stl, got \"mesh.vtk\"\n"},
    {"no mesh given", nullptr, "solve arap",
     "topograd: arap: expected --mesh FILE or --icosphere K\n"},
    {"two meshes given", nullptr, "solve smooth --mesh a.obj --icosphere 1",
     "topograd: smooth: expected --mesh or --icosphere, got both\n"},
    {"mesh of a grid", nullptr, "solve springs --mesh a.obj",
     "topograd: springs: expected --mesh with arap, smooth, developable, multi alone, got it with "
     "springs\n"},
    {"misspelt problem", nullptr, "solve sprigns",
     "topograd: expected the problem arap, smooth, developable, multi, springs, cloth, bundle, "
     "bal, colmap, openmvg, pose-graph, nist, mgh or a file that ends in .json, got \"sprigns\"; "
     "did "
     "you mean "
     "\"springs\"?\n"},
    {"misspelt option", nullptr, "solve springs --bakcend cpu",
     "topograd: topograd solve: expected an option of `topograd solve --help`, got \"--bakcend\"; "
     "did you mean \"--backend\"?\n"},
    {"misspelt set", nullptr, "solve mgh --set rosenbrok",
     "topograd: mgh: expected --set to be one of rosenbrock, freudenstein_roth, "
     "powell_badly_scaled, brown_badly_scaled, beale, jennrich_sampson, helical_valley, bard, "
     "gaussian, meyer, gulf, box_3d, powell_singular, wood, kowalik_osborne, brown_dennis, "
     "osborne_1, biggs_exp6, osborne_2, got \"rosenbrok\"; did you mean \"rosenbrock\"?\n"},
    {"option of another problem", nullptr, "solve springs --cameras 4",
     "topograd: springs: expected --cameras with bundle alone, got it with springs\n"},
    {"unknown energy", nullptr, "solve developable --icosphere 0 --energy bending",
     "topograd: developable: --energy: expected one of covariance, hinge, got \"bending\"\n"},
    {"least squares of energies", nullptr, "solve developable --icosphere 0 --method lm",
     "topograd: solve: levenberg_marquardt minimises sums of squares, the energy \"covariance\" is "
     "none; use lbfgs, newton, adam, adamw or sgd\n"},
    {"residual kernel of energies", nullptr, "dump developable --icosphere 0 --kernel residual",
     "topograd: dump: expected --kernel cost, gradient, hvp or hessian for a problem of energies, "
     "got \"residual\"\n"},
    {"unknown problem", nullptr, "solve nothing",
     "topograd: expected the problem arap, smooth, developable, multi, springs, cloth, bundle, "
     "bal, colmap, openmvg, pose-graph, nist, mgh or a file that ends in .json, got \"nothing\"\n"},
    {"no data", nullptr, "solve nist", "topograd: nist: expected --data FOLDER\n"},
    {"no sets", nullptr, "solve nist --data MESH",
     "topograd: MESH: expected a file or a folder with files *.dat\n"},
    {"no set", "v 0 0 0\n", "solve nist --data MESH",
     "topograd: MESH: expected a set of NIST's StRD, there is no line \"Model:\"\n"},
    {"many problems to measure", nullptr, "bench mgh --set nothing",
     "topograd: mgh: expected --set to be one of rosenbrock, freudenstein_roth, "
     "powell_badly_scaled, brown_badly_scaled, beale, jennrich_sampson, helical_valley, bard, "
     "gaussian, meyer, gulf, box_3d, powell_singular, wood, kowalik_osborne, brown_dennis, "
     "osborne_1, biggs_exp6, osborne_2, got \"nothing\"\n"},
    {"odd count", nullptr, "solve mgh --count 10",
     "topograd: mgh: expected a --count for extended_rosenbrock that is a multiple of 4 in 4 .. "
     "100000000, got 10\n"},
    {"too few points", nullptr, "solve bundle --cameras 2 --points 10 --observations 20",
     "topograd: bundle: expected 18 points or more with 2 cameras, got 10\n"},
    {"too few observations", nullptr, "solve bundle --cameras 4 --points 20 --observations 40",
     "topograd: bundle: expected observations in 48 .. 80, got 40\n"},
    {"mesh of a set", nullptr, "solve mgh --out a.obj",
     "topograd: mgh: --out expects a problem that has a mesh\n"},
    {"unknown kernel", nullptr, "dump springs --kernel hessean",
     "topograd: dump: expected --kernel residual, cost, gradient, jacobian, jtjp, blocks, jvp, "
     "vjp, hvp, hessian, got "
     "\"hessean\"\n"},
    {"unknown format", nullptr, "dump springs --emit metal",
     "topograd: dump: expected --emit ir, dot, glsl, spirv, hlsl, msl, essl, wgsl, c or js, got "
     "\"metal\"\n"},
#ifdef TOPOGRAD_WITH_VULKAN
    {"f64 in ESSL", nullptr, "dump springs --width 4 --emit essl --precision f64",
     "topograd: cross: ESSL cannot say: 64-bit floats\n"},
#else
    {"no shader compiler", nullptr, "dump springs --width 4 --emit essl",
     "topograd: dump: --emit essl expects a build with Vulkan (TOPOGRAD_VULKAN=ON)\n"},
#endif
    {"a folder", nullptr, "solve arap --mesh /",
     "topograd: expected a mesh file that ends in .obj, .off, .ply or .stl, got \"/\"\n"},
    {"unknown normal matrix", nullptr, "solve springs --width 4 --normal-matrix dense",
     "topograd: normal matrix: expected one of automatic, matrix_free, assembled, got "
     "\"dense\"\n"},
    {"unknown peer", nullptr, "solve springs --width 4 --peer jaxls",
     "topograd: expected --peer ceres, got \"jaxls\"\n"},
    {"peer that is not given it", nullptr, "solve mgh --count 10 --peer ceres",
     "topograd: mgh --count: --peer ceres expects arap, bal, bundle, colmap, developable, "
     "mgh, multi, nist, openmvg, pose-graph, smooth or springs\n"},
    {"no mesh to write", nullptr, "solve springs --width 4 --out x.obj",
     "topograd: springs: --out expects a problem that has a mesh, a scene or a pose graph\n"},
    {"no vertices", "f 1 2 3\n", "solve arap --mesh MESH",
     "topograd: MESH:1: expected vertices, got none, and a face of 1\n"},
    {"width of one", nullptr, "solve springs --width 1 --backend cpu",
     "topograd: springs: expected a width in 2 .. 37837, got 1\n"},
    {"a cloth of one vertex", nullptr, "solve cloth --width 1",
     "topograd: cloth: expected a width in 2 .. 37837, got 1\n"},
    {"negative number of programs", nullptr, "check random --count -1",
     "topograd: --count: expected a number >= 0, got -1\n"},
    {"text for a number", nullptr, "solve springs --width many",
     "topograd: --width: expected a whole number, got many\n"},
    {"a number with more behind it", nullptr, "solve springs --width 10x",
     "topograd: --width: expected a whole number, got 10x\n"},
    {"a number beyond its type", nullptr, "solve springs --width 5000000000",
     "topograd: --width: expected a number of at most 4294967295, got 5000000000\n"},
    {"text for a tolerance", nullptr, "solve springs --width 4 --tolerance small",
     "topograd: --tolerance: expected a number, got small\n"},
    {"samples out of range", nullptr, "bench springs --width 4 --samples 0",
     "topograd: --samples: expected a number in 1 .. 1000, got 0\n"},
    {"no programs", nullptr, "check random --count 0",
     "topograd: --count: expected a number in 1 .. 2147483647, got 0\n"},
    {"an output without a name", nullptr, "solve springs --width 4 --json ''",
     "topograd: --json: expected the name of a file, got none\n"},
    {"two outputs to one file", nullptr,
     "solve springs --width 4 --quiet --json MESH --metrics MESH",
     "topograd: --metrics: expected another file than --json has, got MESH\n"},
    {"a report over the problem file", "{}", "solve MESH --json MESH",
     "topograd: --json: expected another file than MESH has, got MESH\n"},
    {"unknown command", nullptr, "nonsense",
     "topograd: expected one of the commands info, doctor, demo, solve, view, dump, export, "
     "grad, bench, check, model, warm-up, man, completion, got \"nonsense\"\n"},
    {"no check", nullptr, "check",
     "topograd: expected one of the commands ops, random, gradients, routing, corruption, faults, "
     "soak, scaling, compile, start, repeat, view, got none\n"},
    {"unknown check", nullptr, "check nonsense --count 3",
     "topograd: expected one of the commands ops, random, gradients, routing, corruption, faults, "
     "soak, scaling, compile, start, repeat, view, got \"nonsense\"\n"},
    {"negative count", nullptr, "solve springs --width 4 --max-iterations -1",
     "topograd: options: max_iterations must be a finite number >= 0, got -1\n"},
    {"tolerance that is no number", nullptr, "solve springs --width 4 --tolerance nan",
     "topograd: options: function_tolerance must be a finite number >= 0, got nan\n"},
    {"unknown backend", nullptr, "solve springs --backend cuda",
     "topograd: backend: expected one of automatic, cpu, vulkan, auto, gpu, got \"cuda\"\n"},
    {"unwritable JSON", nullptr, "solve springs --width 4 --quiet --json /nowhere/x",
     "topograd: /nowhere/x: cannot be written\n"},
    {"unwritable report", nullptr, "dump springs --width 4 --list --out /nowhere/x",
     "topograd: /nowhere/x: cannot be written\n"},
};

std::string with_path(std::string text, const std::string& path) {
  for (std::size_t at; (at = text.find("MESH")) != std::string::npos;) text.replace(at, 4, path);
  return text;
}

TEST(CommandErrors, AreOneLineAndStatusTwo) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const TemporaryDir folder;
    const std::string mesh = folder.path() / "mesh.obj";
    if (row.file != nullptr) std::ofstream(mesh) << row.file;
    const CommandResult result = topograd(with_path(row.arguments, mesh));
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.err, with_path(row.error, mesh));
  }
}

TEST(CommandErrors, UnknownOptionsAndSubcommands) {
  for (const char* arguments :
       {"check", "frobnicate", "solve springs --frobnicate", "solve springs --width many",
        "solve springs --backend cuda", "solve springs --precision f16",
        "dump springs --accumulate magic"}) {
    const CommandResult result = topograd(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << arguments << result.err;
    EXPECT_TRUE(result.err.starts_with("topograd: ")) << result.err;
  }
}

TEST(CommandErrors, HelpIsNoError) {
  EXPECT_EQ(topograd("--help").status, 0);
  EXPECT_NE(topograd("solve --help").out.find("--tolerance"), std::string::npos);
}

#ifdef TOPOGRAD_WITH_VULKAN
/// One thread takes longer for this than a device takes to be found, on any machine.
constexpr const char* kLong = "solve springs --width 100 --max-iterations 2 --threads 1";

TEST(CommandErrors, NoLoader) {
  const char* missing = "TOPOGRAD_VULKAN_LOADER=/nowhere/libvulkan.so.1 TOPOGRAD_VALIDATION=0";
  const CommandResult forced = topograd("solve springs --width 4 --backend vulkan", missing);
  EXPECT_EQ(forced.status, 2);
  EXPECT_EQ(forced.err,
            "topograd: backend vulkan: vulkan: cannot open the Vulkan loader: tried "
            "/nowhere/libvulkan.so.1 (/nowhere/libvulkan.so.1: cannot open shared object file: No "
            "such file or directory); install the package libvulkan1, or set "
            "TOPOGRAD_VULKAN_LOADER to its path\n");
  const CommandResult automatic = topograd(kLong, missing);
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_NE(automatic.out.find("/nowhere/libvulkan.so.1"), std::string::npos) << automatic.out;
  const CommandResult doctor = topograd("doctor", missing);
  EXPECT_EQ(doctor.status, 1);
  EXPECT_NE(doctor.out.find("libvulkan1"), std::string::npos) << doctor.out;
  const CommandResult report = topograd("doctor --json -", missing);
  EXPECT_EQ(report.status, 1);
  const nlohmann::json json = nlohmann::json::parse(report.out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["checks"][0]["name"], "loader");
  EXPECT_EQ(json["checks"][0]["state"], "missing");
  EXPECT_TRUE(json["devices"].contains("error")) << json["devices"];
}

TEST(CommandErrors, NoDriver) {
  const char* none =
      "VK_DRIVER_FILES=/nowhere.json VK_ICD_FILENAMES=/nowhere.json TOPOGRAD_VALIDATION=0";
  const CommandResult forced = topograd("solve springs --width 4 --backend vulkan", none);
  EXPECT_EQ(forced.status, 2);
  EXPECT_TRUE(forced.err.starts_with("topograd: backend vulkan: vulkan: the loader "));
  EXPECT_TRUE(forced.err.ends_with(
      " finds no Vulkan driver (VK_DRIVER_FILES=/nowhere.json, VK_ICD_FILENAMES=/nowhere.json); "
      "install the driver of the graphics card, or the package mesa-vulkan-drivers\n"))
      << forced.err;
  EXPECT_EQ(std::count(forced.err.begin(), forced.err.end(), '\n'), 1) << forced.err;
  const CommandResult automatic = topograd(kLong, none);
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_NE(automatic.out.find("finds no Vulkan driver"), std::string::npos) << automatic.out;
  EXPECT_NE(topograd("doctor", none).out.find("mesa-vulkan-drivers"), std::string::npos);
}
#else
TEST(CommandErrors, ABuildWithoutVulkanSaysSo) {
  const CommandResult forced = topograd("solve springs --width 4 --backend vulkan");
  EXPECT_EQ(forced.status, 2);
  EXPECT_NE(forced.err.find("TOPOGRAD_VULKAN"), std::string::npos) << forced.err;
  EXPECT_EQ(topograd("solve springs --width 4").status, 0);
  EXPECT_EQ(topograd("doctor").status, 1);
}
#endif

}  // namespace
}  // namespace topograd::test
