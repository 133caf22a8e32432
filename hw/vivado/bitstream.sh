#!/usr/bin/env bash
# Builds a bitstream where Vivado is: hw/vivado/bitstream.sh BOARD CONFIG
#
# Either is a name or a YAML file. The result is build/bitstream/<board>-<config>, by the names that stand in them: npu.bit,
# npu.bin, npu.yaml (its manifest, which is what is committed, as bitstreams/<board>-<config>.yaml), npu.xsa, reports. What
# an earlier build left there goes first. Begin with the configuration `small`. DEBUG=1 puts an ILA in. Never run: there
# is no Vivado here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
[[ $# -eq 2 ]] || { echo "usage: hw/vivado/bitstream.sh BOARD CONFIG" >&2; exit 2; }
board=$1 config=$2
# refuses what cannot be built, before there is a folder
name=$(go run ./hw/vivado/block/cmd/boardblock name "$board" "$config")
out=${BUILD:-build}/bitstream/$name
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
go run ./hw/vivado/ip/cmd/boardip -board "$board" -config "$config" -out "$out/ip"
go run ./hw/vivado/block/cmd/boardblock tcl "$board" "$config" >"$out/build.tcl"
command -v vivado >/dev/null || {
  echo "hw/vivado/bitstream.sh: vivado is missing: install Vivado (written for 2022.2 and later, never run in any) and source its settings64.sh; what it would run is in ${out#"$root/"}" >&2
  exit 5
}
vivado -mode batch -nojournal -log "$out/package.log" -source "$out/ip/package_ip.tcl" -tclargs "$root" "$out/repository"
vivado -mode batch -nojournal -log "$out/build.log" -source "$out/build.tcl" -tclargs "$out/repository" "$out/vivado" "${DEBUG:-0}"
go run ./hw/vivado/block/cmd/boardblock manifest "$board" "$config" "$out/vivado" >"$out/manifest"
[[ ! -e $out/vivado/npu.xsa ]] || cp "$out/vivado/npu.xsa" "$out/"
cp "$out/vivado/npu.bit" "$out/"
mv "$out/manifest" "$out/npu.yaml"
go run ./host/cmd/sluice bitstream verify "$out/npu.bit" --board "$board"
go run ./host/cmd/sluice bitstream bin "$out/npu.bit" --out "$out/npu.bin"
