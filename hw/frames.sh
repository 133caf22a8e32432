#!/usr/bin/env bash
# Counts the backbones of hw/README's table by the machine anew (frames.json), some eight minutes of CPU, and writes the table.
set -euo pipefail
cd "$(dirname "$0")/.."
make --no-print-directory build
bench() {
  bin/dse bench-npu --machine --network "$1" --out "build/frames/$((++n))" "${@:2}"
}
n=0
rm -rf build/frames
for network in resnet50 inceptionv3 mobilenetv2; do
  bench "$network" --config zc706,hw/configs/int8/zc706-26x64-int8.yaml --bandwidth 15.3,24
  bench "$network" --config zcu104,hw/configs/int8/zcu104-25x128-int8.yaml,zcu104-three
done
bench mobilenetv2 --config zc706-mobile,zc706-mobile-int8 --bandwidth 15.3,24
bench mobilenetv2 --config zcu104-mobile,zcu104-mobile-int8,hw/configs/int8/zcu104-28x96-mobile-int8.yaml
go test ./dse/cmd/dse -run TestFrames -update
