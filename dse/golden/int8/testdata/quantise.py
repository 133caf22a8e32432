#!/usr/bin/env python3
"""Make fashion-qdq.onnx: the zoo's network as onnxruntime's quantiser writes it. Needs onnx 1.16.2 and onnxruntime 1.19.2."""

import gzip
import sys

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

source, images, out = sys.argv[1:]
pixels = np.frombuffer(gzip.open(images).read(), np.uint8, offset=16)[: 512 * 784].reshape(512, 1, 28, 28)


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.parts = iter(np.split(pixels.astype(np.float32) / np.float32(255), 8))

    def get_next(self):
        part = next(self.parts, None)
        return None if part is None else {"input": part}


quant_pre_process(source, out + ".pre")
quantize_static(out + ".pre", out, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
