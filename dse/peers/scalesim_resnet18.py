"""SCALE-Sim on ResNet-18 and an array of the size of the zc706's reference design: cycles and CPU time.

It has convolutions and fully connected layers only, a systolic array, and whole words a cycle from the DRAM: 8
of 16 bits, where the zc706 has 15.3 bytes. Padding is part of the input.

    python3 -m venv build/scalesim && build/scalesim/bin/pip install -r dse/peers/requirements-scalesim.txt
    build/scalesim/bin/python dse/peers/scalesim_resnet18.py
"""

import csv
import json
import pathlib
import resource
import tempfile

from scalesim.scale_sim import scalesim

CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight : 7
ArrayWidth : 128
IfmapSramSzkB : 896
FilterSramSzkB : 128
OfmapSramSzkB : 512
IfmapOffset : 0
FilterOffset : 10000000
OfmapOffset : 20000000
Dataflow : ws
Bandwidth : 8
ReadRequestBuffer : 64
WriteRequestBuffer : 64
[layout]
IfmapCustomLayout : False
FilterCustomLayout : False
IfmapSRAMBankBandwidth : 10
IfmapSRAMBankNum : 10
IfmapSRAMBankPort : 2
FilterSRAMBankBandwidth : 10
FilterSRAMBankNum : 10
FilterSRAMBankPort : 2
[sparsity]
SparsitySupport : false
SparseRep : ellpack_block
OptimizedMapping : false
BlockSize : 8
RandomNumberGeneratorSeed : 40
[run_presets]
InterfaceBandwidth : USER
UseRamulatorTrace : False
"""


def layers():
    """ResNet-18: name, input side with padding, window, input and output channels, stride."""
    yield "conv1", 230, 7, 3, 64, 2
    side, channels = 56, 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            yield f"layer{stage + 1}.{block}.conv1", side + 2, 3, channels, width, stride
            if stride == 2:
                yield f"layer{stage + 1}.{block}.down", side, 1, channels, width, stride
                side //= 2
            yield f"layer{stage + 1}.{block}.conv2", side + 2, 3, width, width, 1
            channels = width
    yield "fc", 1, 1, 512, 1000, 1


folder = pathlib.Path(tempfile.mkdtemp())
(folder / "run.cfg").write_text(CONFIG)
with open(folder / "net.csv", "w") as f:
    f.write("Layer, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n")
    for name, side, window, inputs, outputs, stride in layers():
        f.write(f"{name}, {side}, {side}, {window}, {window}, {inputs}, {outputs}, {stride},\n")
with open(folder / "layout.csv", "w") as f:
    f.write("Layer,\n")
    for name, *_ in layers():
        f.write(f"{name}," + "1," * 24 + "\n")
s = scalesim(save_disk_space=True, verbose=False, config=str(folder / "run.cfg"), topology=str(folder / "net.csv"), layout=str(folder / "layout.csv"), input_type_gemm=False)
s.run_scale(top_path=str(folder))
with open(folder / "run" / "COMPUTE_REPORT.csv") as f:
    rows = [[c.strip() for c in r] for r in csv.reader(f)]
head = rows[0]
total = next(i for i, h in enumerate(head) if h.startswith("Total Cycles"))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "cycles": sum(float(r[total]) for r in rows[1:]), "layers": len(rows) - 1, "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
    "rows": [dict(zip(head, r)) for r in rows[1:]],
}, indent=1))
