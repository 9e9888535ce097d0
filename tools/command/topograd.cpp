// Entry point of the topograd command.
#include "arguments/commands.hpp"
#include "solve/distributed.hpp"

int main(int argc, char** argv) {
  topograd::command::run_distributed_program(argc, argv);
  return topograd::command::run(argc, argv);
}
