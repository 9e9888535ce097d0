// Bad input to the command: exit status 2 and one line that says what to change.
#include "support/paths.hpp"
#include "tools/run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace topograd::test {
namespace {

struct Row {
  const char* name;
  const char* file;       ///< contents of mesh.obj; null = no file
  const char* arguments;  ///< MESH stands for its path
  const char* error;      ///< MESH likewise
};

const Row kRows[] = {
    {"no file", nullptr, "solve arap --mesh MESH", "topograd: MESH: cannot be read\n"},
    {"empty file", "", "solve arap --mesh MESH", "topograd: MESH:1: the file is empty\n"},
    {"not a mesh", "hello world\n", "solve arap --mesh MESH",
     "topograd: MESH:1: expected an OBJ record, got \"hello\"\n"},
    {"truncated vertex", "v 0 0 0\nv 1 0 0\nv 0 1", "solve arap --mesh MESH",
     "topograd: MESH:3: expected three coordinates after \"v\", got 2\n"},
    {"truncated face", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a face of at least three corners, got 2\n"},
    {"no faces", "v 0 0 0\nv 1 0 0\nv 0 1 0\n", "solve arap --mesh MESH",
     "topograd: MESH:3: expected faces, got none\n"},
    {"face index out of range", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a vertex number from 1 to 3, got 4\n"},
    {"face index zero", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "solve arap --mesh MESH",
     "topograd: MESH:4: expected a vertex number from 1 to 3, got 0\n"},
    {"NaN", "v 0 nan 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "solve arap --mesh MESH",
     "topograd: MESH:1: expected a finite coordinate, got \"nan\"\n"},
    {"no mesh given", nullptr, "solve arap", "topograd: arap: expected --mesh FILE.obj\n"},
    {"unknown problem", nullptr, "solve nothing",
     "topograd: expected the problem arap or springs, got \"nothing\"\n"},
    {"unknown kernel", nullptr, "dump springs --kernel hessean",
     "topograd: dump: expected --kernel residual, cost, gradient, jacobian, jtjp, blocks, jvp, "
     "vjp, got "
     "\"hessean\"\n"},
    {"unknown format", nullptr, "dump springs --emit wgsl",
     "topograd: dump: expected --emit ir, dot, glsl, spirv, hlsl, msl or essl, got \"wgsl\"\n"},
    {"f64 in HLSL's place", nullptr, "dump springs --width 4 --emit essl --precision f64", nullptr},
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
    if (row.error != nullptr) {
      EXPECT_EQ(result.err, with_path(row.error, mesh));
    }
  }
}

TEST(CommandErrors, UnknownOptionsAndSubcommands) {
  for (const char* arguments :
       {"", "frobnicate", "solve springs --frobnicate", "solve springs --width many",
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
TEST(CommandErrors, NoLoader) {
  const char* missing = "TOPOGRAD_VULKAN_LOADER=/nowhere/libvulkan.so.1 TOPOGRAD_VALIDATION=0";
  const CommandResult forced = topograd("solve springs --width 4 --backend vulkan", missing);
  EXPECT_EQ(forced.status, 2);
  EXPECT_NE(forced.err.find("/nowhere/libvulkan.so.1"), std::string::npos) << forced.err;
  EXPECT_EQ(std::count(forced.err.begin(), forced.err.end(), '\n'), 1) << forced.err;
  const CommandResult automatic = topograd("solve springs --width 30", missing);
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_NE(automatic.out.find("/nowhere/libvulkan.so.1"), std::string::npos) << automatic.out;
  const CommandResult doctor = topograd("doctor", missing);
  EXPECT_EQ(doctor.status, 1);
  EXPECT_NE(doctor.out.find("libvulkan1"), std::string::npos) << doctor.out;
}

TEST(CommandErrors, NoDriver) {
  const char* none =
      "VK_DRIVER_FILES=/nowhere.json VK_ICD_FILENAMES=/nowhere.json TOPOGRAD_VALIDATION=0";
  const CommandResult forced = topograd("solve springs --width 4 --backend vulkan", none);
  EXPECT_EQ(forced.status, 2);
  EXPECT_EQ(std::count(forced.err.begin(), forced.err.end(), '\n'), 1) << forced.err;
  EXPECT_EQ(topograd("solve springs --width 4", none).status, 0);
  EXPECT_NE(topograd("doctor", none).out.find("mesa-vulkan-drivers"), std::string::npos);
}

TEST(CommandErrors, NoSuchDevice) {
  const CommandResult result =
      topograd("solve springs --width 4 --backend vulkan --device 'no such'");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("no such"), std::string::npos) << result.err;
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
