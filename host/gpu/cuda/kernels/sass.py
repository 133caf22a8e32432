"""Counts what kernels.ptx costs as machine code: sass.py PTXAS NVDISASM [ARCH...]. PyPI has both tools
(nvidia-cuda-nvcc-cu12, nvidia-cuda-nvdisasm); no GPU is needed. A step is what a thread runs of DEPTH products of each
of its four outputs, while it loads the next step's operands: the fewest instructions from one barrier behind a product
to the next that pass a load of 128 bits and no load of 16."""

import heapq
import pathlib
import re
import subprocess
import sys
import tempfile

PRODUCTS = 4 * 64  # of a thread and step
ptxas, nvdisasm, *archs = sys.argv[1:]
ptx = pathlib.Path(__file__).parent / "kernels.ptx"


def way(code, labels, start, end, avoid):
    """The fewest instructions from one to another, without the first."""
    far, todo = {start: 0}, [(0, start)]
    while todo:
        d, i = heapq.heappop(todo)
        if i == end and d:
            return d
        branch = re.search(r"\bBRA\b.*?(\.L_\w+)", code[i])
        to = [labels[branch[1]]] if branch else []
        if not (branch or "EXIT" in code[i]) or code[i].startswith("@") or "BRA P" in code[i] or "BRA !P" in code[i]:
            to.append(i + 1)
        for n in to:
            if n < len(code) and (n == end or not re.search(avoid, code[n])) and (n not in far or d + 1 < far[n] or n == end):
                far[n] = d + 1
                heapq.heappush(todo, (d + 1, n))
    return None


for arch in archs or ["sm_80", "sm_90"]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        said = subprocess.run([ptxas, "-v", f"-arch={arch}", str(ptx), "-o", out.name], check=True, capture_output=True, text=True).stderr
        text = subprocess.run([nvdisasm, "-c", out.name], check=True, capture_output=True, text=True).stdout
    for entry in ("sluice_layer", "sluice_padded"):
        about = said.split(f"entry function '{entry}'")[1]
        spills, registers = re.search(r"(\d+) bytes spill stores", about)[1], re.search(r"Used (\d+) registers", about)[1]
        body = re.search(rf"\n\.text\.{entry}:\n(.*?)(?:\n\.section|\Z)", text, re.S)[1]
        code, labels = [], {}
        for line in body.split("\n"):
            if label := re.match(r"\s*(\.L_\w+):", line):
                labels[label[1]] = len(code)
            elif word := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
                code.append(re.sub(r"\s+", " ", word[1]))
        print(f"{arch} {entry}: {registers} registers, {spills} bytes spilt", end="")
        syncs = [i for i, x in enumerate(code) if "BAR.SYNC" in x]
        pairs = [(i, k) for i, k in zip(syncs, syncs[1:]) if any("IMMA" in x for x in code[i:k])]
        if len(pairs) != 1:
            print(f", {len(pairs)} products: not counted")
            continue
        (before, behind), narrow = pairs[0], r"LDG\.E\.U16|BAR\.RED"
        through = [(way(code, labels, behind, i, narrow), way(code, labels, i, before, narrow)) for i, x in enumerate(code) if "LDG.E.128" in x]
        step = max(a + b for a, b in through if a and b) + behind - before
        votes = [(way(code, labels, behind, i, "U16"), way(code, labels, i, before, "U16")) for i, x in enumerate(code) if "BAR.RED" in x]
        look = [a + b - way(code, labels, behind, before, narrow) for a, b in votes if a and b]
        tensor = sum("IMMA" in x for x in code[before:behind])
        print(f", {step} instructions a step ({tensor} of tensor cores), "
              f"{step / PRODUCTS:.2f} a product, {min(look)} a look")
