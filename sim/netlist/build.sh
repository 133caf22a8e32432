#!/usr/bin/env bash
# Builds the co-simulation process with a configuration's netlist instead of its RTL:
#
#   sim/netlist/build.sh CONFIG [--lockstep]
#
# Synthesises first (hw/syn/synth.sh, xc7) if necessary. The result is build/netlist/<config>/npu_cosim,
# which plays vectors and serves drivers like sim/build.sh's; with --lockstep it is
# build/netlist/<config>/lockstep, which runs RTL and netlist in parallel. Its path is printed as by
# sim/build.sh. Nothing is built if a hash over all inputs is unchanged.
# SLUICE_NETLIST names another netlist (for tests: a wrong one), built in build/netlist/<config>-given;
# SLUICE_RTL names other RTL to compare with, as in sim/build.sh.
# Status 2: usage, 3: a configuration that the RTL rejects, or no such netlist, 5: a tool is missing.
set -euo pipefail
here=$PWD
root=$(cd "$(dirname "$0")/../.." && pwd)
at= # prefix of the printed path
if ! [[ $here -ef $root ]]; then at=$root/; fi
cd "$root"
. hls/tools.sh # hwconfig

usage() {
  echo "usage: sim/netlist/build.sh CONFIG [--lockstep]" >&2
  exit 2
}
config=
target=npu_cosim
for arg in "$@"; do
  case $arg in
    --lockstep) target=lockstep ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$arg ;;
  esac
done
[[ -n $config ]] || usage
# a file's path is relative to the user's folder
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
netlist=${SLUICE_NETLIST:-}
if [[ -n $netlist ]]; then
  if [[ $netlist != /* ]]; then netlist=$here/$netlist; fi
  [[ -f $netlist ]] || { echo "sim/netlist/build.sh: SLUICE_NETLIST: there is no file $netlist" >&2; exit 3; }
fi
for tool in verilator go g++ make; do
  command -v "$tool" >/dev/null || { echo "sim/netlist/build.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done

params=$(hwconfig -verilator -whole "$config")  # a failure ends this script with the same status
name=$(basename "$config" .yaml)
out=build/netlist/$name${netlist:+-given}
mkdir -p "$out"
# One build of a folder at a time.
exec 9>"$out/lock"
flock 9
if [[ -n ${SLUICE_RTL:-} ]]; then
  read -ra rtl <<<"$SLUICE_RTL"
elif [[ $params == *-GINT8=1* ]]; then
  list=$(hw/rtl/int8/files.sh "$out/rtl-int8")
  mapfile -t rtl <<<"$list"
  SLUICE_RTL=${rtl[*]}
  export SLUICE_RTL
else
  mapfile -t rtl < <(grep '^hw/' hw/rtl/files.f)
fi
if [[ -z $netlist ]]; then netlist=$(hw/syn/synth.sh "$config")/netlist.v; fi
read -ra params <<<"$params"
value() {
  local p
  for p in "${params[@]}"; do
    if [[ $p == -G$1=* ]]; then echo "${p#*=}"; fi
  done
}
defines="-DN_AXI=$(value N_AXI) -DAXI_BYTES=$(value AXI_BYTES) -DVM_TRACE=0"
verilator_root=$(verilator --getenv VERILATOR_ROOT)

sum() { sha256sum | cut -d' ' -f1; }
# fresh FILE HASH: whether FILE was built from the inputs with this hash.
fresh() { [[ -e $1 && -f $1.hash && $(cat "$1.hash") == "$2" ]]; }
fail() {
  tail -n 40 "$1" >&2
  echo "sim/netlist/build.sh: $config does not build; the whole log is $1" >&2
  exit 1
}

# model PREFIX DIR LEVEL FLAGS-AND-FILES...: builds a library of one Verilated model and sets model_hash. Code that runs
# in every cycle is compiled at LEVEL, code that runs once at -O0.
model() {
  local prefix=$1 dir=$2 level=$3 arg
  shift 3
  model_hash=$( (verilator --version; declare -f model; printf '%s\n' "$level" "$@"
    for arg in "$@"; do if [[ -f $arg ]]; then cat "$arg"; fi; done) | sum)
  if fresh "$dir/lib$prefix.a" "$model_hash"; then return; fi
  rm -rf "$dir"
  mkdir -p "$dir"
  local keep=netlist-$prefix-$model_hash
  if .ci/cache get "$keep" "$dir"; then return; fi
  if ! { verilator --cc --prefix "$prefix" --top-module npu_top --Mdir "$dir" -O3 \
    --x-initial unique --output-split 20000 "$@" &&
    make -C "$dir" -f "$prefix.mk" -j2 OPT_FAST="$level" OPT_SLOW=-O0 OPT_GLOBAL=-O1 \
      VM_PARALLEL_BUILDS=1 "${prefix}__ALL.a" verilated.o verilated_threads.o; } >"$dir.log" 2>&1; then
    fail "$dir.log"
  fi
  mv "$dir/${prefix}__ALL.a" "$dir/lib$prefix.a"
  rm -f "$dir/${prefix}_"*.o
  .ci/cache put "$keep" "$dir"/*.{a,o,h} || true
  echo "$model_hash" >"$dir/lib$prefix.a.hash"
}

# The netlist has open pins and constants of other widths. All other warnings are errors, above all
# values that a cell model does not support (USERFATAL).
# -O1 would take 100 s more than -O0 to compile, which does not pay for vectors of some 10^5 cycles.
level=-O0
net=$out/net
if [[ $target == lockstep ]]; then level=-O1 net=$out/net$level; fi
model Vnpu_top "$net" $level --x-assign fast -Wno-WIDTH -Wno-PINMISSING "$netlist" sim/cells/*.v
net_hash=$model_hash
rtl_hash=
if [[ $target == lockstep ]]; then
  ordered=()
  for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
  for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv ]]; then ordered+=("$f"); fi; done
  model Vrtl "$out/rtl" $level --x-assign unique -Wno-fatal --noassert "${params[@]}" "${ordered[@]}"
  rtl_hash=$model_hash
fi

case $target in
  npu_cosim) sources=(sim/netlist/netlist_kernel.cpp sim/cosim/main.cpp sim/cosim/server.cpp) ;;
  lockstep) sources=(sim/netlist/lockstep.cpp) ;;
esac
hash=$( (echo "$net_hash $rtl_hash $defines"
  cat "${sources[@]}" sim/cosim/rtl_kernel.cpp sim/*.hpp sim/cosim/*.hpp sim/include/*.hpp hls/include/sluice_planned.hpp sim/bench/tb.hpp) | sum)
if ! fresh "$out/$target" "$hash"; then
  includes=(-Isim -Isim/include -Ihls/include -I"$net" -isystem "$verilator_root/include" -isystem "$verilator_root/include/vltstd")
  libs=("$net/libVnpu_top.a")
  if [[ $target == lockstep ]]; then
    includes+=(-I"$out/rtl")
    libs+=("$out/rtl/libVrtl.a")
  fi
  # shellcheck disable=SC2086 # the defines are words
  if ! g++ -std=c++17 -O1 -Wall -Wextra -Werror $defines "${includes[@]}" -o "$out/$target" \
    "${sources[@]}" "${libs[@]}" "$net/verilated.o" "$net/verilated_threads.o" -pthread >"$out/$target.log" 2>&1; then
    fail "$out/$target.log"
  fi
  echo "$hash" >"$out/$target.hash"
fi
echo "$at$out/$target"
