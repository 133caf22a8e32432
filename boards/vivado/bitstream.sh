#!/usr/bin/env bash
# Builds a bitstream where Vivado is: boards/vivado/bitstream.sh BOARD CONFIG
#
# The result is build/bitstream/<board>-<config>: npu.bit, npu.bin, npu.yaml (its manifest, which is what is committed,
# as bitstreams/<board>-<config>.yaml), npu.xsa, reports. Begin with the configuration `small`. DEBUG=1 puts an ILA in.
# Never run: there is no Vivado here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
[[ $# -eq 2 ]] || { echo "usage: boards/vivado/bitstream.sh BOARD CONFIG" >&2; exit 2; }
board=$1 config=$2
out=build/bitstream/$board-$config
mkdir -p "$out"
go run ./boards/ip/cmd/boardip -board "$board" -config "$config" -out "$out/ip"
go run ./boards/block/cmd/boardblock tcl "$board" "$config" >"$out/build.tcl"
command -v vivado >/dev/null || {
  echo "boards/vivado/bitstream.sh: vivado is missing: install Vivado (2022.2 or later) and source its settings64.sh; what it would run is in $out" >&2
  exit 5
}
rm -rf "$out/repository" "$out/vivado"
vivado -mode batch -nojournal -log "$out/package.log" -source "$out/ip/package_ip.tcl" -tclargs "$root" "$root/$out/repository"
vivado -mode batch -nojournal -log "$out/build.log" -source "$out/build.tcl" -tclargs "$root/$out/repository" "$root/$out/vivado" "${DEBUG:-0}"
cp "$out/vivado/npu.bit" "$out/vivado/npu.xsa" "$out/"
go run ./boards/block/cmd/boardblock manifest "$board" "$config" "$out/vivado" >"$out/npu.yaml"
go run ./host/cmd/sluice bitstream verify "$out/npu.bit" --board "$board"
go run ./host/cmd/sluice bitstream bin "$out/npu.bit" --out "$out/npu.bin"
