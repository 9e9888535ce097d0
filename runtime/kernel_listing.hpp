// Kernels that this process requests: their sources, compilation times and the driver's figures.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime {

/// One compiled kernel: its compilation times, and the driver's figures under the driver's names
/// (registers, spills, memory, occupancy).
struct KernelFigures {
  std::string name;
  std::uint32_t workgroup_size = 0;
  double glsl_ms = 0;      ///< generation of the source by this engine
  double spirv_ms = 0;     ///< compiler, reflection and disk; 0 if the module was in memory
  double pipeline_ms = 0;  ///< driver; 0 if the pipeline was in memory
  std::string origin;      ///< of the module: "compiled", "disk" or "memory"
  struct Figure {
    std::string name;
    double value = 0;
  };
  std::vector<Figure> figures;

  double making_ms() const { return glsl_ms + spirv_ms + pipeline_ms; }
};

/// A kernel as the shader compiler reads it.
struct ListedKernel {
  std::string name;  ///< as in the device's objects and in profilers
  std::string glsl;
};

/// Lists, while it lives, the kernels that any thread requests, compiled or cached: those of
/// solvers, of arrays and tensors, and of tasks. Only one may exist at a time.
///
/// With TOPOGRAD_KERNELS=FOLDER a process also writes each kernel to FOLDER/NAME.glsl and makes the
/// folder; further kernels of one name are NAME-2.glsl and so on.
class ListKernels {
 public:
  /// Throws Error{InvalidArgument} if one exists.
  ListKernels();
  ~ListKernels();
  ListKernels(const ListKernels&) = delete;
  ListKernels& operator=(const ListKernels&) = delete;

  /// Each source once, in the order of the first requests.
  std::vector<ListedKernel> kernels() const;
};

/// Records a kernel; called before a look-up in a cache. Cost: one load if nobody lists.
void note_kernel(std::string_view name, std::string_view glsl);

/// File names of kernels: replaces unsafe characters by '_' and adds numbers to repeated names.
class FileNames {
 public:
  std::string next(std::string_view name);

 private:
  std::map<std::string, int> count_;
};

}  // namespace topograd::runtime
