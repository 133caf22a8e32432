#!/usr/bin/env bash
# Builds the co-simulation process (sim/cosim) of npu_top with the HLS kernel instead of npu_core:
#
#   hls/shell/build.sh CONFIG [--rtl FOLDER]
#
# FOLDER holds the Verilog that Vitis exported for CONFIG. It may also be the flow's folder build/hls/vitis/CONFIG: then
# the Verilog is where csynth wrote it, npu/solution/syn/verilog (vitis_hls) or work/hls/syn/verilog (vitis-run). Initial
# values of memories ($readmemh) are read from there. Without FOLDER the stand-in sluice_npu.sv calls the kernel's C++.
# Prints the path of the process, which is used like sim/build.sh's.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$PWD
cd "$root"
usage() { echo "usage: hls/shell/build.sh CONFIG [--rtl FOLDER]" >&2; exit 2; }
config=
rtl=
while (($#)); do
  case $1 in
    --rtl) (($# > 1)) || usage; rtl=$2; shift ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$1 ;;
  esac
  shift
done
[[ -n $config ]] || usage
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
core=(hls/shell/npu_core.sv hls/shell/axi_offers_checker.sv)
. hls/tools.sh
files=$(grep '^hw/' hw/rtl/files.f)
if [[ $(hwconfig -verilator "$config") == *-GINT8=* ]]; then
  files=$(hw/rtl/int8/files.sh "build/hls/shell/rtl-$(basename "$config" .yaml)")
fi
for f in abi_pkg npu_top npu_regs fbcb ram_1r1w; do core+=("$(grep "/$f\.sv$" <<<"$files")"); done
if [[ -n $rtl ]]; then
  [[ $rtl == /* ]] || rtl=$here/$rtl
  shopt -s nullglob
  exported=()
  for sub in . npu/solution/syn/verilog work/hls/syn/verilog; do
    exported=("$rtl/$sub"/*.v)
    if ((${#exported[@]})) && grep -q '^module sluice_npu\b' "${exported[@]}"; then break; fi
    exported=()
  done
  ((${#exported[@]})) || {
    echo "hls/shell/build.sh: --rtl $rtl: expected Verilog with a module sluice_npu, there, in npu/solution/syn/verilog (vitis_hls) or in work/hls/syn/verilog (vitis-run)" >&2
    exit 3
  }
  # the process runs in another folder than the one with the memories' initial values
  copies=$root/build/hls/shell/$(basename "$config" .yaml)
  rm -rf "$copies"
  mkdir -p "$copies"
  data=$(cd "$rtl/$sub" && pwd)
  for f in "${exported[@]}"; do
    sed "s#\$readmemh(\"\(\./\)\?\([^/\"]*\)\"#\$readmemh(\"$data/\2\"#" "$f" >"$copies/$(basename "$f")"
    core+=("$copies/$(basename "$f")")
  done
  if [[ -n ${SLUICE_SHELL_LIST:-} ]]; then # only lists the files, for tests
    printf '%s\n' "${core[@]}"
    exit 0
  fi
else
  hls/build.sh "$config" >/dev/null
  out=build/cosim/$(basename "$config" .yaml)-hls
  keep=standin-$(cat "$out/npu.hash" hls/csim/* hls/shell/build.sh | sha256sum | cut -d' ' -f1) # npu.hash covers all other included files
  .ci/cache get "$keep" "$out" || {
    g++ -std=c++14 -O2 -Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-unused-label -Ihls/src -Ihls/include -Ihls/standin \
      -Ihls/standin/blocks -Ihls/csim -I"$out" -Isim/include -c hls/csim/shell.cpp -o "$out/standin.o"
    .ci/cache put "$keep" "$out/standin.o" || true
  }
  bytes=$(sed -n 's/^constexpr int AXI_BYTES = \([0-9]*\);$/\1/p' "$out/sluice_design.hpp")
  burst=$(sed -n 's/^constexpr int MAX_BURST = \([0-9]*\);$/\1/p' "$out/sluice_design.hpp")
  # an exported kernel has no parameters
  sed "s/AXI_BYTES = 8,/AXI_BYTES = $bytes,/; s/BURST     = 4,/BURST     = $burst,/" hls/shell/sluice_npu.sv >"$out/sluice_npu.sv"
  core+=("$out/sluice_npu.sv" "$out/npu.o" "$out/standin.o")
fi
build=sim/build.sh
if [[ -z $rtl ]]; then build=sim/kept.sh; fi
SLUICE_KIND=shell SLUICE_RTL="${core[*]}" $build "$config"
