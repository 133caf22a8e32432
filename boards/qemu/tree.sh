#!/usr/bin/env bash
# Makes a board's device tree one for QEMU 7.2's machine: boards/qemu/tree.sh arm|arm64 FROM TO
#
# xilinx-zynq-a9 takes the zc706's as it is. xlnx-zcu102 has no PMU firmware: the zcu104's UART gets a
# fixed clock, no power domain and no pin control.
set -euo pipefail
arch=$1 from=$2 to=$3
command -v fdtput >/dev/null || { echo "boards/qemu/tree.sh: fdtput is missing: install the package device-tree-compiler" >&2; exit 5; }
cp "$from" "$to"
[[ $arch == arm64 ]] || exit 0
uart=/axi/serial@ff000000
fdtput -p -t s "$to" /qemu-uart-clock compatible fixed-clock
fdtput -t i "$to" /qemu-uart-clock '#clock-cells' 0
fdtput -t i "$to" /qemu-uart-clock clock-frequency 100000000
fdtput -t x "$to" /qemu-uart-clock phandle 5100ce00
fdtput -t x "$to" $uart clocks 5100ce00 5100ce00
for p in power-domains pinctrl-names pinctrl-0; do
  if fdtget -p "$to" $uart | grep -qx -- "$p"; then fdtput -d "$to" $uart "$p"; fi
done
