#!/usr/bin/env bash
# Builds the co-simulation process with the HLS kernel:
#
#   hls/build.sh CONFIG [--sanitize | --tsan] [--cxx CXX] [--xilinx]
#
# The result is build/cosim/<config>-hls[-CXX][-xilinx][-sanitize|-tsan]/npu_cosim; its path is printed. Nothing is
# built if a hash over all inputs is unchanged.
#   --sanitize   compiles with -fsanitize=address,undefined and checks the trips of every loop against its pragma
#   --tsan       compiles with -fsanitize=thread
#   --xilinx     uses the vendor's own ap_int.h and hls_stream.h (hls/xilinx.sh fetches them) instead of hls/standin
# SLUICE_HLS names a source folder other than hls/src (for tests; the result is in <config>-hls-other...).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD
cd "$root"
. hls/tools.sh

usage() {
  echo "usage: hls/build.sh CONFIG [--sanitize | --tsan] [--cxx CXX] [--xilinx]" >&2
  exit 2
}
config=
sanitize=
cxx=g++
xilinx=
while (($#)); do
  case $1 in
    --sanitize | --tsan) [[ -z $sanitize || $sanitize == "${1/#--/-}" ]] || usage; sanitize=${1/#--/-} ;;
    --xilinx) xilinx=1 ;;
    --cxx) (($# > 1)) || usage; cxx=$2; shift ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$1 ;;
  esac
  shift
done
[[ -n $config ]] || usage
# a file's path is relative to the user's folder
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
package() { case $1 in g++*) echo g++ ;; *) echo "${1/clang++/clang}" ;; esac; }
for tool in go "$cxx"; do
  command -v "$tool" >/dev/null || { echo "hls/build.sh: $tool is missing: install the package $(package "$tool")" >&2; exit 5; }
done

src=${SLUICE_HLS:-hls/src}
name=$(basename "$config" .yaml)-hls
if [[ -n ${SLUICE_HLS:-} ]]; then name+=-other; fi
if [[ $cxx != g++ ]]; then name+=-$cxx; fi
if [[ -n $xilinx ]]; then name+=-xilinx; fi
name+=$sanitize
out=${SLUICE_HLS_OUT:-build/cosim/$name}
mkdir -p "$out"
exec 9>"$out/lock"
flock 9

flags=(-Wall -Wextra -Wno-unknown-pragmas -Wno-unused-label -O2 -pthread)
case $sanitize in
  -sanitize) flags+=(-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all) ;;
  -tsan) flags+=(-O1 -g1 -fsanitize=thread) ;;
esac
kernel_src=$src
if [[ $sanitize == -sanitize ]]; then
  kernel_src=$out/src
  hlscheck -src "$src" -trips "$kernel_src"
  flags+=(-include hls/csim/trips.hpp)
fi
include=(-Ihls/include -Ihls/csim -Isim -Isim/include)
if [[ -n $xilinx ]]; then
  vendor=$(hls/xilinx.sh)
  # the vendor's headers are older than 2020.2, without a depth in the type, and cause these warnings
  include+=(-isystem "$vendor" -Ihls/standin/blocks)
  flags+=(-DSLUICE_PLAIN_STREAMS -DHLS_STREAM_THREAD_SAFE -include deque)
else
  flags+=(-Werror)
  include+=(-Ihls/standin -Ihls/standin/blocks)
fi
flags+=(-DSLUICE_THREADS)
# the key has the content, not the path: the same kernel in another folder is not compiled again
found=(-I"$kernel_src" -I"$out" "${include[@]}")

hwconfig -cpp "$config" >"$out/sluice_design.hpp.new"
cmp -s "$out/sluice_design.hpp.new" "$out/sluice_design.hpp" || mv "$out/sluice_design.hpp.new" "$out/sluice_design.hpp"
rm -f "$out/sluice_design.hpp.new"
sum() { sha256sum | cut -d' ' -f1; }
version=$("$cxx" --version | head -1)
kernel=$( (echo "$version" "${flags[@]}" "${include[@]}"; cat "$out/sluice_design.hpp" "$kernel_src"/* hls/standin/*.h hls/standin/blocks/* \
  hls/csim/threads.hpp hls/csim/trips.hpp hls/include/*.hpp sim/include/*.hpp hls/build.sh) | sum)
host=$( (echo "$kernel"; cat hls/csim/* sim/*.hpp sim/cosim/*) | sum)
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$host" ]]; then
  echo "$out/npu_cosim"
  exit 0
fi
keep=hls-$host
if .ci/cache get "$keep" "$out"; then
  echo "$host" >"$out/hash"
  echo "$out/npu_cosim"
  exit 0
fi
# both in parallel: the kernel in the dialect's C++14, the process in C++17. A separate job, because bash ignores -e on
# the left side of ||.
(
  set -e
  if [[ ! -f $out/npu.o || ! -f $out/npu.hash || $(cat "$out/npu.hash") != "$kernel" ]]; then
    "$cxx" -std=c++14 "${flags[@]}" "${found[@]}" -c "$kernel_src/npu.cpp" -o "$out/npu.o" &
    first=$!
  fi
  "$cxx" -std=c++17 "${flags[@]}" "${found[@]}" -Dmake_rtl_kernel=make_hls_kernel -c hls/csim/hls_kernel.cpp -o "$out/kernel.o"
  shared=build/cosim/hls-process-$cxx$sanitize
  mkdir -p "$shared"
  exec 8>"$shared/lock"
  flock 8
  process=$( (echo "$version" "$sanitize"; cat sim/*.hpp sim/cosim/* sim/include/*.hpp hls/build.sh) | sum)
  if [[ ! -f $shared/hash || $(cat "$shared/hash") != "$process" ]]; then
    for f in main server; do
      "$cxx" -std=c++17 "${flags[@]}" -Isim -Isim/include -Dmake_rtl_kernel=make_hls_kernel -c sim/cosim/$f.cpp -o "$shared/$f.o"
    done
    echo "$process" >"$shared/hash"
  fi
  if [[ -n ${first:-} ]]; then
    wait "$first"
    echo "$kernel" >"$out/npu.hash"
  fi
  "$cxx" "${flags[@]}" "$out/npu.o" "$out/kernel.o" "$shared/main.o" "$shared/server.o" -o "$out/npu_cosim"
) >"$out/build.log" 2>&1 &
wait $! || {
  tail -n 40 "$out/build.log" >&2
  echo "hls/build.sh: $config does not build; the whole log is $out/build.log" >&2
  exit 1
}
# the shell's build links npu.o
.ci/cache put "$keep" "$out"/{npu_cosim,npu.o,npu.hash} || true
echo "$host" >"$out/hash"
echo "$out/npu_cosim"
