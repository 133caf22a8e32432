#!/usr/bin/env python3
"""Reads the RTL as the standard has it (slang, by pyslang): hw/lint/slang.py FILE... -- TOP [NAME=VALUE...]

Names used before they are declared, implicit nets, widths and types that do not fit: what Verilator and yosys
let pass. Any error or warning is status 1. Files may be lists (-f style, *.f): a path a line, // comments.
"""
import sys

try:
    import pyslang
except ImportError:
    sys.exit("hw/lint/slang.py: pyslang is missing: make setup (sim/requirements.txt)")


def files(arguments):
    for a in arguments:
        if not a.endswith(".f"):
            yield a
            continue
        for line in open(a, encoding="utf-8"):
            line = line.split("//")[0].strip()
            if line:
                yield line


def main():
    if "--" not in sys.argv or sys.argv[-1] == "--":
        sys.exit(__doc__)
    cut = sys.argv.index("--")
    top, parameters = sys.argv[cut + 1], sys.argv[cut + 2:]
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    # a conditional $fatal is elaborated only if its condition holds
    command = ["slang", "--top", top, "-Werror", *("-G" + p for p in parameters), *files(sys.argv[1:cut])]
    if not driver.parseCommandLine(" ".join(command)) or not driver.processOptions() or not driver.parseAllSources():
        return 1
    return 0 if driver.runFullCompilation() else 1


sys.exit(main())
