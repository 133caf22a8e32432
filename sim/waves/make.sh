#!/usr/bin/env bash
# Writes npu.gtkw and npu.sucl from signals.txt: sim/waves/make.sh [TRACE.fst]
#
# With a trace, says which signals it does not have (needs fst2vcd, package gtkwave); status 1 then.
set -euo pipefail
cd "$(dirname "$0")"
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
  done <signals.txt
} >npu.gtkw
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
if (($#)); then
  names=$(mktemp)
  trap 'rm -f "$names"' EXIT
  fst2vcd "$1" | awk '
    /\$scope/ {n++; s[n] = $3}
    /\$upscope/ {n--}
    /\$var/ {p = ""; for (i = 2; i <= n; i++) p = p s[i] "."; r = $6; if (r == "$end") r = ""; print p $5 r}
    /\$enddefinitions/ {exit}' | sort -u >"$names" || true
  missing=$(grep -v '^\(#\|--\|$\)' signals.txt | sort -u | comm -23 - "$names")
  if [[ -n $missing ]]; then
    echo "sim/waves/make.sh: the trace does not have:" >&2
    echo "$missing" >&2
    exit 1
  fi
  echo "sim/waves/make.sh: the trace has all signals"
fi
