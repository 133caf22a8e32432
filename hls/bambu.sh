#!/usr/bin/env bash
# Synthesises the kernel of one configuration with Bambu (PandA), an open HLS tool, if it is on PATH:
#
#   hls/bambu.sh [CONFIG]          default: tiny, the smallest
#
# Prints the path of the Verilog. ap_int.h and hls_stream.h are Bambu's own; it lacks hls_streamofblocks.h, which is
# hls/standin's. Status 5: Bambu is missing; if it fails, Bambu's status. Bambu has never run here.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD
cd "$root"
. hls/tools.sh
config=${1:-tiny}
(($# <= 1)) && [[ $config != -* ]] || { echo "usage: hls/bambu.sh [CONFIG]" >&2; exit 2; }
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
command -v bambu >/dev/null || { echo "hls/bambu.sh: bambu is missing: install PandA Bambu (no Debian package)" >&2; exit 5; }
json=$(hwconfig "$config")
ns=$(awk -v f="$(sed -n 's/^  "clock_mhz": \([0-9.]*\),*$/\1/p' <<<"$json")" 'BEGIN { printf "%.3f", 1000 / f }')
out=build/hls/bambu/$(basename "$config" .yaml)
rm -rf "$out"
mkdir -p "$out"
hwconfig -cpp "$config" >"$out/sluice_design.hpp"
cd "$out"
bambu "$root/hls/src/npu.cpp" --top-fname=sluice_npu -std=c++14 -O2 --clock-period="$ns" --generate-interface=INFER \
  -I"$root/hls/src" -I"$root/hls/include" -I"$root/sim/include" -I"$root/hls/standin/blocks" -I"$PWD" >bambu.log 2>&1 || {
  code=$?
  tail -n 20 bambu.log >&2
  echo "hls/bambu.sh: bambu fails with $code; the whole log is $out/bambu.log" >&2
  exit "$code"
}
[[ -s sluice_npu.v ]] || { echo "hls/bambu.sh: bambu has written no $out/sluice_npu.v" >&2; exit 1; }
echo "$out/sluice_npu.v"
