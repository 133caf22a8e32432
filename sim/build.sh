#!/usr/bin/env bash
# Builds the co-simulation process of a configuration: sim/build.sh CONFIG [--stub] [--trace] [--fold]
#
# CONFIG is a name in hw/configs, or any YAML file with a design of its own name. The result is
# build/cosim/<config>[-stub][-trace][-fold]/npu_cosim. Its path is printed: relative if the caller is in the
# repository's root, else absolute. Nothing is built if a hash over RTL, sources and parameters is unchanged.
#   --stub    without MACs: same cycles, no numbers
#   --trace   can write FST traces
#   --fold    with folded banks of the activation buffer, as on boards with URAM: same cycles and numbers
# SLUICE_RTL names RTL other than hw/rtl/files.f (for tests; the folder is <config>-other). SLUICE_KIND is the kind that
# the process reports: rtl (default) or shell. SLUICE_CHECK=1 includes the assertions of sim/checkers (<config>-check).
# Status 2: usage, 3: a configuration that the RTL rejects, 5: a tool is missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD
at= # prefix of the printed path
if ! [[ $here -ef $root ]]; then at=$root/; fi
cd "$root"
. hls/tools.sh # hwconfig

usage() {
  echo "usage: sim/build.sh CONFIG [--stub] [--trace] [--fold]" >&2
  exit 2
}
config=
stub=
trace=
fold=
for arg in "$@"; do
  case $arg in
    --stub) stub=-stub ;;
    --trace) trace=-trace ;;
    --fold) fold=-fold ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$arg ;;
  esac
done
[[ -n $config ]] || usage
kind=${SLUICE_KIND:-}
case $kind in
  '' | rtl | shell) ;;
  *) echo "sim/build.sh: SLUICE_KIND=$kind: expected rtl or shell" >&2; exit 2 ;;
esac
# a file's path is relative to the user's folder
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
for tool in verilator go g++ flock xargs; do
  command -v "$tool" >/dev/null || { echo "sim/build.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done

params=$(hwconfig -verilator -whole "$config")  # a failure ends this script with the same status
read -ra params <<<"$params"
value() {
  local p
  for p in "${params[@]}"; do
    if [[ $p == -G$1=* ]]; then echo "${p#*=}"; fi
  done
}
if [[ -n $stub ]]; then
  for i in "${!params[@]}"; do
    if [[ ${params[$i]} == -GSTUB=* ]]; then params[i]=-GSTUB=1; fi
  done
fi
if [[ -n $fold ]]; then params+=(-GFOLD=1); fi
# Small banks (v8's) are split too, as those of boards are.
if (($(value ABUF_WORDS) <= 1024)); then params+=(-GSPLIT=32); fi
n_axi=$(value N_AXI)
axi_bytes=$(value AXI_BYTES)
array=$(($(value T_P) * $(value T_C)))
# gcc spends most of its time on walks over the stores before each load, thousands in a function. With a bound on these
# and without the passes that need most of them, -O2 compiles in 60 % of the time and the model is 6 % slower. Even so,
# arrays above 512 MACs take minutes and run no faster than at -O1. Odd arrays and models with checkers run only for
# seconds, so -O1 is better there too.
bounds=(--param sccvn-max-alias-queries-per-access=50 --param dse-max-alias-queries-per-store=8)
level=(-O2 -fno-tree-dse -fno-tree-pre -fno-schedule-insns2 "${bounds[@]}")
if [[ $(basename "$config" .yaml) == v[0-9]* || -n ${SLUICE_CHECK:-} ]] || { ((array > 512)) && [[ -z $stub ]]; }; then
  level=(-O1 "${bounds[@]}")
fi

other=
if [[ -n ${SLUICE_RTL:-} ]]; then
  other=-other
  read -ra rtl <<<"$SLUICE_RTL"
elif [[ -n $(value INT8) ]]; then
  # one folder per build, so that builds do not read each other's files
  list=$(hw/rtl/int8/files.sh "build/cosim/$(basename "$config" .yaml)$stub$trace$fold${SLUICE_CHECK:+-check}/rtl")
  mapfile -t rtl <<<"$list"
else
  mapfile -t rtl < <(grep "^hw/" hw/rtl/files.f)
fi
# Packages first: verilator reads files in the order given.
ordered=()
for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv && $f != *.o ]]; then ordered+=("$f"); fi; done
# objects that modules of SLUICE_RTL call
objects=()
for f in "${rtl[@]}"; do if [[ $f == *.o ]]; then objects+=("$f"); fi; done
asserts=(--noassert)
check=
if [[ -n ${SLUICE_CHECK:-} ]]; then
  asserts=(--assert)
  check=-check
  ordered+=(sim/checkers/*.sv)
fi
sources=(sim/cosim/main.cpp sim/cosim/rtl_kernel.cpp sim/cosim/server.cpp)
headers=(sim/*.hpp sim/cosim/*.hpp sim/include/*.hpp)

name=$(basename "$config" .yaml)
out=build/cosim/$name$other$stub$trace$fold$check
mkdir -p "$out"
# Lines that are comments build nothing. Assertions name lines of the source, so theirs count.
text() { if [[ -n $check ]]; then cat "$@"; else grep -hvE '^[[:space:]]*//' "$@"; fi; }
hash=$( (printf '%s\n' "$(verilator --version)" "$(g++ --version | head -1)" "$kind" "${params[@]}" "${level[@]}" "${asserts[@]}" "${ordered[@]}"
  text "${ordered[@]}" "${sources[@]}" "${headers[@]}"; cat "${objects[@]}" /dev/null; grep -v '^#' sim/build.sh) | sha256sum | cut -d' ' -f1)
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$hash" ]]; then
  echo "$at$out/npu_cosim"
  exit 0
fi

# One build of a folder at a time; a call that waited finds the result.
exec 9>"$out/lock"
flock 9
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$hash" ]]; then
  echo "$at$out/npu_cosim"
  exit 0
fi
rm -f "$out/hash"
keep=cosim-$name$stub$trace$fold$check-$hash
if [[ -z $other ]] && .ci/cache get "$keep" "$out"; then
  echo "$hash" >"$out/hash"
  echo "$at$out/npu_cosim"
  exit 0
fi

vroot=$(verilator --getenv VERILATOR_ROOT)
cxx=(g++ -std=c++17 -fcf-protection=none -DVM_TRACE="$((${#trace} > 0))" -isystem "$vroot/include" -isystem "$vroot/include/vltstd")
ours=(-Wall -Wextra -Werror -I"$root/sim" -I"$root/sim/include")

# common builds the parts that all configurations share: verilator's library, the process around the model, and the
# library's precompiled headers for each level.
runtime=build/cosim/runtime$trace
pch=$runtime/model${level[0]}.hpp
common() {
  local stamp f
  stamp=$( (printf '%s\n' "$(verilator --version)" "$("${cxx[0]}" --version | head -1)" "${cxx[@]}" "${ours[@]}"
    cat "${sources[@]}" "${headers[@]}" sim/build.sh) | sha256sum)
  mkdir -p "$runtime"
  exec 8>"$runtime/lock"
  flock 8
  if [[ $(cat "$runtime/stamp" 2>/dev/null) != "$stamp" ]]; then
    rm -f "$runtime"/*.gch "$runtime/stamp"
    for f in verilated verilated_threads ${trace:+verilated_fst_c}; do
      "${cxx[@]}" -w -O2 -c "$vroot/include/$f.cpp" -o "$runtime/$f.o" || return
    done
    for f in main server; do
      "${cxx[@]}" "${ours[@]}" -O2 -c "$root/sim/cosim/$f.cpp" -o "$runtime/$f.o" || return
    done
    echo "$stamp" >"$runtime/stamp"
  fi
  if [[ ! -f $pch.gch ]]; then
    echo '#include "verilated.h"' >"$pch"
    "${cxx[@]}" -w "${level[@]}" -x c++-header "$pch" -o "$pch.new" && mv "$pch.new" "$pch.gch" || return
  fi
  flock -u 8
}

# build builds the process: verilator's large files one by one, and the small ones together, since headers take half of
# their time. Code that runs once is not optimised. Two compilers run in parallel.
build() {
  local f
  rm -f "$out"/V* "$out"/*.o "$out"/{hot,slow}.cpp
  common || return
  verilator --cc --top-module npu_top --Mdir "$out" -O3 --x-assign fast --x-initial fast \
    "${asserts[@]}" ${trace:+--trace-fst --trace-structs} -Wno-fatal -Werror-USERFATAL "${params[@]}" "${ordered[@]}" || return
  for f in "$out"/V*.cpp; do
    case $f in
      *Slow.cpp | *__Syms.cpp | *__ConstPool_*.cpp) echo "#include \"$(basename "$f")\"" >>"$out/slow.cpp" ;;
      *) if (($(stat -c %s "$f") < 200000)); then echo "#include \"$(basename "$f")\"" >>"$out/hot.cpp"; else echo "$f"; fi ;;
    esac
  done >"$out/large"
  {
    while read -r f; do echo "${cxx[*]} -w -I$out ${level[*]} -Winvalid-pch -include $pch -c $f -o ${f%.cpp}.o"; done < <(cat "$out/large"; echo "$out/hot.cpp")
    echo "${cxx[*]} -w -I$out -c $out/slow.cpp -o $out/slow.o"
    echo "${cxx[*]} ${ours[*]} -isystem $out -O2 -DN_AXI=$n_axi -DAXI_BYTES=$axi_bytes ${kind:+-DSLUICE_KIND='\"$kind\"'} -c $root/sim/cosim/rtl_kernel.cpp -o $out/rtl_kernel.o"
  } | xargs -P 2 -L 1 env || return
  "${cxx[@]}" "$out"/*.o "${objects[@]}" "$runtime"/*.o -o "$out/npu_cosim" -pthread ${trace:+-lz} || return
}
if ! build >"$out/build.log" 2>&1; then
  tail -n 40 "$out/build.log" >&2
  echo "sim/build.sh: $config does not build; the whole log is $out/build.log" >&2
  exit 1
fi
rm -f "$out"/*.o
if [[ -z $other ]]; then .ci/cache put "$keep" "$out/npu_cosim" || true; fi
echo "$hash" >"$out/hash"
echo "$at$out/npu_cosim"
