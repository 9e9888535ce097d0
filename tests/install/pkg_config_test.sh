#!/bin/sh
# pkg_config_test.sh COMPILER SOURCE PKGCONFIG_DIR SCRATCH PACKAGE: builds and runs SOURCE through
# PACKAGE.pc. SOURCE and every header that the package installs compile without warnings, by COMPILER
# and by g++ and clang++-16 where they are there.
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
# Only folders of this package are checked: headers of other libraries are system headers.
strict=
for flag in "$@"; do
  case $flag in
    -I"$include"*) strict="$strict $flag" ;;
    -I*) strict="$strict -isystem ${flag#-I}" ;;
    *) strict="$strict $flag" ;;
  esac
done
for checker in "$compiler" g++ clang++-16; do
  command -v "$checker" >/dev/null || continue
  # shellcheck disable=SC2086  # the flags are words
  "$checker" $strict -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$scratch/headers.cpp" "$source"
done
