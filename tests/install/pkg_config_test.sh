#!/bin/sh
# pkg_config_test.sh COMPILER SOURCE PKGCONFIG_DIR SCRATCH: builds and runs SOURCE through topograd.pc,
# and reads every installed header once.
set -eu
compiler=$1 source=$2 scratch=$4
export PKG_CONFIG_PATH=$3
mkdir -p "$scratch"
# shellcheck disable=SC2046  # the flags are words
set -- -std=c++20 $(pkg-config --cflags topograd)

"$compiler" "$@" -c "$source" -o "$scratch/program.o"
for static in '' --static; do
  # shellcheck disable=SC2046,SC2086
  "$compiler" "$scratch/program.o" $(pkg-config --libs $static topograd) -o "$scratch/program"
  "$scratch/program"
done

include=$(pkg-config --variable=includedir topograd)
(cd "$include" && find topograd -name '*.hpp' | sort | sed 's/.*/#include <&>/') >"$scratch/headers.cpp"
"$compiler" "$@" -fsyntax-only "$scratch/headers.cpp"
