// Sources of the kernels that this process asks its devices for, of all kinds, to be read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime {

/// A kernel as the shader compiler gets it.
struct ListedKernel {
  std::string name;  ///< as the device's objects and profilers have it
  std::string glsl;
};

/// Lists what devices are asked for while it lives, in all threads, whether it had to be made or
/// was there: kernels of solvers, of arrays and tensors, and of tasks. One lives at a time.
///
/// With TOPOGRAD_KERNELS=FOLDER a process also writes each of them into the folder, which is made,
/// as NAME.glsl; of kernels of one name the later ones are NAME-2.glsl and so on.
class ListKernels {
 public:
  /// Throws Error{InvalidArgument} if there is one.
  ListKernels();
  ~ListKernels();
  ListKernels(const ListKernels&) = delete;
  ListKernels& operator=(const ListKernels&) = delete;

  /// Each source once, in the order of the first requests.
  std::vector<ListedKernel> kernels() const;
};

/// Called by those who make kernels, before they look for one. Cost: a load where nobody lists.
void note_kernel(std::string_view name, std::string_view glsl);

/// Names for files of kernels: characters that files had better not have are '_', and names that
/// came before get a number.
class FileNames {
 public:
  std::string next(std::string_view name);

 private:
  std::map<std::string, int> count_;
};

}  // namespace topograd::runtime
