#!/usr/bin/env bash
# Builds the co-simulation process of a configuration: sim/build.sh CONFIG [--stub] [--trace] [--fold]
#
# The result is build/cosim/<config>[-stub][-trace][-fold]/npu_cosim; its path is printed, from the repository's
# root where the caller is there, else the whole of it. Nothing is done
# where a hash over the RTL, the sources and the parameters says that nothing has changed. --stub
# leaves the MACs out (same cycles, no numbers); --trace builds one that can write FST traces; --fold one with the activation
# buffer's banks folded, as boards with URAM have them (same cycles and numbers).
# CONFIG is a name of hw/configs or any YAML file, which is named after its design and not as one of hw/configs is.
# Status 2: usage, 3: a configuration that the RTL does not build, 5: a tool is missing. SLUICE_RTL names other RTL than that of hw/rtl/files.f (for
# tests; the folder is then <config>-other), SLUICE_KIND what the process calls itself: rtl (where it is not set) or shell; SLUICE_CHECK=1 keeps the assertions of sim/checkers in
# (<config>-check).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD
at= # before what is printed
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
# a file is named from where the user is
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
for tool in verilator go g++ flock xargs; do
  command -v "$tool" >/dev/null || { echo "sim/build.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done

params=$(hwconfig -verilator -whole "$config")  # its status is this script's
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
# Banks of a few hundred words are split as those of a board are (v8's).
if (($(value ABUF_WORDS) <= 1024)); then params+=(-GSPLIT=32); fi
n_axi=$(value N_AXI)
axi_bytes=$(value AXI_BYTES)
array=$(($(value T_P) * $(value T_C)))
# What gcc spends on a model is in walks over the stores before each load, thousands in a function: bounded, and without
# the passes that ask most of them, -O2 compiles in 60 % of its time and the model loses 6 %. Arrays above 512 MACs take
# minutes even so and run no faster than at -O1; the odd arrays and what holds checkers run for seconds, so that less
# pays there too.
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
  # one folder a build, so that none reads what another writes
  list=$(hw/rtl/int8/files.sh "build/cosim/$(basename "$config" .yaml)$stub$trace$fold${SLUICE_CHECK:+-check}/rtl")
  mapfile -t rtl <<<"$list"
else
  mapfile -t rtl < <(grep "^hw/" hw/rtl/files.f)
fi
# Packages first: verilator reads files in the order given.
ordered=()
for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv && $f != *.o ]]; then ordered+=("$f"); fi; done
# what a module of SLUICE_RTL calls outside of Verilog
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
hash=$( (printf '%s\n' "$(verilator --version)" "$(g++ --version | head -1)" "$kind" "${params[@]}" "${level[@]}" "${asserts[@]}" "${ordered[@]}"
  cat "${ordered[@]}" "${objects[@]}" "${sources[@]}" "${headers[@]}" sim/build.sh) | sha256sum | cut -d' ' -f1)
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$hash" ]]; then
  echo "$at$out/npu_cosim"
  exit 0
fi

# One build of a folder at a time; whoever waited finds it done.
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

# What is the same in every configuration, once for all of them: verilator's library, the process around the model, and
# the library's headers, parsed, for each level.
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

# build makes the process: verilator's large files one by one, the small ones, half of whose time is the headers',
# together; what runs once is not optimised. Two at a time.
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
