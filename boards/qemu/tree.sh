#!/usr/bin/env bash
# Adapts a board's device tree to QEMU 7.2's machine: boards/qemu/tree.sh arm|arm64 FROM TO
#
# xilinx-zynq-a9 works with the zc706's tree. xlnx-zcu102 has no PMU firmware, so the zcu104's UART and Ethernet get fixed
# clocks, and no power domain, reset or pin control. The machine's PHY has address 23.
set -euo pipefail
arch=$1 from=$2 to=$3
command -v fdtput >/dev/null || { echo "boards/qemu/tree.sh: fdtput is missing: install the package device-tree-compiler" >&2; exit 5; }
cp "$from" "$to"
[[ $arch == arm64 ]] || exit 0
freed() { # node, Hz, phandle of its clock, number of its clocks
  local clock=/qemu-clock-$3 p
  fdtput -p -t s "$to" "$clock" compatible fixed-clock
  fdtput -t i "$to" "$clock" '#clock-cells' 0
  fdtput -t i "$to" "$clock" clock-frequency "$2"
  fdtput -t x "$to" "$clock" phandle "$3"
  # shellcheck disable=SC2046,SC2059
  fdtput -t x "$to" "$1" clocks $(printf "$3 %.0s" $(seq "$4"))
  for p in power-domains resets reset-names pinctrl-names pinctrl-0; do
    if fdtget -p "$to" "$1" | grep -qx -- "$p"; then fdtput -d "$to" "$1" "$p"; fi
  done
}
freed /axi/serial@ff000000 100000000 5100ce00 2
freed /axi/ethernet@ff0e0000 125000000 5100ce01 5
fdtput -t i "$to" /axi/ethernet@ff0e0000/ethernet-phy@c reg 23
