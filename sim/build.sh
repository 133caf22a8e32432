#!/usr/bin/env bash
# Builds the co-simulation process of a configuration: sim/build.sh CONFIG [--stub] [--trace] [--fold]
#
# The result is build/cosim/<config>[-stub][-trace][-fold]/npu_cosim; its path is printed. Nothing is done
# where a hash over the RTL, the sources and the parameters says that nothing has changed. --stub
# leaves the MACs out (same cycles, no numbers); --trace builds one that can write FST traces; --fold one with the activation
# buffer's banks folded, as boards with URAM have them (same cycles and numbers).
# CONFIG is a name or a YAML file of hw/configs. SLUICE_RTL names other RTL than that of hw/rtl/files.f (for
# tests; the folder is then <config>-other); SLUICE_CHECK=1 keeps the assertions of sim/checkers in
# (<config>-check).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

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
for tool in verilator go g++ make; do
  command -v "$tool" >/dev/null || { echo "sim/build.sh: $tool is missing: install the package $tool" >&2; exit 5; }
done

read -ra params <<<"$(go run ./hw/configs/cmd/hwconfig -verilator "$config")"
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
# Verilator's makefile says -Os after all other flags, so the level goes in as OPT_FAST. Large arrays
# take minutes at -O2 and run no faster.
level=-O2
if ((array > 512)) && [[ -z $stub ]]; then level=-O1; fi

other=
if [[ -n ${SLUICE_RTL:-} ]]; then
  other=-other
  read -ra rtl <<<"$SLUICE_RTL"
else
  mapfile -t rtl < <(grep "^hw/" hw/rtl/files.f)
fi
# Packages first: verilator reads files in the order given.
ordered=()
for f in "${rtl[@]}"; do if [[ $f == *_pkg.sv ]]; then ordered+=("$f"); fi; done
for f in "${rtl[@]}"; do if [[ $f != *_pkg.sv ]]; then ordered+=("$f"); fi; done
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
hash=$( (printf '%s\n' "$(verilator --version)" "${params[@]}" "$level" "${asserts[@]}" "${ordered[@]}"
  cat "${ordered[@]}" "${sources[@]}" "${headers[@]}" sim/build.sh) | sha256sum | cut -d' ' -f1)
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$hash" ]]; then
  echo "$out/npu_cosim"
  exit 0
fi

# One build of a folder at a time; whoever waited finds it done.
exec 9>"$out/lock"
flock 9
if [[ -x $out/npu_cosim && -f $out/hash && $(cat "$out/hash") == "$hash" ]]; then
  echo "$out/npu_cosim"
  exit 0
fi
rm -f "$out/hash"

tracing=()
if [[ -n $trace ]]; then tracing=(--trace-fst --trace-structs); fi
warnings=(-Wno-fatal)
if ! {
  verilator --cc --exe --build -j 2 --top-module npu_top --Mdir "$out" -O3 \
    --x-assign fast --x-initial fast "${asserts[@]}" "${tracing[@]}" "${warnings[@]}" \
    -MAKEFLAGS "OPT_FAST=$level OPT_GLOBAL=-O2" \
    -CFLAGS "-std=c++17 -Wall -Wextra -Werror -DN_AXI=$n_axi -DAXI_BYTES=$axi_bytes" \
    -CFLAGS "-I$root/sim -I$root/sim/include" -o npu_cosim "${params[@]}" \
    "${ordered[@]}" "${sources[@]/#/$root/}" >"$out/build.log" 2>&1
}; then
  tail -n 40 "$out/build.log" >&2
  echo "sim/build.sh: $config does not build; the whole log is $out/build.log" >&2
  exit 1
fi
echo "$hash" >"$out/hash"
echo "$out/npu_cosim"
