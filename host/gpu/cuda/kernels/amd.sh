#!/bin/sh
# Compiles the kernels to a code object for AMD's GPUs: amd.sh ARCH OUT (gfx906, gfx90a, gfx1030, ...); amd.sh ARCH -O0 OUT
# does not optimise it, for fakes, which run none of it. Debian's clang-14 and lld-14
# are enough, no ROCm and no GPU. The object carries the hash of what it was made of.
set -eu
level=-O3
if [ $# = 3 ]; then level=$2 arch=$1; shift 2; set -- "$arch" "$1"; fi
[ $# = 2 ] || { echo "usage: amd.sh ARCH [LEVEL] OUT" >&2; exit 2; }
for tool in clang-14 ld.lld-14; do
  command -v $tool >/dev/null || { echo "amd.sh: $tool is missing: install the packages clang-14 and lld-14" >&2; exit 1; }
done
src=$(dirname "$0")/src
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat "$src/amd.hpp" "$src/kernels.hpp" "$src/entries.hip" >"$tmp/kernels.hip"
sum=$(sha256sum <"$tmp/kernels.hip" | cut -d ' ' -f 1)
clang-14 -x hip --offload-arch="$1" --cuda-device-only -nogpuinc -nogpulib -std=c++17 "$level" -ffp-contract=off -Wall -Werror \
  -DSOURCES="\"$sum\"" -emit-llvm -c "$tmp/kernels.hip" -o "$tmp/kernels.bc"
clang-14 -x ir -target amdgcn-amd-amdhsa -mcpu="$1" -nogpulib "$level" -Wno-unused-command-line-argument -c "$tmp/kernels.bc" -o "$tmp/kernels.o"
ld.lld-14 -shared "$tmp/kernels.o" -o "$2"
