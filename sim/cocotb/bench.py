#!/usr/bin/env python3
"""The NPU as a block design has it, between an AXI4-Lite master and AXI memories that nobody here wrote.

    sim/cocotb/bench.py BOARD CONFIG [--seed N] [--n N] [--quiet 0|1]

Generates the board's top of the configuration (boards/ip) and test vectors (dse vectors), builds the top with
Verilator, and plays the vectors through cocotb with cocotbext-axi: every channel of every port pauses at random.
Status 1 where a vector, or a rule that npu_test.py looks at, does not hold; 5 where a tool is missing.
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(prog="sim/cocotb/bench.py", description=__doc__.split("\n")[0])
    parser.add_argument("board")
    parser.add_argument("config")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=3, help="networks")
    parser.add_argument("--macs", type=int, default=4000, help="most MACs of a network")
    parser.add_argument("--quiet", type=int, choices=(0, 1), default=1, help="the top's parameter QUIET")
    args = parser.parse_args()
    for tool in ("verilator", "go", "g++"):
        if shutil.which(tool) is None:
            print(f"sim/cocotb/bench.py: {tool} is missing: install the package {tool}", file=sys.stderr)
            return 5
    try:
        from cocotb.runner import get_results, get_runner
        import cocotbext.axi  # noqa: F401
    except ImportError as error:
        print(f"sim/cocotb/bench.py: {error}: make setup (sim/requirements.txt)", file=sys.stderr)
        return 5

    os.chdir(root)
    out = root / "build" / "cocotb" / f"{args.board}-{args.config}-{args.quiet}"
    made = out / "ip"
    run(["go", "run", "./boards/ip/cmd/boardip", "-board", args.board, "-config", args.config, "-out", str(made)])
    (top,) = made.glob("*.v")
    vectors = out / "vectors"
    shutil.rmtree(vectors, ignore_errors=True)
    run(["go", "run", "./dse/cmd/dse", "vectors", "--config", args.config, "--n", str(args.n), "--seed", str(args.seed),
         "--max-macs", str(args.macs), "--out", str(vectors)])

    sources = [root / line for line in (root / "hw/rtl/files.f").read_text().split("\n") if line.startswith("hw/")]
    sources += [root / "hw/xilinx/mac_chain_dsp48e2.sv", root / "sim/cells/dsp48e2.v", top]
    digest = hashlib.sha256()
    for source in [*sources, pathlib.Path(__file__)]:
        digest.update(source.read_bytes())
    stamp = out / "hash"
    runner = get_runner("verilator")
    fresh = stamp.exists() and stamp.read_text() == digest.hexdigest()
    with open(out / "build.log", "a" if fresh else "w") as log:
        stdout = os.dup(1)
        os.dup2(log.fileno(), 1)  # the runner prints every command
        try:
            runner.build(verilog_sources=sources, hdl_toplevel=top.stem, build_dir=out / "sim", always=not fresh,
                         parameters={"QUIET": args.quiet},
                         build_args=["-Wno-fatal", "-O3", "-CFLAGS", "-O1", "--no-timing", "-j", "2"])
        except SystemExit:
            os.dup2(stdout, 1)
            print((out / "build.log").read_text()[-4000:], file=sys.stderr)
            return 1
        finally:
            os.dup2(stdout, 1)
    stamp.write_text(digest.hexdigest())

    with open(out / "run.log", "w") as log:
        stdout = os.dup(1)
        stderr = os.dup(2)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            results = runner.test(
                hdl_toplevel=top.stem, test_module="npu_test", build_dir=out / "sim", test_dir=root / "sim/cocotb",
                results_xml=str(out / "results.xml"), seed=args.seed,
                extra_env={"VECTORS": str(vectors), "QUIET": str(args.quiet), "PYTHONPATH": str(root / "sim/cocotb")})
            tests, failed = get_results(results)
        except SystemExit:
            tests, failed = 0, 1
        finally:
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
    said = (out / "run.log").read_text()
    for line in said.split("\n"):
        if "cocotb: " in line:
            print(line[line.index("cocotb: "):])
    if failed or tests == 0:
        print(said[-3000:], file=sys.stderr)
        print(f"cocotb: {args.board} {args.config}: {failed} of {tests} tests FAILED (seed {args.seed})", file=sys.stderr)
        return 1
    return 0


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        sys.exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
