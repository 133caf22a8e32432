#!/usr/bin/env bash
# Counts the held-out layers anew, on the RTL as it is: some four minutes. The seed is not one of those that
# the law was looked at with.
set -euo pipefail
cd "$(dirname "$0")/../.."
make --no-print-directory build
for config in run zc706 zcu104; do sim/build.sh "$config" --stub >/dev/null; done
bin/dse validate --config run,zc706,zcu104 --share 0.1 --longest 60000 --n 960 --seed 9999 --out dse/counted/held.json
# networks.json, some hours: with --out of one run for each line, whose starts stand one after the other in it
#   bin/dse validate --starts --network fashion,tiny --config run,mid,tiny,zc706,zcu104 --bandwidth 8,15.3,30 --out FILE
#   bin/dse validate --starts --network resnet50,mobilenetv2 --input-side 32 --config run,mid,zc706 --bandwidth 8,15.3,30 --batch 1,4 --out FILE
# torchvision.json, two minutes, of the files that dse/zoo/exports.py writes
#   bin/dse validate --starts --network squeezenet1_1.onnx,googlenet.onnx --input-side 32 --config run --bandwidth 8,15.3,30 --batch 1,4 --out FILE
# finalists.json: the cycles behind gops_counted of, on zc706 and zcu104, half an hour each
#   bin/dse sweep --network resnet50 --board BOARD --weights 1,0,0,0,0,0,0,0 --finalists 3 --count --out FILE
# The chains of tiny layers (B = 1, 2, 8) are of four models of a few layers of 8 or 16 channels, which are not stored.
# Of int8, two minutes: layers, and whole starts.
for config in run-int8 zcu104-mobile-int8; do sim/build.sh "$config" --stub >/dev/null; done
bin/dse validate --config run-int8,zcu104-mobile-int8 --network fashion,mobilenetv2 --batch 1,4,8 --share 0.1 --longest 60000 --n 240 --seed 9999 --out dse/counted/held-int8.json
bin/dse validate --starts --config run-int8 --network fashion,tiny --bandwidth 8,15.3 --batch 1,2,4,8 --out dse/counted/networks-int8.json
# What the machine is held to, half a minute: segments of random networks.
for config in tinyx v13x; do sim/build.sh "$config" --stub >/dev/null; done
bin/dse validate --starts --network= --random 14 --config tinyx,v13x --bandwidth 4 --latency 37,300 --longest 25000 --seed 12 --out dse/counted/random.json
go test ./dse/counted -run TestBandsAreTheLayers -update
