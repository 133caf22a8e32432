#!/usr/bin/env bash
# sim/kept.sh CONFIG [--trace]: sim/build.sh with SLUICE_RTL, files named from the repository's root, whose result is kept for
# other clones (.ci/cache), as that of other RTL is not by itself: of mutants there are hundreds.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
. hls/tools.sh # hwconfig
config=$1
if [[ $config == */* || $config == *.yaml ]] && [[ $config != /* ]]; then config=$here/$config; fi
name=$(basename "$config" .yaml)-other${2:+-${2#--}}${SLUICE_CHECK:+-check}
# shellcheck disable=SC2086 # the RTL is a list
key=$( (echo "${SLUICE_KIND:-}"; hwconfig -verilator -whole "$config"; cat $SLUICE_RTL sim/build.sh sim/cosim/* sim/*.hpp sim/include/* sim/checkers/*) |
  sha256sum | cut -d' ' -f1)
.ci/cache run "cosim-$name-$key" "build/cosim/$name" sim/build.sh "$config" "${@:2}"
