// Entry point of the topograd command.
#include "arguments/commands.hpp"

int main(int argc, char** argv) { return topograd::command::run(argc, argv); }
