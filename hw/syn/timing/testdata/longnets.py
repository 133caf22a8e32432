#!/usr/bin/env python3
"""The long nets of Vivado's timing reports, for longnets.txt: longnets.py GRADE SOURCE REPORT.rpt

Prints each routed net between two slices that are 20 and more CLBs apart, once: grade, columns, rows, fan-out, ns, source.
Only paths of setup and recovery between registers count: those of hold are at the fast corner.
"""
import re
import sys

grade, source, report = sys.argv[1:]
site = re.compile(r"^\s{2,6}(\w+_X\d+Y\d+)\s+\S+")
routed = re.compile(r"^\s+net \(fo=(\d+), routed\)\s+([\d.]+)")
slices_a_column = 2 if grade == "k7-2" else 1
kind, lines, at, net, seen = None, 0, None, None, set()
for line in open(report, errors="replace"):
    if m := re.search(r"Path Type:\s+(\S+)", line):
        kind, lines = m[1], 0
    elif re.match(r"\s+-{20,}", line):
        lines, at, net = lines + 1, None, None  # behind the second the data path begins, behind the third the capture clock
    elif kind in ("Setup", "Recovery") and lines == 2:
        if m := routed.match(line):
            net = int(m[1]), float(m[2])
        elif m := site.match(line):
            to = re.match(r"SLICE_X(\d+)Y(\d+)$", m[1])
            to = to and (int(to[1]) // slices_a_column, int(to[2]))
            if at and to and net:
                apart = abs(at[0] - to[0]), abs(at[1] - to[1])
                if sum(apart) >= 20:
                    seen.add((*apart, net[0], round(net[1], 1)))
            at, net = to, None
for row in sorted(seen):
    print(grade, *row, source)
