#!/usr/bin/env bash
# Checks that the cell models reject, at elaboration, every parameter value that they do not model:
# sim/cells/check.sh. Takes a few seconds. Status 1: a bad value is accepted or a supported one rejected, 2: usage.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
(($# == 0)) || { echo "usage: sim/cells/check.sh" >&2; exit 2; }
command -v verilator >/dev/null || { echo "sim/cells/check.sh: verilator is missing: install the package verilator" >&2; exit 5; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ramb="READ_WIDTH_B(18), .WRITE_WIDTH_A(18), .WRITE_MODE_A(\"READ_FIRST\")"
dsp="ALUMODEREG(0), .CARRYINREG(0), .CARRYINSELREG(0), .INMODEREG(0), .OPMODEREG(0)"
uram="BWE_MODE_A(\"PARITY_INDEPENDENT\"), .BWE_MODE_B(\"PARITY_INDEPENDENT\"), .OREG_A(\"TRUE\"), .USE_EXT_CE_A(\"TRUE\")"
# expectation | cell | parameters
cases=(
  "ok|FDRE|INIT(1'hx)" "ok|FDRE|INIT(1'h1)" "no|FDRE|IS_C_INVERTED(1'h1)" "no|FDRE|IS_R_INVERTED(1'h1)"
  "no|FDSE|IS_D_INVERTED(1'h1)" "no|FDCE|IS_CLR_INVERTED(1'h1)" "no|FDPE|IS_PRE_INVERTED(1'h1)"
  "ok|RAM32M|INIT_A(64'h0)" "no|RAM32M|INIT_A(64'h1)" "no|RAM32M|IS_WCLK_INVERTED(1'h1)"
  "ok|RAM64M|INIT_D(64'h0)" "no|RAM64M|INIT_D(64'h8000000000000000)" "no|RAM64M|IS_WCLK_INVERTED(1'h1)"
  "no|RAM32X1D|INIT(32'h2)" "no|RAM64X1D|INIT(64'h2)"
  "ok|SRL16E|INIT(5'h00)" "no|SRL16E|INIT(5'h01)" "no|SRL16E|IS_CLK_INVERTED(1'h1)" "no|SRLC32E|INIT(32'h1)"
  "ok|RAMB18E1|$ramb" "ok|RAMB18E1|$ramb, .DOB_REG(1)" "no|RAMB18E1|$ramb, .DOA_REG(1)"
  "no|RAMB36E1|RAM_MODE(\"SDP\"), .READ_WIDTH_A(72), .WRITE_WIDTH_B(72), .WRITE_MODE_B(\"READ_FIRST\"), .DOA_REG(1)" "no|RAMB18E1|$ramb, .INIT_3F(256'h0)"
  "no|RAMB18E1|$ramb, .INITP_00(256'h1)" "no|RAMB18E1|$ramb, .READ_WIDTH_A(18)"
  "no|RAMB18E1|$ramb, .RAM_MODE(\"ROM\")" "no|RAMB18E1|READ_WIDTH_B(9), .WRITE_WIDTH_A(18), .WRITE_MODE_A(\"READ_FIRST\")"
  "no|RAMB18E1|READ_WIDTH_B(18), .WRITE_WIDTH_A(18), .WRITE_MODE_A(\"WRITE_FIRST\")"
  "no|RAMB18E1|READ_WIDTH_B(36), .WRITE_WIDTH_A(36), .WRITE_MODE_A(\"READ_FIRST\")"
  "ok|RAMB18E1|RAM_MODE(\"SDP\"), .READ_WIDTH_A(36), .WRITE_WIDTH_B(36), .WRITE_MODE_B(\"READ_FIRST\")"
  "ok|RAMB36E1|$ramb" "no|RAMB36E1|$ramb, .RAM_EXTENSION_A(\"LOWER\")" "no|RAMB36E1|$ramb, .INIT_7F(256'h0)"
  "ok|RAMB36E1|RAM_MODE(\"SDP\"), .READ_WIDTH_A(72), .WRITE_WIDTH_B(72), .WRITE_MODE_B(\"READ_FIRST\")"
  "no|RAMB36E1|RAM_MODE(\"SDP\"), .READ_WIDTH_A(36), .WRITE_WIDTH_B(36), .WRITE_MODE_B(\"READ_FIRST\")"
  "ok|DSP48E1|$dsp" "ok|DSP48E1|$dsp, .AREG(2)" "no|DSP48E1|$dsp, .AREG(3)" "no|DSP48E1|$dsp, .AREG(0)"
  "no|DSP48E1|$dsp, .ACASCREG(0)" "no|DSP48E1|$dsp, .BREG(2), .BCASCREG(0)" "no|DSP48E1|$dsp, .USE_DPORT(\"TRUE\")"
  "no|DSP48E1|$dsp, .USE_SIMD(\"TWO24\")" "no|DSP48E1|$dsp, .A_INPUT(\"CASCADE\")"
  "no|DSP48E1|$dsp, .USE_MULT(\"NONE\")" "no|DSP48E1|ALUMODEREG(1)"
  "ok|DSP48E2|$dsp" "ok|DSP48E2|$dsp, .AREG(0), .ACASCREG(0), .BREG(2), .BCASCREG(2)"
  "no|DSP48E2|$dsp, .AREG(3)" "no|DSP48E2|$dsp, .BREG(0)" "no|DSP48E2|$dsp, .AMULTSEL(\"AD\")"
  "no|DSP48E2|$dsp, .B_INPUT(\"CASCADE\")" "no|DSP48E2|$dsp, .USE_SIMD(\"FOUR12\")"
  "no|DSP48E2|$dsp, .USE_WIDEXOR(\"TRUE\")" "no|DSP48E2|$dsp, .IS_CLK_INVERTED(1'b1)"
  "no|DSP48E2|ALUMODEREG(0)" "no|DSP48E2|$dsp, .ACASCREG(0)"
  "ok|URAM288_BASE|$uram" "no|URAM288_BASE|BWE_MODE_B(\"PARITY_INDEPENDENT\"), .OREG_A(\"TRUE\"), .USE_EXT_CE_A(\"TRUE\")"
  "no|URAM288_BASE|$uram, .OREG_B(\"TRUE\")" "no|URAM288_BASE|$uram, .USE_EXT_CE_B(\"TRUE\")" "no|URAM288_BASE|$uram, .RST_MODE_A(\"ASYNC\")"
  "no|URAM288_BASE|$uram, .IREG_PRE_A(\"TRUE\")" "no|URAM288_BASE|$uram, .EN_ECC_WR_B(\"TRUE\")" "no|URAM288_BASE|$uram, .IS_EN_B_INVERTED(1'b1)"
)
failed=0
for i in "${!cases[@]}"; do
  IFS='|' read -r want cell params <<<"${cases[$i]}"
  printf 'module top;\n  %s #(.%s) u ();\nendmodule\n' "$cell" "$params" >"$tmp/top.v"
  got=no
  if verilator --lint-only --top-module top -Wno-WIDTH -Wno-PINMISSING "$tmp/top.v" sim/cells/*.v \
      >"$tmp/log" 2>&1; then
    got=ok
  elif ! grep -q USERFATAL "$tmp/log" || grep -q WIDTHCONCAT "$tmp/log"; then
    got=broken
  fi
  if [[ $got != "$want" ]]; then
    head -n 20 "$tmp/log" >&2
    echo "sim/cells/check.sh: $cell #(.$params): expected $want, found $got" >&2
    failed=1
  fi
done
if ((failed == 0)); then echo "cells: ${#cases[@]} parameter sets as expected"; fi
exit $failed
