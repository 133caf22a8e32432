# Sluice. `make help` lists the targets. Set-up (Debian packages, Go modules, a Python environment)
# is part of every target that needs it. It is done once, and again only if its inputs have changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

SEED    ?= 1
N       ?= 256
CONFIG  ?= run
BUILD   := build
VENV    := $(BUILD)/venv
# Packages for `make run`, for boards' images and QEMU, and further ones for the tests.
APT_RUN   := verilator g++ make zlib1g-dev dataset-fashion-mnist ca-certificates
APT_IMAGE := g++ make linux-source-6.1 xz-utils flex bison bc gcc-arm-linux-gnueabihf gcc-aarch64-linux-gnu device-tree-compiler cpio \
             u-boot-tools qemu-system-arm verilator dataset-fashion-mnist ca-certificates
APT_TEST  := yosys python3-venv tcl chromium xilinx-bootgen qemu-user-static
# cocotb embeds Python: its library is not what python3 needs
APT_TEST  += libpython3-dev
# a shaped link in a network namespace
APT_TEST  += iproute2
# systemd-analyze, for the unit of sluice serve; what perf_analyzer is linked with
APT_TEST  += systemd libb64-0d
# the RTL of int8 is a patch of the other
APT_TEST  += patch
# the kernel in HLS: a second compiler with its sanitizers, and its intermediate code
APT_TEST  += clang-14 llvm-14 lld-14 libclang-rt-14-dev
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# what is compiled in one clone is not compiled again in the next
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# in the order of the list, packages first
RTL     := $(shell grep '^hw/' hw/rtl/files.f)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z0-9-]+):.*## /  \1\t/' | expand -t 16

# ---------------------------------------------------------------- set-up
$(BUILD)/.apt-run: PACKAGES = $(APT_RUN)
$(BUILD)/.apt-image: PACKAGES = $(APT_IMAGE)
$(BUILD)/.apt: PACKAGES = $(APT_RUN) $(APT_IMAGE) $(APT_TEST)
$(BUILD)/.apt $(BUILD)/.apt-run $(BUILD)/.apt-image $(BUILD)/.apt-slurm: Makefile
	@mkdir -p $(BUILD)
	@missing=; for p in $(sort $(PACKAGES)); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "set-up: Debian packages:$$missing"; \
	  $(SUDO) apt-get -q -o DPkg::Lock::Timeout=600 update; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends $$missing; fi
	@touch $@

$(BUILD)/.go: go.mod go.sum
	@mkdir -p $(BUILD)
	@echo "set-up: Go modules"; go mod download
	@touch $@

$(BUILD)/.venv: dse/zoo/requirements.txt hw/syn/requirements.txt sim/requirements.txt host/serve/testdata/requirements.txt \
                host/serve/testdata/requirements-clients.txt $(BUILD)/.apt
	@echo "set-up: Python environment (the onnxruntime oracle, the core of the timing tables, cocotb, pyslang, clients of sluice serve)"
	@/usr/bin/python3 -m venv $(VENV)
	@$(VENV)/bin/pip install -q --disable-pip-version-check -r dse/zoo/requirements.txt -r hw/syn/requirements.txt -r sim/requirements.txt -r host/serve/testdata/requirements.txt
	@# 200 MB of source, a tenth of which is imported: that is compiled then
	@$(VENV)/bin/pip install -q --disable-pip-version-check --no-deps --no-compile -r host/serve/testdata/requirements-clients.txt
	@touch $@

.PHONY: setup
setup: $(BUILD)/.apt $(BUILD)/.go $(BUILD)/.venv ## Debian packages, Go modules, Python environment

# ---------------------------------------------------------------- build
.PHONY: build
build: $(BUILD)/.go ## bin/sluice and bin/dse
	@mkdir -p bin
	@go build -o bin/ ./host/cmd/sluice ./dse/cmd/dse

.PHONY: cosim
cosim: $(BUILD)/.apt-run $(BUILD)/.go ## the Verilated NPU of CONFIG (default run)
	@sim/build.sh $(CONFIG)

.PHONY: gen
gen: $(BUILD)/.go ## regenerates what comes from hw/abi/abi.yaml
	@go run ./hw/abi/gen

.PHONY: check-gen
check-gen: $(BUILD)/.go ## fails where generated files differ from hw/abi/abi.yaml
	@go run ./hw/abi/gen -check

# ---------------------------------------------------------------- the main job
.PHONY: run
run: build cosim ## serves the zoo network on the Verilated NPU, serial and fluid, and prints the table
	@bin/sluice run --device cosim --config $(CONFIG) --network fashion --n $(N) --seed $(SEED) --out out/main

# ---------------------------------------------------------------- checks
# The hash of all files in folders but texts, and of the version of the tool named last.
files = { find $(filter-out $(lastword $(1)),$(1)) -type f ! -name '*.md' -print0 | sort -z | xargs -0 sha256sum; $(lastword $(1)) -V; } | sha256sum | cut -d' ' -f1

# what simulators and benches are built of; the other folders are Go
SIM := $(filter-out sim/verify sim/vectors,$(wildcard sim/*))

.PHONY: lint lint-rtl lint-rtl-anew lint-go
lint-rtl: $(BUILD)/.apt $(BUILD)/.go $(BUILD)/.venv
	@.ci/cache once "lint-rtl-$$($(call files,hw/rtl hw/xilinx hw/lint hw/configs sim/cells sim/requirements.txt verilator))" $(MAKE) --no-print-directory lint-rtl-anew
lint-rtl-anew:
	@diff <(grep '^hw/' hw/rtl/files.f | sort) <(ls hw/rtl/*.sv | sort) || { echo "hw/rtl/files.f is not the list of hw/rtl/*.sv"; exit 1; }
	@diff <(grep '^hw/' hw/rtl/int8/files.f | sort) <(ls hw/rtl/int8/*.sv hw/xilinx/int8/*.sv | sort) || { echo "hw/rtl/int8/files.f is not the list of hw/rtl/int8/*.sv and hw/xilinx/int8/*.sv"; exit 1; }
	@verilator --lint-only -Wall --top-module npu_top $(RTL)
	@echo "verilator --lint-only -Wall: clean"
	@$(VENV)/bin/python hw/lint/slang.py hw/rtl/files.f -- npu_top >/dev/null
	@for c in tiny zc706 zcu104; do $(VENV)/bin/python hw/lint/slang.py hw/rtl/files.f -- npu_top $$(go run ./hw/configs/cmd/hwconfig -verilator $$c | sed "s/-G//g; s/DESIGN_HASH=[^ ]*//"); done >/dev/null
	@mkdir -p $(BUILD)/rtl-int8 && hw/rtl/int8/files.sh $(BUILD)/rtl-int8 >$(BUILD)/rtl-int8/files.f
	@for p in '' '-GPOST=1 -GDEPTHWISE=1' -GT_P=16; do verilator --lint-only -Wall --top-module npu_top -GT_C=16 -GDRAIN=4 $$p -f $(BUILD)/rtl-int8/files.f sim/cells/dsp48e2.v || exit 1; done
	@$(VENV)/bin/python hw/lint/slang.py $(BUILD)/rtl-int8/files.f sim/cells/dsp48e2.v -- npu_top T_C=16 POST=1 DEPTHWISE=1 >/dev/null
	@for top in 'mac_packed LEN=13' 'mac_packed LEN=13 DSP48E2=1' requant weight_pack; do $(VENV)/bin/python hw/lint/slang.py hw/rtl/int8/files.f sim/cells/dsp48e2.v -- $$top; done >/dev/null
	@echo "slang, on tiny, zc706 and zcu104 too: clean"

lint: lint-rtl lint-go ## Verilator -Wall, slang, gofumpt, go vet, staticcheck
lint-go: $(BUILD)/.go
	@out=$$(go tool gofumpt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); [ -z "$$out" ] || { echo "gofumpt: $$out"; exit 1; }
	@go vet ./... ./.ci/readme
	@go vet -tags otel ./host/serve ./host/cmd/sluice
	@go vet -tags static ./host/report ./host/cmd/sluice
	@go vet -tags qemu ./boards/qemu
	@go tool staticcheck ./... ./.ci/readme
	@echo "gofumpt, go vet, staticcheck: clean"

# The other systems that both commands are built for. Each processor costs half a minute of compilation, so only nightly
# builds all. No other code is built for them, so the slowest parts of the compiler are off; tests and images use the code
# compiled for arm and arm64.
SYSTEMS ?= windows/amd64 darwin/arm64
.PHONY: cross
cross: $(BUILD)/.go ## both commands for the boards' processors, arm and arm64, and go vet; both for Windows and macOS
	@for a in arm arm64; do GOARCH=$$a CGO_ENABLED=0 go build -o /dev/null ./host/cmd/sluice ./dse/cmd/dse || exit; done
	@GOARCH=arm CGO_ENABLED=0 go vet ./...
	@# of arm64 alone: all else is what lint-go vets, of 64 bits, and what arm has
	@GOARCH=arm64 CGO_ENABLED=0 go vet ./host/npu/uio
	@for s in $(SYSTEMS); do GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 go build -gcflags='all=-N -l -dwarf=false' -ldflags=-w -o /dev/null ./host/cmd/sluice ./dse/cmd/dse || exit; done
	@echo "arm, arm64: clean; built for $(SYSTEMS)"

# Two parts of `make test` run in parallel; each prints its result and time at its end.
TESTS := test-rtl test-netlist test-go lint-go cross test-verify hls-test test-arm test-qemu test-race
.PHONY: test test-go test-rtl test-netlist test-verify
test: setup build ## everything CI checks (about 25 minutes on 2 cores)
	@.ci/took "the Verilated NPUs" $(MAKE) --no-print-directory test-npus
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(TESTS:%=took/%)

# common inputs are built first, so that the parts do not build them again
took/%:
	@.ci/took $* $(MAKE) --no-print-directory -o setup -o build -o cosim $*

.PHONY: test-npus
test-npus:
	@printf 'sim/build.sh %s\n' mid run tiny 'tiny --stub' 'run --stub' v5 v7 v8 | cat - <(echo SLUICE_CHECK=1 sim/build.sh v13x) | xargs -P 2 -L 1 env

test-go: check-gen
	@# a loaded machine is no failure: ten minutes a package are not enough on every one; what hangs is to be told within the hour
	@SLUICE_SETUP=done go test -vet=off -timeout 20m ./... ./.ci/readme
	@go test -vet=off -tags otel -run '^TestSpans$$' ./host/serve

test-rtl: $(BUILD)/.apt $(BUILD)/.go $(BUILD)/.venv lint-rtl
	@sim/mutants.sh --check
	@.ci/cache run "formal-$$($(call files,hw/rtl sim/formal yosys))" $(BUILD)/formal sim/formal/run.sh
	@.ci/cache once "bench-$(SEED)-$$(g++ -dumpversion)-$$($(call files,hw/rtl hw/xilinx $(SIM) verilator))" sim/bench.sh --seed $(SEED)
	@sim/cocotb/run.sh zc706 tiny --seed $(SEED) --n 4

# Inputs of small's synthesis; synth.sh checks more inputs, and synthesises again if these have changed.
SYN_INPUTS := $(sort $(wildcard hw/rtl/*.sv hw/xilinx/*.sv)) hw/configs/small.yaml hw/syn/synth.sh hw/syn/pack.go
# yosys for xc7, longest paths, and the netlist on the vectors that the RTL passes
test-netlist: build $(BUILD)/.venv
	@.ci/cache run "syn-small-$$(cat $(SYN_INPUTS) | sha256sum | cut -d' ' -f1)" $(BUILD)/syn/small-xc7 hw/syn/synth.sh small
	@.ci/cache once "syn-check-$$($(call files,$(wildcard hw/syn/*.sh hw/syn/*.go) hw/syn/testdata hw/syn/cmd/synreport hw/syn/timing hw/configs hw/rtl/ram_fold.sv boards yosys))" hw/syn/check.sh
	@.ci/cache once "cells-check-$$($(call files,sim/cells verilator))" sim/cells/check.sh
	@.ci/cache run "netlist-units-$$(cat $(SYN_INPUTS) sim/cells/* sim/netlist/units.sh sim/bench/{mac_chain,act_buffer,weight_ring}/*_tb.cpp | sha256sum | cut -d' ' -f1)" \
	  $(BUILD)/netlist/units sim/netlist/units.sh --seed $(SEED)
	@.ci/cache run "syn-pe_array-$$(cat $(SYN_INPUTS) | sha256sum | cut -d' ' -f1)" $(BUILD)/syn/small-xcup-pe_array \
	  hw/syn/synth.sh small --family xcup --top pe_array
	@go run ./hw/syn/cmd/synfigures
	@core=$$(ls $(PICORV32)) && go run ./hw/syn/cmd/timing -core "$$core" -only $(TIMED)
	@rm -rf $(BUILD)/vectors/small; bin/dse vectors --config small --n 12 --seed $(SEED) --out $(BUILD)/vectors/small >/dev/null
	@.ci/cache once "netlist-play-$$($(call files,$(BUILD)/vectors/small $(BUILD)/syn/small-xc7/netlist.v hw/configs $(SIM) verilator))" $(MAKE) --no-print-directory netlist-play

.PHONY: netlist-play
netlist-play:
	@cosim=$$(sim/netlist/build.sh small); truncate -s 64M $(BUILD)/vectors/dram; \
	for v in $(BUILD)/vectors/small/*.vec; do $$cosim --dram $(BUILD)/vectors/dram --base 0x10000000 --play $$v; done

# 200 random layers, 256 images with preemption and merging, the orders of soft and cosim, and
# golden against onnxruntime on 2,000 images; then every k, s, operator, flag, port, stall and error code
# on four odd arrays, a build whose activation buffer is folded, faults (v13x in both with the assertions of sim/checkers in), the build without MACs,
# the law of cycles on a sample of layers, and the beginning of three large networks, and a board of
# another name from its file to simulated layers
test-verify: setup build cosim
	@bin/sluice verify --config $(CONFIG) --n 200 --images 256 --seed $(SEED) --out out/verify
	@bin/sluice verify --config v5,v7,v8,v13x --checked v13x --n 500 --seed $(SEED) --require-coverage --out out/coverage
	@SLUICE_COSIM=$$PWD/$$(sim/build.sh tiny --fold) bin/sluice verify --config tiny --n 100 --images 0 --oracle 0 --orders 0 --seed $(SEED) --out out/fold
	@bin/sluice faults --config tiny,v7,v13x --checked v13x --n 150 --seed $(SEED) --out out/faults
	@SLUICE_COSIM=$$PWD/$$(SLUICE_CHECK=1 sim/build.sh v13x) go test ./host/npu -run Upsample
	@bin/sluice verify --config tiny --n 0 --images 0 --oracle 0 --orders 0 --stub 50 --seed $(SEED) --out out/stub
	@mkdir -p out/own && { sed 's/^name: .*/name: v5-post-int8/' hw/configs/v5.yaml; printf 'post: true\ndepthwise: true\ntype: int8\n'; } > out/own/v5-post-int8.yaml && SLUICE_CHECK=1 sim/build.sh out/own/v5-post-int8.yaml
	@bin/sluice verify --config out/own/v5-post-int8.yaml --checked out/own/v5-post-int8.yaml --n 60 --images 0 --oracle 0 --orders 0 --seed $(SEED) --out out/int8
	@bin/sluice faults --config out/own/v5-post-int8.yaml --checked out/own/v5-post-int8.yaml --n 40 --seed $(SEED) --out out/int8-faults
	@bin/dse validate --config run --network mobilenetv2 --share 0.06 --longest 20000 --n 24 --seed $(SEED) --bands --machine --out out/validate.json
	@mkdir -p out/own && sed 's/^name: .*/name: bench-7/' boards/pynq-z2/board.yaml > out/own/bench-7.yaml
	@bin/dse sweep --network mobilenetv2 --board out/own/bench-7.yaml --max-dsp 80 --tr 64..128 --margin 0.1 --out out/own/sweep.json >/dev/null
	@bin/dse export --sweep out/own/sweep.json --name bench-7-best --out out/own >/dev/null && sim/build.sh out/own/bench-7-best.yaml --stub
	@bin/dse validate --config out/own/bench-7-best.yaml --network mobilenetv2 --share 0.1 --longest 20000 --n 8 --seed $(SEED) --out out/own/validate.json
	@for n in resnet50 inceptionv3 mobilenetv2; do bin/sluice verify --config mid --network $$n --segments 2 --input 64 --out out/$$n || exit; done

# The HLS kernel's C-simulation under sanitizers, bit for bit against golden (hls/README.md)
.PHONY: hls-test
hls-test: setup build ## C-simulation of the HLS kernel: random layers with g++ and clang++ under sanitizers, 64 images
	@hls/test.sh --seed $(SEED)

# Vitis' own synthesis and co-simulation: make hls-vitis CONFIG=hls/configs/zc706-hls.yaml STEPS="csim csynth"
.PHONY: hls-vitis
hls-vitis: setup ## the vendor's flow for the HLS kernel (needs vitis_hls or vitis-run): CONFIG, STEPS
	@hls/vitis/flow.sh $(or $(CONFIG),hls/configs/zc706-hls.yaml) $(STEPS)

# Longest paths of small and of units at full size; stored results of the same RTL are not synthesised again.
# TIMING=-all: all again; TIMING='-tops -all': also zcu104's units and whole NPUs (hours); -store stores the results.
# CI checks TIMED, units of both boards and small: it synthesises only units with changed RTL, and small.
TIMED := small,zc706,zcu104
PICORV32 := $(VENV)/lib/python3*/site-packages/pythondata_cpu_picorv32/verilog/picorv32.v
.PHONY: timing
timing: setup ## the clock that the RTL reaches, by a stated table (estimated); fails where a path got longer
	@core=$$(ls $(PICORV32)) && go run ./hw/syn/cmd/timing -core "$$core" $(TIMING)

# Places and routes units on another vendor's part, for which there are open tools (nextpnr is installed from PyPI at
# its first use), to see a router's net delays. ROUTE=-store stores the results.
.PHONY: route
route: setup ## units placed and routed on ECP5, against a core whose clock is published; fails where one got longer
	@core=$$(ls $(PICORV32)) && go run ./hw/syn/cmd/route -core "$$core" $(ROUTE)

# ---------------------------------------------------------------- boards
BOARD   ?= zc706
.PHONY: image qemu bitstream test-arm test-arm64 test-qemu
bitstream: $(BUILD)/.go ## a bitstream of CONFIG for BOARD, where Vivado is (never run here)
	@hw/vivado/bitstream.sh $(BOARD) $(if $(filter file,$(origin CONFIG)),small,$(CONFIG))

image: $(BUILD)/.apt-image $(BUILD)/.go ## what BOARD boots: kernel, device tree, initramfs (build/image/BOARD)
	@boards/image/build.sh $(BOARD) $(IMAGE_CONFIG)

IMAGE_CONFIG ?= tiny
qemu: image ## boots BOARD's image in QEMU with the Verilated NPU of IMAGE_CONFIG behind its UIO device
	@cosim=$$(sim/build.sh $(IMAGE_CONFIG)); go run ./boards/cmd/qemu --board $(BOARD) --cosim $$cosim

# The boards' packages on their processors, in user-mode emulation (the simulator runs natively). SLOW tests would take
# minutes of emulation: they judge policies by many runs in virtual time, or compare texts. Native runs are enough for
# them, and TestSchedulesAreTheStoredOnes shows that arm decides the same. BOUNDED tests have bounds in seconds for native
# runs. Nightly runs test-arm with EMULATED= instead.
ON_BOARD := ./hw/abi ./hw/configs ./bitstreams ./dse/cost ./dse/mapping ./dse/bundle ./host/device ./host/sched ./host/engine ./host/load \
            ./host/report ./host/soft ./host/npu ./host/npu/uio ./host/kit ./host/board
SLOW := ^(Test(Strait)?AnswersFollowFromTheState|TestGoodput.*|TestNobodyBeats.*|TestSameSeedSameBytes|TestPlusBeatsFluid|TestMemoryIsFlat|TestSerialAgreesWithPollaczekKhinchine.*|TestLimitsChanged|FuzzFields)$$
BOUNDED := ^(TestSubmittersStarveNobody|TestCancelsAreLinear)$$
EMULATED ?= -short -skip '$(SLOW)|$(BOUNDED)'
# No vet here: cross vets for both processors, lint-go for this one. arm64 is in nightly.
test-arm: $(BUILD)/.apt $(BUILD)/.go ## the runtime's packages on arm, emulated
	@sim/build.sh tiny
	@GOARCH=arm GOARM=7 CGO_ENABLED=0 go test -vet=off -timeout 40m $(EMULATED) -exec qemu-arm-static $(ON_BOARD) $(if $(EMULATED),,./host/experiments)
test-arm64: $(BUILD)/.apt $(BUILD)/.go ## the same on arm64
	@sim/build.sh tiny
	@GOARCH=arm64 CGO_ENABLED=0 go test -vet=off -timeout 40m $(EMULATED) -exec qemu-aarch64-static $(ON_BOARD) $(if $(EMULATED),,./host/experiments)

# Images in QEMU: here the zc706's (arm), in nightly the zcu104's (arm64). Missing kernels and images are built (5 CPU-minutes
# each).
test-qemu: $(BUILD)/.apt $(BUILD)/.go
	@go test -vet=off -tags qemu -timeout 60m -run '^(TestBoards|TestNoDevice|TestNoInterrupt)$$/^zc706$$' ./boards/qemu

.PHONY: race test-race soak
test-race: SLOW := $(SLOW)|^(TestSchedulesAreTheStoredOnes|TestStreamAgreesWithRecords)$$
test-race: $(BUILD)/.go
	@go test -race -vet=off -short -skip '$(SLOW)' -timeout 40m ./host/engine ./host/device
race: $(BUILD)/.apt-run $(BUILD)/.go ## the runtime's tests under the race detector, on the RTL too (4 CPU-minutes)
	@sim/build.sh tiny
	@SLUICE_SETUP=done go test -race -timeout 60m ./host/engine ./host/sched ./host/soft ./host/device ./host/npu ./host/gpu/cuda

soak: $(BUILD)/.go ## the server's core: 10^7 requests from 64 goroutines, with cancels, faults, hangs and absurd tasks; the whole server: 10^6 over 256 connections
	@go test ./host/soft -run '^TestSoak$$' -v -timeout 4h -soak.n 10000000 -soak.seed $$(date +%s)
	@go test ./host/serve -run '^TestSoak$$' -v -timeout 4h -soak.n 1000000 -soak.seed $$(date +%s)

# An older tritonclient, and Envoy, in separate environments.
$(BUILD)/clients/%/.set: host/serve/testdata/requirements-%.txt $(BUILD)/.apt
	@echo "set-up: Python environment ($*)"
	@rm -rf $(@D); /usr/bin/python3 -m venv $(@D)
	@$(@D)/bin/pip install -q --disable-pip-version-check --no-deps -r $<
	@touch $@

.PHONY: perf-analyzer fleet oci slurm
perf-analyzer: $(BUILD)/.go $(BUILD)/clients/perf/.set ## Triton's perf_analyzer measures sluice serve
	@SLUICE_PERF_ANALYZER=$(CURDIR)/$(BUILD)/clients/perf/bin/perf_analyzer \
	  LD_LIBRARY_PATH=$$(dirname $(CURDIR)/$(BUILD)/clients/perf/lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12) \
	  go test ./host/serve -count 1 -v -run '^TestPerfAnalyzerItself$$'

fleet: $(BUILD)/.go $(BUILD)/clients/envoy/.set ## three servers by grpc-go's weights and by Envoy, one slow, one killed: 99 % on time
	@SLUICE_ENVOY=$$(ls $(CURDIR)/$(BUILD)/clients/envoy/lib/python3*/site-packages/envoy/_bin/envoy) \
	  go test ./host/serve -count 1 -v -timeout 60m -run '^TestFleet$$' -args -fleet.n 1000

$(BUILD)/.apt-slurm: PACKAGES = slurm-wlm munge
slurm: $(BUILD)/.apt-slurm build ## shards under Slurm on this machine: a process, a task and the node killed, resumed, merged
	@sim/build.sh tiny
	@go test ./host/work -count 1 -v -timeout 60m -run '^TestSlurmItself$$' -args -slurm=$(CURDIR)/bin

OCI_ARCH ?= amd64
oci: $(BUILD)/.go ## an OCI image of sluice alone, for OCI_ARCH (build/oci)
	@host/serve/deploy/oci.sh $(OCI_ARCH)

.PHONY: bench
bench: setup build cosim ## goodput over the arrival rate on the soft device and on the RTL; Go benchmarks
	@bin/sluice bench rates --seeds 1,2,3 --n 20000 --out out/bench
	@bin/sluice bench all --out out/bench
	@mkdir -p out/bench/fluid && cp out/bench/runs.jsonl out/bench/fluid/ # the same runs
	@bin/sluice reproduce fluid --seeds 1,2,3 --out out/bench
	@bin/sluice reproduce jellyfish --seeds 1,2,3 --out out/bench
	@bin/sluice reproduce strait --seeds 1,2,3 --out out/bench
	@bin/sluice bench compose --out out/bench-compose
	@bin/sluice bench rates --device cosim --rates 0.7,1.0,1.2 --seeds 1,2,3 --n 256 --out out/bench-cosim
	@go test -run '^$$' -bench . -benchmem ./... | grep -E '^(Benchmark|pkg:|ok)' || true

.PHONY: bench-npu
bench-npu: setup build ## cycles of ResNet-50's backbone on the reference arrays without MACs, beside roofline and goal
	@for c in zc706 zcu104; do sim/build.sh $$c --stub; done
	@bin/dse bench-npu --out out/bench-npu

# Parts that have passed on this commit are not run again (out/nightly/stamps), so a second call continues a stopped one.
# If a part fails, the others still run; failed parts are named at the end. make nightly PARTS="lockstep cocotb" runs
# only those. Each part prints its CPU time, which its stamp keeps.
# Nightly takes two cores about an hour (80 minutes of CPU): CI's checks, then the parts below, two in parallel. Parts that
# take a core more than ten minutes are in weekly, which also repeats nightly's with other numbers.
NIGHTLY := arm64 qemu-arm64 bench readme own-boards check-export race soak configs cocotb lockstep faults timing 386 gpu-killed strait jellyfish numbers operators gpu fuzz perf-analyzer fleet oci slurm
WEEKLY := commands mutants hls timing-all overheads route resource-fresh lockstep-long coverage-int8 netlist-int8 configs-long gpu-long gpu-killed-long mobilenetv2 resnet50 inceptionv3 validate bench-npu-full exports cross arm images gpu-kills gpu-calls gpu-breaks bench-gpu strait-long jellyfish-long fuzz-long
.PHONY: nightly nightly-parts weekly $(NIGHTLY:%=nightly/%) $(WEEKLY:%=weekly/%)
nightly: setup build ## the longer checks: everything CI checks, benches, soak, faults, lockstep, every fuzz target (about an hour on 2 cores)
	@SLUICE_PARTS="$(PARTS)" .ci/all nightly $(MAKE) --no-print-directory nightly-parts

nightly-parts:
	@.ci/once test make --no-print-directory test
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(NIGHTLY:%=nightly/%)

weekly: setup build ## the longest: deliberate breaks, whole tops, whole networks on the RTL, whole READMEs, kernels anew (a day on 2 cores)
	@SLUICE_PARTS="$(PARTS)" .ci/all weekly $(MAKE) --no-print-directory -j2 --output-sync=target $(WEEKLY:%=weekly/%)

# Parts of both, with different numbers.
configs = bash -euc 'for c in tiny small; do sim/build.sh $$c; bin/sluice verify --config $$c --network tiny --n $(1) --seed $$(date +%s) --oracle 0 --out out/$(@D)/$$c; done'
lockstep = bash -euc 'seed=$$(date +%s); $$(sim/netlist/build.sh small --lockstep) --seed $$seed --n $(1)'
gpu-killed = go test ./host/gpu/cuda -run '^TestKilled$$' -timeout 2h -args -cuda.kills $(1)
gpu = bash -euc 'seed=$$(date +%s); go test ./host/gpu -count 1 -v -run "Restored|Broken" -timeout 60m -args -seed $$seed -kills $(1); go test ./host/gpu/cuda/kernels -count 1 -v -run "Kills|Tensor" -timeout 60m -args -kills.seed $$seed -kills.n $(3); go test ./host/gpu/cuda -count 1 -run "^TestObject$$" -args -cuda.every; go test ./host/experiments/disb -run Foretold -timeout 60m -args -disb.whole; go test ./host/experiments/seeb -count 1 -v -run Units -timeout 60m -args -seed $$seed -n $(2)'
strait-tests = seed=$$(date +%s); go test ./host/predict -args -seed $$seed -n $(1); go test ./host/sched -run Meet -args -strait.seed $$seed -strait.n $(2)
jellyfish-tests = go test ./host/jellyfish ./host/jellyfish/exact -args -seed $$(date +%s) -n $(1)

nightly/bench:
	@.ci/once bench make --no-print-directory bench
nightly/arm64:
	@.ci/once arm64 make --no-print-directory test-arm64
nightly/qemu-arm64:
	@.ci/once qemu-arm64 go test -vet=off -tags qemu -timeout 60m -run '^(TestBoards|TestSpurious)$$/^zcu104$$' ./boards/qemu
nightly/readme:
	@.ci/once readme go test ./.ci/readme -count 1 -timeout 60m -run Outputs -args -nightly
nightly/own-boards:
	@.ci/once own-boards bash -euc 'sim/build.sh tiny; go test ./.ci/readme -count 1 -timeout 60m -run Stranger -args -nightly'
nightly/check-export:
	@.ci/once check-export make --no-print-directory check-export
nightly/race:
	@.ci/once race make --no-print-directory race
nightly/soak:
	@.ci/once soak make --no-print-directory soak
nightly/configs:
	@.ci/once configs $(call configs,200)
nightly/cocotb:
	@.ci/once cocotb bash -euc 'sim/cocotb/run.sh zc706 tiny --seed $$(date +%s) --n 4; sim/cocotb/run.sh zcu104 v5 --quiet 0 --seed $$(date +%s) --n 6'
nightly/lockstep:
	@.ci/once lockstep $(call lockstep,40)
nightly/faults:
	@.ci/once faults bash -euc 'for c in tiny v5 v7 v8; do sim/build.sh $$c; done; SLUICE_CHECK=1 sim/build.sh v13x; bin/sluice faults --config tiny,v5,v7,v8,v13x --checked v13x --n 2000 --seed $$(date +%s) --out out/nightly/faults'
# whole NPUs too; stored results of the same RTL are not synthesised again
nightly/timing:
	@.ci/once timing go run ./hw/syn/cmd/timing -tops -only $(TIMED)
nightly/386:
	@.ci/once 386 env GOARCH=386 CGO_ENABLED=0 go test ./dse/bundle ./dse/graph ./dse/golden ./host/sched ./host/engine ./host/soft
nightly/gpu-killed:
	@.ci/once gpu-killed $(call gpu-killed,1000)
nightly/strait:
	@.ci/once strait bash -euc '$(call strait-tests,20000,200)'
nightly/jellyfish:
	@.ci/once jellyfish bash -euc '$(call jellyfish-tests,5000)'
nightly/numbers:
	@.ci/once numbers bash -euc 'go test ./dse/quant -count 1 -run ^TestRandom$$ -args -nets 200 -seed $$(date +%s); go test ./dse/golden/int8 -count 1 -run Fashion -args -images 0; go test ./dse/search -count 1 -run ^TestPruningIsSafe$$ -args -tc 116'
nightly/operators:
	@.ci/once operators bash -euc 'go test ./dse/recipe -count 1 -run ^TestOperators$$ -args -operators.n 12 -operators.seed $$(date +%s)'
nightly/gpu:
	@.ci/once gpu $(call gpu,2000,20,100000)
nightly/fuzz:
	@.ci/once fuzz .ci/fuzz 10s

nightly/perf-analyzer:
	@.ci/once perf-analyzer make --no-print-directory perf-analyzer
nightly/fleet:
	@.ci/once fleet make --no-print-directory fleet
nightly/slurm:
	@.ci/once slurm make --no-print-directory slurm
nightly/oci:
	@.ci/once oci bash -euc 'make --no-print-directory oci OCI_ARCH=amd64; SLUICE_OCI=$$PWD/build/oci/sluice-amd64.tar go test ./host/serve -count 1 -run ^TestImage$$'

weekly/commands:
	@.ci/once commands go test ./.ci/readme -count 1 -timeout 12h -run Commands -args -nightly
weekly/mutants:
	@.ci/once mutants sim/mutants.sh
weekly/hls:
	@.ci/once hls bash -euc 'hls/test.sh --full --seed $$(date +%s)'
weekly/timing-all:
	@.ci/once timing-all go run ./hw/syn/cmd/timing -tops -all -only $(TIMED)
weekly/overheads:
	@.ci/once overheads hw/syn/overheads.sh
weekly/route:
	@.ci/once route make --no-print-directory route
weekly/resource-fresh:
	@.ci/once resource-fresh go test ./dse/resource -count 1 -run '^TestStale$$' -args -fresh
weekly/lockstep-long:
	@.ci/once lockstep-long $(call lockstep,500)
# every bin, on the RTL with error codes and stalls (seed 3 reaches them all), and the longest chain
weekly/coverage-int8:
	@.ci/once coverage-int8 bash -euc 'for c in v5-int8 v13x-int8; do hls/build.sh $$c; sim/build.sh $$c; done; sim/build.sh hw/configs/int8/v30-int8.yaml; \
	  verify="bin/sluice verify --images 0 --oracle 0 --orders 0"; for d in hls cosim; do $$verify --device $$d --config v5-int8,v13x-int8 --n 500 --seed 3 --require-coverage --out out/weekly/coverage-int8-$$d; done; \
	  $$verify --device cosim --config hw/configs/int8/v30-int8.yaml --n 300 --seed $$(date +%s) --out out/weekly/coverage-int8-v30'
weekly/netlist-int8:
	@.ci/once netlist-int8 bash -euc 'cosim=$$(sim/netlist/build.sh small-int8); bin/dse vectors --config small-int8 --n 12 --seed $$(date +%s) --out $(BUILD)/vectors/small-int8 >/dev/null; truncate -s 64M $(BUILD)/vectors/dram; \
	  for v in $(BUILD)/vectors/small-int8/*.vec; do $$cosim --dram $(BUILD)/vectors/dram --base 0x10000000 --play $$v; done'
weekly/configs-long:
	@.ci/once configs-long $(call configs,500)
weekly/gpu-long:
	@.ci/once gpu-long $(call gpu,10000,100,100000)
weekly/gpu-killed-long:
	@.ci/once gpu-killed-long $(call gpu-killed,3000)
weekly/mobilenetv2:
	@.ci/once mobilenetv2 bash -euc 'sim/build.sh mid; bin/sluice verify --config mid --network mobilenetv2 --segments=-1 --out out/weekly/mobilenetv2'
weekly/resnet50:
	@.ci/once resnet50 bash -euc 'sim/build.sh mid; bin/sluice verify --config mid --network resnet50 --segments=-1 --out out/weekly/resnet50'
weekly/inceptionv3:
	@.ci/once inceptionv3 bash -euc 'sim/build.sh mid; bin/sluice verify --config mid --network inceptionv3 --segments=-1 --out out/weekly/inceptionv3'
weekly/validate:
	@.ci/once validate bash -euc 'for c in run mid zc706; do sim/build.sh $$c --stub; done; bin/dse validate --seed $$(date +%s) --out out/weekly/validate.json'
weekly/bench-npu-full:
	@.ci/once bench-npu-full bash -euc 'sim/build.sh zc706; bin/dse bench-npu --config zc706 --batch 1 --full --out out/weekly/bench-npu-full'
weekly/exports:
	@.ci/once exports bash -euc 'go test ./dse/zoo -count 1 -run ^TestExports$$ -timeout 60m -args -full'
weekly/cross:
	@.ci/once cross make --no-print-directory cross SYSTEMS='windows/amd64 windows/arm64 darwin/amd64 darwin/arm64'
weekly/arm:
	@.ci/once arm make --no-print-directory test-arm test-arm64 EMULATED=
weekly/images:
	@.ci/once images bash -euc 'for b in zc706 zcu104; do boards/image/check.sh $$b --fresh; done'
weekly/gpu-breaks:
	@.ci/once gpu-breaks .ci/gpu-breaks
weekly/gpu-kills:
	@.ci/once gpu-kills go test ./host/gpu/cuda/kernels -timeout 2h -args -kills.n 1000000 -kills.seed 7
weekly/gpu-calls:
	@.ci/once gpu-calls go test ./host/gpu/cuda -run '^TestEveryCallFails$$' -timeout 4h -args -cuda.every
weekly/bench-gpu:
	@.ci/once bench-gpu bash -euc 'go test ./host/experiments/disb -run Foretold -timeout 1h -args -disb.whole; bin/sluice reproduce reef --time 16ms --seeds 1 --vary --out out/weekly; bin/sluice reproduce seeb --time 8s --seeds 1 --vary --out out/weekly'
weekly/strait-long:
	@.ci/once strait-long bash -euc '$(call strait-tests,100000,1000); bin/sluice reproduce strait --vary --time 700ms --seeds 1,2,3 --out out/weekly; bin/sluice bench compose --seeds 1,2,3,4,5 --out out/weekly/compose'
weekly/jellyfish-long:
	@.ci/once jellyfish-long bash -euc '$(call jellyfish-tests,20000); bin/sluice reproduce jellyfish --vary --time 10s --seeds 1,2,3 --instances 1 --out out/weekly'
weekly/fuzz-long:
	@.ci/once fuzz-long .ci/fuzz 3m

# CNNs of torchvision and timm, compiled and compared with onnxruntime on photographs (dse/zoo/thirty.py).
ZOO30 := $(BUILD)/zoo30
$(ZOO30)/.set: dse/zoo/requirements-thirty.txt $(BUILD)/.apt
	@mkdir -p $(ZOO30)
	@$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends python3-torch python3-torchvision
	@/usr/bin/python3 -m venv --system-site-packages $(ZOO30)/venv
	@$(ZOO30)/venv/bin/pip install -q --disable-pip-version-check --no-deps -r $<
	@$(ZOO30)/venv/bin/pip download -q --disable-pip-version-check --no-deps -d $(ZOO30)/wheels scikit-image==0.24.0 scikit-learn==1.5.2
	@touch $@

.PHONY: zoo30
zoo30: setup build $(ZOO30)/.set ## CNNs of torchvision and timm against onnxruntime on photographs (an hour and a half, and 0.5 GB of packages)
	@$(ZOO30)/venv/bin/python -W ignore dse/zoo/thirty.py --wheels $(ZOO30)/wheels --work $(ZOO30)/work --part agree --check

$(BUILD)/pretrained/.set: dse/zoo/requirements-pretrained.txt $(ZOO30)/.set
	@mkdir -p $(BUILD)/pretrained
	@$(ZOO30)/venv/bin/pip download -q --disable-pip-version-check --no-deps -d $(BUILD)/pretrained/packages -r $<
	@touch $@

.PHONY: pretrained
pretrained: setup build $(BUILD)/pretrained/.set ## ONNX files that packages carry against onnxruntime (half an hour and 0.2 GB of packages)
	@$(ZOO30)/venv/bin/python -W ignore dse/zoo/pretrained.py --packages $(BUILD)/pretrained/packages --wheels $(ZOO30)/wheels --work $(BUILD)/pretrained/work

# An exported design is built and measured, and its figures are compared with the bands.
.PHONY: check-export
check-export: setup build ## builds what dse export writes (Verilator, yosys) and holds estimates to their bands
	@bin/dse export --board zc706 --point 128,6,40 --out out/export >/dev/null
	@bin/dse check out/export --seed $(SEED) --out out/export-check.json

.PHONY: clean
clean: ## removes what was built and measured (not the set-up)
	@rm -rf bin out $(BUILD)/cosim $(BUILD)/bench $(BUILD)/bundles $(BUILD)/syn $(BUILD)/netlist $(BUILD)/route $(BUILD)/mutants
