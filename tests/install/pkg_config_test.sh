#!/bin/sh
# pkg_config_test.sh COMPILER SOURCE PKGCONFIG_DIR SCRATCH PACKAGE: builds and runs SOURCE through
# PACKAGE.pc, and reads every header that the package installs once.
set -eu
compiler=$1 source=$2 scratch=$4/$5 package=$5
export PKG_CONFIG_PATH=$3
mkdir -p "$scratch"
# shellcheck disable=SC2046  # the flags are words
set -- -std=c++20 $(pkg-config --cflags "$package")

"$compiler" "$@" -c "$source" -o "$scratch/program.o"
for static in '' --static; do
  # shellcheck disable=SC2046,SC2086
  "$compiler" "$scratch/program.o" $(pkg-config --libs $static "$package") -o "$scratch/program"
  "$scratch/program"
done

include=$(pkg-config --variable=includedir "$package")
case $package in
  topograd | topograd-view) (cd "$include" && find topograd -name '*.hpp' | sort | sed 's/.*/#include <&>/') ;;
  topograd-ceres) (cd "$include/$package" && find ceres -name '*.h' | sort | sed 's/.*/#include "&"/') ;;
esac >"$scratch/headers.cpp"
"$compiler" "$@" -fsyntax-only "$scratch/headers.cpp"
