"""ZigZag on ResNet-18 and the reference array of the zc706: its latency, its CPU time and the layers it has.

    python3 -m venv build/peers && build/peers/bin/pip install -r dse/peers/requirements.txt
    build/peers/bin/python dse/peers/zigzag_resnet18.py
"""

import json
import logging
import os
import pathlib
import resource
import sys
import tempfile

import zigzag
from zigzag.api import get_hardware_performance_zigzag

here = pathlib.Path(__file__).parent
network = pathlib.Path(zigzag.__file__).parent / "inputs/workload/resnet18.onnx"
logging.disable(logging.INFO)
folder = tempfile.mkdtemp()
os.chdir(folder)
energy, latency, layers = get_hardware_performance_zigzag(
    str(network), str(here.resolve() / "zc706.yaml"), str(here.resolve() / "mapping.yaml"),
    opt="latency", dump_folder=folder, pickle_filename=folder + "/cmes.pickle", loma_show_progress_bar=False,
    lpf_limit=int(sys.argv[1]) if len(sys.argv) > 1 else 6,
)
own = [c for c, _ in layers[0][1]] if layers and isinstance(layers[0], tuple) and isinstance(layers[0][1], list) else layers
usage = resource.getrusage(resource.RUSAGE_SELF)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
rows = []
for c in own:
    layer = getattr(c, "layer", None)
    if layer is not None:
        rows.append({"layer": layer.name, "type": layer.type, "cycles": int(c.latency_total2), "utilisation": float(c.mac_utilization2)})
print(json.dumps({
    "cycles": latency, "energy": energy, "cpu_s": round(usage.ru_utime + usage.ru_stime + children.ru_utime + children.ru_stime, 1),
    "layers": len(rows), "rows": rows,
}, indent=1))
