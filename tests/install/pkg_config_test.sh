#!/bin/sh
# pkg_config_test.sh COMPILER SOURCE PKGCONFIG_DIR SCRATCH: builds and runs SOURCE through topograd.pc.
set -eu
compiler=$1 source=$2 scratch=$4
export PKG_CONFIG_PATH=$3
mkdir -p "$scratch"
# shellcheck disable=SC2046  # the flags are words
"$compiler" -std=c++20 -c "$source" $(pkg-config --cflags topograd) -o "$scratch/program.o"
for static in '' --static; do
  # shellcheck disable=SC2046,SC2086
  "$compiler" "$scratch/program.o" $(pkg-config --libs $static topograd) -o "$scratch/program"
  "$scratch/program"
done
