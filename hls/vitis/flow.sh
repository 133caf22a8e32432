#!/usr/bin/env bash
# The vendor's flow for one configuration:
#
#   hls/vitis/flow.sh CONFIG [--part PART] [--out DIR] [--seed N] [--prepare] [STEP...]
#
# STEP is csim, csynth, cosim or export (default: all). Uses vitis_hls if it is on PATH (npu.tcl), else its successor
# vitis-run (npu.cfg, which is written beside the sources); if both are missing, the status is 5. --prepare writes the
# folder and calls no tool. The clock is the configuration's; the default part is its board's. The synthesis of an
# earlier call is kept for cosim and export; csynth replaces it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$PWD
cd "$root"
. hls/tools.sh
usage() { echo "usage: hls/vitis/flow.sh CONFIG [--part PART] [--out DIR] [--seed N] [--prepare] [csim|csynth|cosim|export]..." >&2; exit 2; }
config=
part=
out=
prepare=
seed=1
steps=()
while (($#)); do
  case $1 in
    --part | --out | --seed) (($# > 1)) || usage; declare "${1#--}=$2"; shift ;;
    --prepare) prepare=1 ;;
    csim | csynth | cosim | export) steps+=("$1") ;;
    -*) usage ;;
    *) [[ -z $config ]] || usage; config=$1 ;;
  esac
  shift
done
[[ -n $config ]] || usage
# paths are relative to the user's folder
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
if [[ -n $out && $out != /* ]]; then out=$here/$out; fi
((${#steps[@]})) || steps=(csim csynth cosim export)
json=$(hwconfig "$config")
value() { sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" <<<"$json"; }
board=$(value board)
if [[ -z $part ]]; then
  [[ -n $board ]] || { echo "flow.sh: $config has no board: name a part (--part xc7z045ffg900-2)" >&2; exit 2; }
  [[ -f boards/$board/board.yaml ]] || { echo "flow.sh: $config is for the board $board, of which there is no boards/$board/board.yaml: name a part (--part xc7z045ffg900-2)" >&2; exit 3; }
  part=$(sed -n 's/^part: *"\{0,1\}\([^"# ]*\)"\{0,1\}.*/\1/p' "boards/$board/board.yaml")
  [[ -n $part ]] || { echo "flow.sh: boards/$board/board.yaml names no part (--part)" >&2; exit 3; }
fi
ns=$(awk -v f="$(value clock_mhz)" 'BEGIN { printf "%.3f", 1000 / f }')
[[ $part =~ ^x[A-Za-z0-9-]+$ ]] || { echo "flow.sh: $part is no part" >&2; exit 3; }
out=${out:-build/hls/vitis/$(basename "$config" .yaml)}
# the folder is cleared, so it must be an earlier flow's
if [[ -e $out && ! -d $out ]] || { [[ -d $out && ! -f $out/npu.cfg ]] && [[ -n $(ls -A "$out") ]]; }; then
  echo "flow.sh: --out $out: expected no folder, an empty one or one of an earlier flow (with npu.cfg)" >&2
  exit 3
fi
makes=
for step in "${steps[@]}"; do
  case $step in
    csynth) makes=1 ;;
    cosim | export)
      [[ -n $makes$prepare || -d $out/npu/solution/syn || -d $out/work/hls/syn ]] || {
        echo "flow.sh: $step: expected csynth before it, in this call or in an earlier one, which leaves npu/solution/syn or work/hls/syn in $out" >&2
        exit 2
      }
      ;;
  esac
done
# removes this script's files, not the results of tools, which take hours
(cd "$out" 2>/dev/null && rm -rf src include tb.cpp a.vec npu.tcl) || true
mkdir -p "$out/src" "$out/include"
: >"$out/npu.cfg" # marks the folder as the flow's, even if it is interrupted
out=$(cd "$out" && pwd)
cp hls/src/* "$out/src/"
hwconfig -cpp "$config" >"$out/include/sluice_design.hpp"
# the vendor's own headers replace hls/standin; the bench needs the vectors' player
mkdir -p "$out/include/cosim"
cp sim/include/sluice_abi.hpp hls/include/sluice_limits.hpp hls/include/sluice_planned.hpp hls/csim/registers.hpp sim/vectors.hpp sim/dram.hpp "$out/include/"
cp sim/cosim/kernel.hpp "$out/include/cosim/"
cp hls/csim/tb.cpp hls/vitis/npu.tcl "$out/"
go run ./dse/cmd/dse vectors --config "$config" --n 1 --seed "$seed" --max-macs 20000 --apart --base 0 --out "$out" >/dev/null
mv "$out"/*-"$seed".vec "$out/a.vec"
cat >"$out/npu.cfg" <<CFG
part=$part

[hls]
flow_target=vivado
clock=${ns}ns
syn.top=sluice_npu
syn.file=src/npu.cpp
syn.cflags=-std=c++14 -I$out/src -I$out/include
syn.interface.m_axi_addr64=1
syn.op=op:mul impl:fabric
syn.rtl.reset=control
syn.rtl.reset_level=low
tb.file=tb.cpp
tb.file=a.vec
tb.cflags=-std=c++17 -I$out/src -I$out/include
csim.argv=a.vec
csim.clean=true
cosim.argv=a.vec
cosim.rtl=verilog
package.output.format=ip_catalog
package.output.file=$out/sluice_npu.zip
CFG
if [[ -n $prepare ]]; then
  echo "$out"
  exit 0
fi
cd "$out"
if command -v vitis_hls >/dev/null; then
  vitis_hls -f npu.tcl "$out" "$part" "$ns" "${steps[@]}"
elif command -v vitis-run >/dev/null; then
  for step in "${steps[@]}"; do
    case $step in
      csim) vitis-run --mode hls --csim --config npu.cfg --work_dir work ;;
      csynth) v++ -c --mode hls --config npu.cfg --work_dir work ;;
      cosim) vitis-run --mode hls --cosim --config npu.cfg --work_dir work ;;
      export) vitis-run --mode hls --package --config npu.cfg --work_dir work ;;
    esac
  done
else
  echo "flow.sh: neither vitis_hls nor vitis-run is on PATH: install AMD Vitis (2022.1 or later) and source its settings64.sh; the flow lies ready in $out" >&2
  exit 5
fi
