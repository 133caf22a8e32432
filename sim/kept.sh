#!/usr/bin/env bash
# sim/kept.sh CONFIG [--trace]: runs sim/build.sh with SLUICE_RTL (paths from the repository's root) and keeps the result
# for other clones (.ci/cache). sim/build.sh alone does not keep builds of other RTL, since there are hundreds of mutants.
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
