#!/usr/bin/env bash
# C-simulation of the HLS kernel against golden, bit for bit, under sanitizers:
#
#   hls/test.sh [--seed N] [--full]
#
# First the static check on LLVM's intermediate code (hls/check). Then a sample for CI: random networks on two odd arrays, one built by g++ and one by clang++, both with
# -fsanitize=address,undefined, and 64 images end to end on `run`. --full is the RTL's suite: at least 500
# random layers with every bin of the coverage table on four arrays, with both compilers, the same under
# -fsanitize=thread, and on the vendor's own headers; and the images under sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=1
full=
while (($#)); do
  case $1 in
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --full) full=1 ;;
    *) echo "usage: hls/test.sh [--seed N] [--full]" >&2; exit 2 ;;
  esac
  shift
done
export TSAN_OPTIONS="suppressions=$PWD/hls/tsan.supp halt_on_error=1 ${TSAN_OPTIONS:-}"
out=out/hls
# layers BINARY CONFIG N [FLAGS...]: random layers on one build.
layers() {
  local binary=$1 config=$2 n=$3
  shift 3
  SLUICE_COSIM=$binary bin/sluice verify --device hls --config "$config" --n "$n" --images 0 --oracle 0 --orders 0 \
    --seed "$seed" --out "$out/$config-$(basename "$(dirname "$binary")")" "$@" | sed -n '/layers = golden/p;/mismatches/p'
}
hls/build.sh run >/dev/null &
built=$!
if [[ -z $full ]]; then
  go run ./hls/cmd/hlscheck -dependences tiny
  go run ./hls/cmd/hlscheck v5 v13
  gcc=$(hls/build.sh v5 --sanitize)
  clang=$(hls/build.sh v13 --sanitize --cxx clang++-14)
  wait "$built"
  echo "v5, g++ -fsanitize=address,undefined"
  layers "$gcc" v5 60
  echo "v13, clang++ -fsanitize=address,undefined"
  layers "$clang" v13 60
else
  wait "$built"
  go run ./hls/cmd/hlscheck -dependences tiny v5 v7 v8 v13 run
  go run ./hls/cmd/hlscheck small mid zc706 zcu104
  for config in v5 v7 v8 v13; do
    hls/build.sh "$config" >/dev/null
    for flags in '--sanitize' '--sanitize --cxx clang++-14' '--tsan --cxx clang++-14' '--xilinx'; do
      read -ra words <<<"$flags"
      binary=$(hls/build.sh "$config" "${words[@]}")
      echo "$config $flags"
      layers "$binary" "$config" 130
    done
  done
  bin/sluice verify --device hls --config v5,v7,v8,v13 --n 500 --images 0 --oracle 0 --orders 0 --seed "$seed" \
    --require-coverage --out "$out/coverage"
fi
# an open HLS tool, where somebody has it
if command -v bambu >/dev/null; then hls/bambu.sh tiny; fi
# what the RTL refuses, this kernel refuses, with the same error in the same layer
tiny=$(hls/build.sh tiny)
for kind in descriptor 'FBCB' 'slot' 'batch range' 'layer' 'weights too' 'register' 'soft reset' 'while busy'; do
  SLUICE_COSIM=$tiny bin/sluice faults --config tiny --kind "$kind" --n ${full:+2}40 --seed "$seed" --out "$out/faults" | tail -1 |
    sed "s/^/$kind: /"
done
if [[ -n $full ]]; then
  for flags in '--sanitize' '--sanitize --cxx clang++-14'; do
    read -ra words <<<"$flags"
    binary=$(hls/build.sh run "${words[@]}")
    echo "run $flags, 64 images"
    SLUICE_COSIM=$binary bin/sluice verify --device hls --config run --n 0 --images 64 --oracle 0 --orders 0 --seed "$seed" \
      --out "$out/images-$(basename "$(dirname "$binary")")" | sed -n '/^images/p;/mismatches/p'
  done
fi
echo "run, 64 images"
bin/sluice verify --device hls --config run --n 0 --images 64 --oracle 0 --orders 64 --seed "$seed" --out "$out/images" |
  sed -n '/^images/p;/^orders/p;/mismatches/p'
