// Runs one of the programs in Ceres' style: ceres_programs NAME [ARGUMENTS].
#include <cstdio>
#include <cstring>

#define PROGRAM(name) int name##_main(int argc, char** argv);
#include "programs.inc"
#undef PROGRAM

int main(int argc, char** argv) {
#define PROGRAM(name) \
  if (argc > 1 && std::strcmp(argv[1], #name) == 0) return name##_main(argc - 1, argv + 1);
#include "programs.inc"
#undef PROGRAM
  std::fprintf(stderr, "usage: ceres_programs NAME\n");
  return 2;
}
