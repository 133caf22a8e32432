#!/usr/bin/env bash
# Writes npu.gtkw and npu.sucl from signals.txt: sim/waves/make.sh [TRACE.fst]
#
# The ranges in signals.txt are for one memory port. With a trace, it writes TRACE.gtkw instead, with the trace's ranges
# (needs fst2vcd, package gtkwave), and prints the signals that the trace lacks. Status 1: signals are missing, 2: usage,
# 3: a trace that cannot be read, 5: fst2vcd is missing. Surfer's list has no ranges.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")"
(($# <= 1)) && [[ ${1:-} != -* ]] || { echo "usage: sim/waves/make.sh [TRACE.fst]" >&2; exit 2; }
trace=${1:-}
signals=signals.txt gtkw=npu.gtkw
if [[ -n $trace ]]; then
  [[ $trace == /* ]] || trace=$here/$trace
  command -v fst2vcd >/dev/null || { echo "sim/waves/make.sh: fst2vcd is missing: install the package gtkwave" >&2; exit 5; }
  [[ -r $trace ]] || { echo "sim/waves/make.sh: there is no trace $1" >&2; exit 3; }
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  # awk stops at the end of the definitions
  fst2vcd "$trace" 2>"$tmp/errors" | awk '
    /\$scope/ {n++; s[n] = $3}
    /\$upscope/ {n--}
    /\$var/ {p = ""; for (i = 2; i <= n; i++) p = p s[i] "."; r = $6; if (r == "$end") r = ""; print p $5 r}
    /\$enddefinitions/ {exit}' | sort -u >"$tmp/names" || true
  [[ -s $tmp/names ]] || { cat "$tmp/errors" >&2; echo "sim/waves/make.sh: $1 names no signals" >&2; exit 3; }
  # names as in the trace, if it has them
  awk -v missing="$tmp/missing" '
    NR == FNR {n = $0; sub(/\[.*/, "", n); range[n] = $0; next}
    /^(#|--|$)/ {print; next}
    {n = $0; sub(/\[.*/, "", n); if (n in range) print range[n]; else print n >missing}' "$tmp/names" signals.txt >"$tmp/signals"
  signals=$tmp/signals gtkw=${trace%.fst}.gtkw
fi
{
  echo '[*] written by sim/waves/make.sh from signals.txt'
  echo '[timestart] 0'
  while read -r line; do
    case $line in
      '' | \#*) ;;
      --*) printf '@200\n-%s\n' "${line#-- }" ;;
      *\[*) printf '@22\nTOP.%s\n' "$line" ;;
      *) printf '@28\nTOP.%s\n' "$line" ;;
    esac
  done <"$signals"
} >"$gtkw"
if [[ -n $trace ]]; then
  echo "$gtkw"
  if [[ -e $tmp/missing ]]; then
    echo "sim/waves/make.sh: the trace does not have:" >&2
    cat "$tmp/missing" >&2
    exit 1
  fi
  exit
fi
{
  while read -r line; do
    case $line in
      '' | \#*) ;;
      --*) printf 'divider_add %s\n' "${line#-- }" ;;
      *) printf 'variable_add TOP.%s\n' "${line%%[*}" ;;
    esac
  done <signals.txt
  echo zoom_fit
} >npu.sucl
