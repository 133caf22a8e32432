# The same shapes by cuBLAS and cuDNN, through torch: torch_compare.py RUNS.csv.gz SECONDS reads the part "layers" of
# sluice bench gpu. Each product or convolution of one image runs in fp32 and bf16, eight in a row in a CUDA graph, so
# that the host's time is not in it; the median of ten. Ours are of int16 with sums of 64 bits.
import csv
import statistics
import sys
import time

import torch

end = time.time() + float(sys.argv[2])
dev = torch.device("cuda")
torch.backends.cudnn.benchmark = True
out = csv.writer(sys.stdout)
out.writerow(["network", "layer", "kind", "type", "ns", "macs"])


def timed(f, n=10):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(8):
            f()
    g.replay()
    torch.cuda.synchronize()
    all = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        g.replay()
        b.record()
        b.synchronize()
        all.append(a.elapsed_time(b) * 1e6 / 8)
    return statistics.median(all)


import gzip
import re

shape = re.compile(r"layers,(\S+) (\d+) (\w+) in=(\d+)x(\d+)x(\d+) k=(\d+)x(\d+) s=(\d+)x(\d+) out=(\d+)x(\d+)x(\d+) blocks=(\d+),ns,(.*)")
seen = {}
for line in gzip.open(sys.argv[1], "rt"):
    m = shape.match(line.strip())
    if not m or m[3] != "gemm":
        continue
    ih, iw, ic, kh, kw, sh, sw, oh, ow, oc = map(int, m.groups()[3:13])
    macs = oh * ow * oc * kh * kw * ic
    ours = statistics.median(map(int, m[15].split(",")))
    out.writerow([m[1], m[2], "sluice", "int16", round(ours), macs])
    key = (ih, iw, ic, kh, kw, sh, sw, oh, ow, oc)
    if key not in seen and time.time() < end:
        seen[key] = []
        with torch.no_grad():
            for name, t in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
                try:
                    if (kh, kw) == (ih, iw) or oh * ow == 1:
                        kind, x, w = "cublas", torch.randn(1, kh * kw * ic, device=dev, dtype=t), torch.randn(kh * kw * ic, oc, device=dev, dtype=t)
                        f = lambda x=x, w=w: torch.mm(x, w)
                    else:
                        kind = "cudnn"
                        x = torch.randn(1, ic, ih, iw, device=dev, dtype=t).to(memory_format=torch.channels_last)
                        w = torch.randn(oc, ic, kh, kw, device=dev, dtype=t).to(memory_format=torch.channels_last)
                        f = lambda x=x, w=w: torch.nn.functional.conv2d(x, w, None, (sh, sw), (kh // 2, kw // 2))
                    seen[key].append((kind, name, timed(f)))
                    if kind == "cudnn" and kh == kw == sh == sw == 1:  # the same product by cuBLAS
                        a, b = torch.randn(ih * iw, ic, device=dev, dtype=t), torch.randn(ic, oc, device=dev, dtype=t)
                        seen[key].append(("cublas", name, timed(lambda: torch.mm(a, b))))
                except Exception as e:
                    seen[key].append((kind, name + " " + type(e).__name__, 0))
    for kind, name, ns in seen.get(key, []):
        out.writerow([m[1], m[2], kind, name, round(ns), macs])
    sys.stdout.flush()
print("#", torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), torch.cuda.get_device_name(0), file=sys.stderr)
