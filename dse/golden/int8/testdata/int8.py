#!/usr/bin/env python3
"""Run quantised models in onnxruntime, each in a folder: model, raw, job. Write tensors of them as float64.

A job names the kernels, integer (QLinear operators) or float (each operator in float32 between the file's roundings),
the input's shape and the tensors.

The inputs are little-endian float32, NCHW. The output has each tensor in turn: uint8, int8 and float32 alike.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime



def field(number: int, content: bytes) -> bytes:
    size, varint = len(content), b""
    while size > 127:
        varint += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([size]) + content


for job in map(Path, sys.argv[1:]):
    kernels, shape, names = (job / "job").read_text().split("\n")
    names = names.split(",")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if kernels == "float":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = (job / "model").read_bytes() + b"".join(field(7, field(12, field(1, n.encode()))) for n in dict.fromkeys(names))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    x = np.fromfile(job / "raw", "<f4").reshape([int(n) for n in shape.split(",")])
    with open(job / "out", "wb") as f:
        for tensor in session.run(names, {session.get_inputs()[0].name: x}):
            f.write(tensor.astype("<f8").tobytes())
