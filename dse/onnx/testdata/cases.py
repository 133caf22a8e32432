#!/usr/bin/env python3
"""Write small ONNX models, one idea each, with what onnxruntime makes of a random input.

For each case: ops/NAME.onnx, and ops/NAME.bin with little-endian float32: the input (NCHW, one
sample), then each exit's logits in order of depth. Every map ends in a fully connected layer with
random weights, so that each of its elements counts.

    pip install onnx==1.16.2 onnxruntime==1.19.2 && python3 cases.py
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
CLASSES = 5


class Model:
    """A graph under construction; every method returns the name of its output."""

    def __init__(self, name: str, shape: list, opset: int = 13):
        self.name, self.shape, self.opset = name, shape, opset
        self.rng = np.random.default_rng(list(name.encode()))
        self.nodes, self.weights, self.count = [], [], 0
        self.outputs: list[str] = []

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def array(self, value, dtype=np.float32) -> str:
        name = self.fresh("w")
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int, scale: float = 0.5, dtype=np.float32) -> str:
        return self.array(self.rng.normal(0, scale, shape), dtype)

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        out = self.fresh(kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=out, **attributes))
        return out

    def conv(self, x: str, cin: int, cout: int, kh: int, kw: int, bias: bool = True, group: int = 1, **attributes) -> str:
        inputs = [x, self.random(cout, cin // group, kh, kw)]
        if bias:
            inputs.append(self.random(cout))
        return self.op("Conv", *inputs, group=group, **attributes)

    def norm(self, x: str, c: int) -> str:
        variance = self.array(self.rng.uniform(0.2, 3, c))
        return self.op("BatchNormalization", x, self.random(c), self.random(c), self.random(c), variance, epsilon=1e-3)

    def head(self, x: str, size: int) -> str:
        """A fully connected layer over everything there is: an exit."""
        y = self.op("Flatten", x, axis=1)
        y = self.op("Gemm", y, self.random(CLASSES, size, scale=0.2), self.random(CLASSES), transB=1)
        self.outputs.append(y)
        return y

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        for value in model.graph.output:  # the checker wants a type, not a shape
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        return model

    def write(self, exits: list[str] | None = None, outputs: list[str] | None = None) -> None:
        """exits: what is compared; outputs: what the file says, if that is something else."""
        exits = exits or self.outputs
        content = self.model(exits).SerializeToString()
        options = onnxruntime.SessionOptions()  # a Pad fused into an average pool is left out of the average
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in self.shape]
        sample = self.rng.uniform(-1, 1, shape[1:]).astype(np.float32)
        batch = np.broadcast_to(sample, shape)
        got = session.run(None, {"input": np.ascontiguousarray(batch)})
        parts = [sample.ravel()] + [np.asarray(g[0]).ravel() for g in got]
        (HERE / "ops" / f"{self.name}.bin").write_bytes(np.concatenate(parts).astype("<f4").tobytes())
        if outputs:
            content = self.model(outputs).SerializeToString()
        (HERE / "ops" / f"{self.name}.onnx").write_bytes(content)


def convolutions() -> None:
    m = Model("conv_bn_relu", ["batch", 3, 9, 8])
    y = m.conv("input", 3, 6, 3, 4, bias=False, pads=[1, 2, 0, 1], strides=[2, 1])
    y = m.op("Relu", m.norm(y, 6))
    m.head(m.op("Relu", m.norm(m.conv(y, 6, 4, 3, 3), 4)), 4 * 2 * 6)
    m.write()

    m = Model("conv_1x7_7x1", [-1, 2, 10, 9])
    y = m.op("Relu", m.conv("input", 2, 5, 1, 7, pads=[0, 3, 0, 3]))
    y = m.op("Relu", m.conv(y, 5, 3, 7, 1, pads=[3, 0, 3, 0]))
    m.head(y, 3 * 10 * 9)
    m.write()

    m = Model("padding_beyond_kernel", ["batch", 3, 5, 4])
    y = m.op("Relu", m.conv("input", 3, 4, 1, 1, pads=[1, 1, 1, 1]))  # 7 x 6, as Caffe's SqueezeNet has it
    y = m.op("Relu", m.conv(y, 4, 6, 3, 2, pads=[0, 4, 5, 3], strides=[2, 1]))  # 5 x 12
    y = m.op("Relu", m.conv(y, 6, 6, 2, 3, group=3, pads=[3, 0, 2, 6], strides=[1, 3]))  # 9 x 6
    m.head(m.conv(y, 6, 4, 3, 3, pads=[4, 4, 4, 4], bias=False), 4 * 15 * 12)
    m.write()

    m = Model("groups", [1, 4, 7, 7], opset=9)
    y = m.conv("input", 4, 8, 3, 3, group=2, pads=[1, 1, 1, 1])
    y = m.op("Clip", m.norm(y, 8), min=0.0, max=1.5)
    y = m.op("Clip", m.conv(y, 8, 8, 3, 3, group=8, strides=[2, 2]), min=-0.5)
    y = m.conv(y, 8, 16, 2, 2, group=8)  # depthwise with a multiplier of two
    m.head(y, 16 * 2 * 2)
    m.write()

    for mode in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        m = Model("auto_" + mode.lower(), [1, 2, 13, 11])
        y = m.conv("input", 2, 4, 4, 3, auto_pad=mode, strides=[2, 3])
        y = m.op("MaxPool", y, kernel_shape=[2, 2], auto_pad=mode, strides=[2, 1])
        y = m.op("AveragePool", y, kernel_shape=[2, 1], auto_pad=mode)
        m.head(y, {"VALID": 4 * 1 * 2}.get(mode, 4 * 4 * 4))
        m.write()

    m = Model("norm_first", [1, 3, 6, 6])
    y = m.norm("input", 3)  # behind it padding: becomes depthwise
    y = m.conv(y, 3, 4, 3, 3, pads=[1, 1, 1, 1])
    y = m.norm(m.op("Relu", y), 4)  # without padding: goes into the next convolution
    y = m.conv(y, 4, 6, 3, 3, group=2)
    y = m.op("Relu", m.norm(m.op("Relu", y), 6))
    m.head(m.conv(y, 6, 4, 1, 1), 4 * 4 * 4)
    m.write()


def pads() -> None:
    m = Model("pad_conv", [1, 2, 7, 6])
    pads = m.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64)
    y = m.conv(m.op("Pad", "input", pads), 2, 4, 3, 3, pads=[1, 1, 0, 1], strides=[2, 2])
    y = m.op("Relu", y)  # 5 x 4
    pads = m.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    y = m.op("MaxPool", m.op("Pad", y, pads, m.array(0.0)), kernel_shape=[3, 3], strides=[2, 2])  # 3 x 2
    y = m.conv(y, 4, 3, 1, 1)
    y = m.op("MaxPool", m.op("Pad", y, pads, m.array(-np.inf)), kernel_shape=[2, 2])  # 4 x 3
    y = m.op("AveragePool", m.op("Pad", y, pads), kernel_shape=[3, 3], strides=[1, 2])  # 4 x 2
    m.head(y, 3 * 4 * 2)
    m.write()

    m = Model("pad_attribute", [1, 2, 5, 5], opset=7)
    y = m.op("Pad", "input", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    m.head(m.conv(m.op("Pad", y, pads=[0, 0, 0, 1, 0, 0, 0, 0]), 2, 3, 3, 3), 3 * 5 * 6)
    m.write()


def pools() -> None:
    for name, attributes, h, w in [
        ("floor", {"strides": [2, 2]}, 4, 4),
        ("ceil", {"strides": [2, 2], "ceil_mode": 1}, 5, 4),
        ("ceil_pad", {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}, 6, 5),
        ("ceil_border", {"strides": [3, 2], "ceil_mode": 1, "pads": [0, 1, 0, 0]}, 4, 5),
        ("asymmetric", {"strides": [1, 3], "pads": [0, 2, 1, 1]}, 9, 4),
    ]:
        m = Model("max_" + name, [1, 3, 10, 9])
        y = m.op("MaxPool", m.conv("input", 3, 4, 1, 1), kernel_shape=[3, 3], **attributes)
        m.head(y, 4 * h * w)
        m.write()
        for include in [0, 1]:
            if include and "ceil" in name:
                # A window over the border: this onnxruntime divides by the whole kernel, PyTorch and
                # later versions by what lies on pixels and padding (onnxruntime issue 16203).
                continue
            m = Model(f"avg_{name}_{include}", [1, 3, 10, 9])
            y = m.op("AveragePool", "input", kernel_shape=[3, 3], count_include_pad=include, **attributes)
            m.head(y, 3 * h * w)
            m.write()

    m = Model("global", [1, 4, 5, 7], opset=18)
    y = m.op("Relu", m.conv("input", 4, 6, 3, 3))
    a = m.op("GlobalAveragePool", y)
    b = m.op("GlobalMaxPool", y)
    c = m.op("ReduceMean", y, m.array([-1, 2], np.int64), keepdims=1)
    d = m.op("ReduceMean", y, m.array([2, 3], np.int64), keepdims=0)
    d = m.op("Unsqueeze", d, m.array([2, 3], np.int64))
    y = m.op("Concat", a, b, c, d, axis=1)
    y = m.op("Squeeze", y, m.array([2, 3], np.int64))
    y = m.op("Gemm", y, m.random(24, 5), transB=0)
    m.write([y])

    m = Model("reduce_attribute", [1, 4, 5, 7])
    y = m.op("ReduceMean", m.conv("input", 4, 6, 3, 3), axes=[2, 3], keepdims=0)
    m.head(y, 6)
    m.write()


def additions() -> None:
    m = Model("residual", [1, 3, 6, 6])
    x = m.op("Relu", m.conv("input", 3, 4, 3, 3))
    y = m.conv(m.op("Relu", m.conv(x, 4, 4, 3, 3, pads=[1] * 4)), 4, 4, 3, 3, pads=[1] * 4)
    y = m.op("Relu", m.op("Add", m.norm(y, 4), x))
    z = m.op("Relu", m.op("Add", m.conv(y, 4, 8, 1, 1, strides=[2, 2]), m.conv(y, 4, 8, 2, 2, strides=[2, 2])))
    m.head(z, 8 * 2 * 2)
    m.write()

    m = Model("unfusable", [1, 3, 4, 4])
    a = m.op("Relu", m.conv("input", 3, 4, 1, 1))
    b = m.op("Relu", m.conv("input", 3, 4, 1, 1))
    c = m.op("Clip", m.op("Add", a, b), m.array(0.1), m.array(0.9))
    d = m.op("Add", c, c)
    e = m.conv(d, 4, 4, 1, 1)
    f = m.op("Add", m.op("Add", e, d), e)  # e has two readers
    m.head(m.op("Relu", m.op("MaxPool", f, kernel_shape=[2, 2])), 4 * 3 * 3)
    m.write()

    m = Model("branches", [1, 3, 7, 7])
    x = m.op("Relu", m.conv("input", 3, 4, 3, 3, pads=[1] * 4))
    y = m.op("Add", m.op("Add", m.conv(x, 4, 4, 3, 3, pads=[1] * 4), m.conv(x, 4, 4, 1, 1)), m.norm(x, 4))  # one
    x = m.op("Relu", y)
    y = m.op("Add", m.norm(x, 4), m.conv(x, 4, 4, 1, 1, group=4))
    y = m.op("Relu", m.op("Add", m.conv(x, 4, 4, 3, 3, group=2, pads=[1] * 4), y))  # one
    x = m.op("Add", m.op("Add", m.conv(y, 4, 4, 1, 3, pads=[0, 1, 0, 1]), y), m.conv(y, 4, 4, 1, 1))  # one, with a residual
    y = m.op("Add", m.conv(x, 4, 4, 1, 3, pads=[0, 1, 0, 1]), m.conv(x, 4, 4, 3, 1, pads=[1, 0, 1, 0]))  # would be larger
    z = m.op("Add", m.conv(y, 4, 8, 1, 1, strides=[2, 2]), m.conv(y, 4, 8, 3, 3, strides=[2, 2], pads=[1] * 4))  # one
    z = m.op("Mul", z, m.array(0.02))
    e = m.conv(z, 8, 4, 1, 1)
    f = m.op("Add", m.op("Add", e, m.conv(z, 8, 4, 1, 1)), e)  # e has two readers
    m.head(m.op("Relu", m.op("Add", f, m.op("Relu", m.conv(z, 8, 4, 1, 1)))), 4 * 4 * 4)  # clamped
    m.write()

    m = Model("constants", [1, 3, 4, 4])
    y = m.op("Add", m.conv("input", 3, 4, 1, 1), m.random(1, 4, 1, 1))
    y = m.op("Relu", m.op("Add", m.random(4, 1, 1), y))
    y = m.op("Add", y, m.array(0.25))
    m.head(y, 4 * 4 * 4)
    m.write()


    m = Model("arithmetic", [1, 3, 5, 5])
    y = m.op("Div", m.op("Sub", "input", m.random(1, 3, 1, 1)), m.array([[[0.3]], [[-0.7]], [[2]]]))
    y = m.op("Relu", m.conv(y, 3, 4, 3, 3))  # both go into it
    y = m.op("Sub", m.array(0.5), m.op("Mul", m.random(4, 1, 1), m.op("Mul", y, m.array(1.5))))
    y = m.conv(y, 4, 4, 3, 3, pads=[1] * 4)  # behind padding: none does
    m.head(y, 4 * 3 * 3)
    m.write()

    m = Model("channels", [1, 3, 6, 6])
    parts = []
    for i, at in enumerate([0, 1, -1]):
        x = m.op("Unsqueeze", m.op("Gather", "input", m.array(at, np.int64), axis=1), m.array([1], np.int64))
        x = m.op("Add", m.op("Mul", x, m.array(0.5 + i)), m.array(-0.25 * i))
        parts.append(m.op("Mul", x, m.random(1, 1, 1)))
    y = m.op("Concat", *parts, axis=1)
    y = m.op("MaxPool", m.conv(y, 3, 4, 3, 3, pads=[1] * 4), kernel_shape=[2, 2], strides=[2, 2])
    y = m.op("AveragePool", y, kernel_shape=[1, 1], strides=[1, 1], count_include_pad=1)
    m.head(y, 4 * 3 * 3)
    m.write()


def joins() -> None:
    m = Model("dense", [1, 3, 6, 6])
    maps = [m.op("Relu", m.conv("input", 3, 4, 1, 1)), m.op("MaxPool", "input", kernel_shape=[1, 3], pads=[0, 1, 0, 1])]
    maps[1] = m.op("Relu", m.conv(maps[1], 3, 2, 1, 1))
    for i in range(3):
        y = m.op("Relu", m.norm(m.op("Concat", *maps, axis=1), 6 + 3 * i))
        maps.append(m.conv(y, 6 + 3 * i, 3, 3, 3, pads=[1] * 4))
    y = m.op("Concat", *maps, axis=1)
    z = m.op("Concat", maps[0], maps[2], axis=1)  # begins alike, but is none of them
    x = m.op("Concat", maps[0], maps[1], maps[3], axis=1)  # nor is this
    m.head(m.op("Concat", y, z, x, axis=1), (15 + 7 + 9) * 6 * 6)
    m.write()

    m = Model("concat", [1, 3, 6, 6])
    a, b = m.conv("input", 3, 4, 1, 1), m.conv("input", 3, 2, 3, 3, pads=[1] * 4)
    y = m.op("Relu", m.op("Concat", a, b, axis=1))  # goes into both
    z = m.op("Concat", m.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2]), m.conv(y, 6, 3, 3, 3, strides=[2, 2]), axis=-3)
    z = m.op("Relu", m.norm(z, 9))  # into neither
    m.head(z, 9 * 2 * 2)
    m.write()

    m = Model("exits", ["N", 2, 6, 6])
    y = m.op("Relu", m.conv("input", 2, 4, 3, 3))
    first = m.head(m.op("Relu", m.conv(y, 4, 6, 2, 2)), 6 * 3 * 3)
    y = m.op("Relu", m.conv(y, 4, 4, 2, 2))
    second = m.head(y, 4 * 3 * 3)
    y = m.conv(y, 4, 4, 3, 3, pads=[1] * 4)
    third = m.head(y, 4 * 3 * 3)
    m.write([first, second, third], [third, first, second])


def connected() -> None:
    m = Model("gemm", [4, 3, 4, 2])
    y = m.op("Gemm", m.op("Flatten", "input"), m.random(7, 24), m.random(1, 7), transB=1, alpha=0.5, beta=2.0)
    y = m.op("Relu", m.norm(y, 7))
    y = m.op("Gemm", y, m.random(7, 6), m.array(0.5))
    y = m.op("Add", m.op("MatMul", m.op("Dropout", y), m.random(6, 5)), m.random(5))
    m.write([y])

    m = Model("reshape", ["batch", 3, 4, 2])
    y = m.op("Identity", m.op("Reshape", "input", m.array([0, -1], np.int64)))
    y = m.op("MatMul", y, m.random(24, 6))
    y = m.op("Reshape", y, m.array([-1, 6, 1, 1], np.int64))
    y = m.op("Relu", m.conv(y, 6, 4, 1, 1))
    y = m.op("Reshape", y, m.array([-1, 4], np.int64))
    y = m.op("Gemm", y, m.random(5, 4), transB=1)
    m.write([y], [m.op("Softmax", y)])

    m = Model("reshape_allowzero", [1, 3, 4, 2], opset=18)
    y = m.op("Reshape", m.op("Relu", "input"), m.array([1, 24], np.int64), allowzero=1)
    m.write([m.op("Gemm", y, m.random(5, 24), transB=1)])

    m = Model("reshape_shape", ["batch", 3, 4, 2])
    n = m.op("Gather", m.op("Shape", "input"), m.array(0, np.int64), axis=0)
    minus = m.op("Constant", value=numpy_helper.from_array(np.asarray([-1], np.int64)))
    target = m.op("Concat", m.op("Unsqueeze", n, m.array([0], np.int64)), minus, axis=0)
    y = m.op("Reshape", "input", m.op("Cast", target, to=TensorProto.INT64))
    y = m.op("Gemm", y, m.random(5, 24), transB=1)
    m.write([y])

    m = Model("vector", ["batch", 6])
    y = m.op("Clip", m.op("MatMul", "input", m.random(6, 8)), "", m.array(0.75))
    z = m.op("MatMul", y, m.random(8, 8))
    y = m.op("Relu", m.op("Add", y, z))
    m.write([m.op("Gemm", y, m.random(8, 3))])


def activations() -> None:
    """What an output makes of its logits is left to the host."""
    m = Model("sigmoid", [1, 3, 5, 5])
    y = m.op("Relu", m.conv("input", 3, 4, 3, 3))
    z = m.conv(y, 4, 1, 3, 3)  # one logit
    m.write([m.op("Flatten", z), m.head(y, 4 * 3 * 3)], [m.op("Sigmoid", m.op("Flatten", z)), m.op("Sigmoid", m.outputs[0])])

    m = Model("log_softmax", [1, 3, 5, 5])  # as PyTorch's examples end, and what looks at logits in another way behind it
    y = m.op("GlobalAveragePool", m.conv("input", 3, 6, 3, 3))
    z = m.op("GlobalMaxPool", m.conv("input", 3, 4, 3, 3))
    seen = m.op("Flatten", m.op("LogSoftmax", y, axis=1))
    m.write([z, m.op("Flatten", y)], [seen, m.op("Reshape", m.op("Softmax", m.op("Squeeze", z, m.array([2, 3], np.int64)), axis=-1), m.array([1, 4, 1, 1], np.int64))])


def ends() -> None:
    """What may stand behind a Sigmoid before an output: what the file itself answers is compared."""
    def whole(m: Model, *values: int) -> str:
        return m.array(values, np.int64)

    forms = {
        "identity": lambda m, p, h: m.op("Identity", m.op("Dropout", p)),
        "cast": lambda m, p, h: m.op("Cast", m.op("Cast", p, to=TensorProto.DOUBLE), to=TensorProto.FLOAT),
        "squeeze": lambda m, p, h: m.op("Squeeze", m.op("Sigmoid", m.op("Gemm", h, m.random(6, 1))), whole(m, 1)),
        "reshape": lambda m, p, h: m.op("Flatten", m.op("Reshape", p, whole(m, -1, 2, 2))),
        "transpose": lambda m, p, h: m.op("Transpose", m.op("Unsqueeze", p, whole(m, 2, 3)), perm=[0, 2, 3, 1]),
        "clip": lambda m, p, h: m.op("Clip", p, m.array(1e-7), m.array(1.0)),
        "softmax_clip": lambda m, p, h: m.op("Clip", m.op("Softmax", h, axis=1), m.array(1e-7), m.array(1.0)),
        "slice": lambda m, p, h: m.op("Slice", p, whole(m, 1), whole(m, 3), whole(m, 1)),
        "slice_all": lambda m, p, h: m.op("Slice", p, whole(m, 0), whole(m, 99), whole(m, 1)),
        "gather": lambda m, p, h: m.op("Gather", p, whole(m, 3, 0, 1), axis=1),
        "gather_one": lambda m, p, h: m.op("Gather", m.op("Unsqueeze", p, whole(m, 2, 3)), m.array(2, np.int64), axis=1),
        "concat": lambda m, p, h: m.op("Concat", *[m.op("Sigmoid", m.op("Gemm", h, m.random(6, 1))) for _ in range(3)], p, axis=1),
        "complement": lambda m, p, h: m.op("Sub", m.array(1.0), p),
        "both": lambda m, p, h: m.op("Concat", m.op("Sub", m.array([1.0]), p), p, axis=1),
        "hard": lambda m, p, h: m.op("HardSigmoid", h),
        "hard_seen": lambda m, p, h: m.op("Sub", m.array(1.0), m.op("Reshape", m.op("HardSigmoid", h, alpha=1 / 6), whole(m, 1, 3, 2))),
        "map": lambda m, p, h: m.op("Transpose", m.op("Concat", *[m.op("Sigmoid", m.conv("input", 3, n, 3, 3)) for n in (1, 2)], axis=1), perm=[0, 2, 3, 1]),
    }
    post = {
        "scaled": lambda m, p, h: m.op("Mul", p, m.array(0.25)),
        "two_minus": lambda m, p, h: m.op("Sub", m.array(2.0), p),
        "clip": lambda m, p, h: m.op("Clip", p, m.array(0.4), m.array(0.6)),
        "mixed": lambda m, p, h: m.op("Concat", p, h, m.op("Identity", p), m.op("HardSigmoid", h), axis=1),
        "hard": lambda m, p, h: m.op("Concat", m.op("HardSigmoid", h), m.op("Tanh", p), axis=1),
        "gate": lambda m, p, h: m.op("Gemm", m.op("Mul", p, m.op("Gemm", h, m.random(6, 4))), m.random(4, 3)),
    }
    for prefix, table in (("ends_", forms), ("post_ends_", post)):
        for name, form in table.items():
            m = Model(prefix + name, [1, 3, 5, 5])
            h = m.op("Gemm", m.op("Flatten", m.conv("input", 3, 2, 3, 3)), m.random(18, 6))
            p = m.op("Sigmoid", m.op("Gemm", h, m.random(6, 4)))
            y = form(m, p, h)
            m.write([m.op("Identity", p), y] if name == "gate" else [y])


def functions() -> None:
    """What only designs with post run: functions, written as exporters do, and products of two maps."""
    m = Model("post_functions", [1, 3, 6, 6], opset=14)
    y = m.conv("input", 3, 4, 3, 3)
    for kind, attributes in [("Sigmoid", {}), ("Tanh", {}), ("Erf", {}), ("Elu", {"alpha": 0.7}), ("Selu", {}), ("Selu", {"alpha": 0.5, "gamma": 1.5}),
                             ("Celu", {"alpha": 0.4}), ("Softplus", {}), ("Softsign", {}), ("HardSwish", {})]:
        y = m.op(kind, m.conv(y, 4, 4, 1, 1), **attributes)
    m.head(y, 4 * 4 * 4)
    m.write()

    def composed(m: Model, x: str) -> list[str]:
        k = m.array
        half = m.op("Mul", m.op("Mul", x, m.op("Add", m.op("Erf", m.op("Div", x, k(2**0.5))), k(1.0))), k(0.5))
        cubed = m.op("Mul", m.op("Pow", x, k(3.0)), k(0.044715))
        tanh = m.op("Tanh", m.op("Mul", m.op("Add", x, cubed), k((2 / np.pi) ** 0.5)))
        return [
            m.op("Mul", x, m.op("Sigmoid", x)),
            m.op("Mul", m.op("HardSigmoid", x, alpha=1 / 6, beta=0.5), x),
            m.op("Mul", x, m.op("Div", m.op("Clip", m.op("Add", x, k(3.0)), k(0.0), k(6.0)), k(6.0))),
            m.op("Div", m.op("Mul", x, m.op("Clip", m.op("Add", x, k(3.0)), k(0.0), k(6.0))), k(6.0)),
            half,
            m.op("Mul", m.op("Mul", x, k(0.5)), m.op("Add", m.op("Erf", m.op("Mul", x, k(0.5**0.5))), k(1.0))),
            m.op("Mul", m.op("Mul", k(0.5), x), m.op("Add", k(1.0), tanh)),
            m.op("Mul", x, m.op("Tanh", m.op("Softplus", x))),
            m.op("Div", x, m.op("Add", m.op("Abs", x), k(1.0))),
            m.op("Mul", x, m.op("Sigmoid", m.op("Mul", x, k(1.702)))),
            m.op("Exp", m.op("Min", x, k(0.25))),
            m.op("Log", m.op("Add", m.op("Exp", m.op("Clip", x, k(-4.0), k(4.0))), k(1.0))),
            m.op("Sqrt", m.op("Add", m.op("Pow", x, k(2.0)), k(0.5))),
        ]

    m = Model("post_composed", [1, 3, 5, 5])
    maps = [m.op("Mul", m.conv(y, 4, 2, 1, 1), m.array(2.0)) for y in composed(m, m.conv("input", 3, 4, 3, 3))]
    m.head(m.op("Concat", *maps, axis=1), 2 * len(maps) * 3 * 3)
    m.write()

    m = Model("post_fused", [1, 3, 6, 6])  # each function alone behind a convolution, a sum, a pool and a concatenation
    y = "input"
    for i in range(13):
        y = m.conv(y, 3 if i == 0 else 4, 4, 1, 1)
        y = composed(m, y)[i]  # nothing reads the others
    y = m.op("Add", m.conv(y, 4, 4, 3, 3, pads=[1] * 4), y)
    y = m.op("Mul", y, m.op("Sigmoid", y))
    y = m.op("Tanh", m.op("MaxPool", y, kernel_shape=[2, 2]))
    a, b = m.conv(y, 4, 3, 1, 1), m.conv(y, 4, 2, 3, 3, pads=[1] * 4)
    y = m.op("Softplus", m.op("Concat", a, b, axis=1))
    y = m.op("Relu", m.norm(m.op("Tanh", m.op("Relu", m.conv(y, 5, 4, 1, 1))), 4))
    m.head(m.op("Clip", m.op("Sigmoid", m.conv(y, 4, 4, 1, 1)), m.array(0.3), m.array(0.6)), 4 * 5 * 5)
    m.write()

    m = Model("post_products", [1, 3, 6, 6])
    x = m.op("Relu", m.conv("input", 3, 4, 3, 3))
    gate = m.op("HardSigmoid", m.conv(m.op("Relu", m.conv(m.op("GlobalAveragePool", x), 4, 2, 1, 1)), 2, 4, 1, 1))
    y = m.op("Mul", gate, x)
    mean = m.op("ReduceMean", y, axes=[2, 3], keepdims=0)
    gate = m.op("Unsqueeze", m.op("Sigmoid", m.op("Gemm", mean, m.random(4, 4))), m.array([2, 3], np.int64))
    y = m.op("Mul", m.conv(y, 4, 4, 1, 1), gate)
    y = m.op("Relu", m.op("Mul", m.conv(y, 4, 4, 1, 1), m.conv(x, 4, 4, 1, 1)))
    y = m.norm(m.op("Mul", m.conv(y, 4, 4, 1, 1), y), 4)
    y = m.op("Pow", m.op("Transpose", y, perm=[0, 2, 3, 1]), m.array(2.0))
    y = m.op("Mul", y, m.op("Sigmoid", m.op("Transpose", x, perm=[0, 2, 3, 1])))
    m.head(y, 4 * 4 * 4)
    m.write()


def norms() -> None:
    """Norms over channels, as exporters write them, and other means over channels."""
    k = lambda m, v: m.array(v)
    last, first = [0, 2, 3, 1], [0, 3, 1, 2]

    def written(m: Model, x: str, axis: int, gain: str, shift: str) -> str:
        """Opsets before 17 have no operator for it."""
        d = m.op("Sub", x, m.op("ReduceMean", x, axes=[axis]))
        deviation = m.op("Sqrt", m.op("Add", m.op("ReduceMean", m.op("Pow", d, k(m, 2.0)), axes=[axis]), k(m, 1e-6)))
        return m.op("Add", m.op("Mul", m.op("Div", d, deviation), gain), shift)

    m = Model("post_norms", [1, 3, 5, 4], opset=17)
    x = m.conv("input", 3, 6, 3, 3, pads=[1] * 4)
    # ConvNeXt's block: channels last between depthwise convolution and residual, or written out, with channels first.
    y = m.op("LayerNormalization", m.op("Transpose", m.conv(x, 6, 6, 3, 3, group=6, pads=[1] * 4), perm=last), m.random(6), m.random(6), epsilon=1e-6)
    y = m.op("Add", m.op("MatMul", y, m.random(6, 8)), m.random(8))
    y = m.op("Mul", y, m.op("Sigmoid", y))
    y = m.op("Transpose", m.op("MatMul", y, m.random(8, 6)), perm=first)
    x = m.op("Add", m.op("Mul", y, m.random(6, 1, 1)), x)
    y = written(m, m.conv(x, 6, 6, 3, 3, group=6, pads=[1] * 4), 1, m.random(6, 1, 1), m.random(1, 6, 1, 1))
    x = m.op("Add", m.conv(y, 6, 6, 1, 1), x)
    y = written(m, m.op("Transpose", x, perm=last), 3, m.random(6), m.random(6))
    z = m.conv(m.op("Transpose", y, perm=first), 6, 7, 2, 2, strides=[2, 2])
    parts = [m.head(z, 7 * 2 * 2)]
    pooled = m.op("LayerNormalization", m.op("GlobalAveragePool", z), m.random(7, 1, 1), m.random(7, 1, 1), axis=1)
    parts.append(m.head(m.op("Add", pooled, k(m, 1.0)), 7))
    parts.append(m.head(m.op("LayerNormalization", m.op("Flatten", m.op("GlobalMaxPool", z)), m.random(7)), 7))
    m.write([functools.reduce(lambda a, b: m.op("Add", a, b), parts)])

    m = Model("post_norms_others", [1, 3, 4, 4])
    x, parts = m.conv("input", 3, 5, 3, 3, pads=[1] * 4), []
    # Tensorflow's: x * r + (shift - mean * r), r with the gain in it; a deviation that lost its axis; tokens; no mean.
    y = m.op("Transpose", x, perm=last)
    mean = m.op("ReduceMean", y, axes=[-1])
    d = m.op("Sub", y, mean)
    variance = m.op("ReduceMean", m.op("Mul", d, d), axes=[-1])
    r = m.op("Mul", m.op("Reciprocal", m.op("Sqrt", m.op("Add", variance, k(m, 1e-3)))), m.random(5))
    y = m.op("Add", m.op("Mul", y, r), m.op("Sub", m.random(5), m.op("Mul", mean, r)))
    parts.append(m.head(y, 5 * 4 * 4))
    d = m.op("Sub", x, m.op("Unsqueeze", m.op("ReduceMean", x, axes=[1], keepdims=0), k64(m, [1])))
    variance = m.op("ReduceMean", m.op("Mul", d, d), axes=[1], keepdims=0)
    r = m.op("Pow", m.op("Add", variance, k(m, 1e-2)), k(m, -0.5))
    parts.append(m.head(m.op("Mul", m.op("Unsqueeze", r, k64(m, [1])), d), 5 * 4 * 4))
    tokens = m.op("Transpose", m.op("Reshape", x, k64(m, [1, 5, 16])), perm=[0, 2, 1])
    y = written(m, tokens, 2, m.random(5), m.random(5))
    parts.append(m.head(m.op("Add", m.op("Transpose", y, perm=[0, 2, 1]), m.op("Reshape", x, k64(m, [1, 5, 16]))), 5 * 16))
    y = m.op("Div", x, m.op("Sqrt", m.op("Add", m.op("ReduceMean", m.op("Pow", x, k(m, 2.0)), axes=[1]), k(m, 1e-5))))
    parts.append(m.head(m.op("Mul", y, m.random(5, 1, 1)), 5 * 4 * 4))
    one = m.op("ReduceSum", m.op("Relu", x), k64(m, [1]))  # a map of one channel
    parts.append(m.head(m.conv(m.op("Sub", x, one), 5, 2, 1, 1), 2 * 4 * 4))
    parts.append(m.head(m.conv(one, 1, 3, 3, 3), 3 * 2 * 2))
    where = m.op("Sigmoid", m.conv(m.op("ReduceMean", x, axes=[1]), 1, 1, 3, 3, pads=[1] * 4))  # attention by position
    y = m.op("Add", m.op("Mul", m.op("Transpose", where, perm=last), m.op("Transpose", x, perm=last)), m.op("Relu", m.op("Transpose", one, perm=last)))
    parts.append(m.head(y, 5 * 4 * 4))
    m.write([functools.reduce(lambda a, b: m.op("Add", a, b), parts)])

    m = Model("post_norms_written", [1, 4, 5, 3])  # of an input whose channels are last
    mean = lambda x: m.op("ReduceMean", x, axes=[-1])
    square = lambda x: m.op("Mul", x, x)
    variance = m.op("Max", m.op("Sub", mean(square("input")), square(mean("input"))), k(m, 0.0))  # Flax's
    r = m.op("Mul", m.random(3), m.op("Div", k(m, 1.0), m.op("Sqrt", m.op("Add", variance, k(m, 1e-3)))))
    y = m.op("Add", m.op("Sub", m.op("Mul", "input", r), m.op("Mul", mean("input"), r)), m.random(3))
    y = m.op("MatMul", y, m.random(3, 6))
    d, e = m.op("Sub", y, mean(y)), m.op("Sub", mean(y), y)  # the same but for its sign
    y = m.op("Mul", m.op("Pow", m.op("Add", mean(m.op("Mul", e, e)), k(m, 1e-3)), k(m, -0.5)), d)
    m.head(m.op("Transpose", y, perm=first), 6 * 4 * 5)
    m.write()

    m = Model("post_norms_not", [1, 3, 4, 4])  # what is nearly a norm
    x, parts = m.conv("input", 3, 5, 3, 3, pads=[1] * 4), []
    mean, total = lambda x: m.op("ReduceMean", x, axes=[1]), lambda x: m.op("ReduceSum", x, k64(m, [1]))
    r = lambda v: m.op("Reciprocal", m.op("Sqrt", m.op("Add", m.op("Abs", v), k(m, 0.5))))
    r1, gain = r(m.op("Sub", mean(square(x)), square(total(x)))), m.random(5, 1, 1)  # the square of a sum
    r2 = r(m.op("Add", mean(square(x)), square(mean(x))))  # a sum of squares
    r3 = r(m.op("Sub", square(mean(x)), mean(square(x))))  # the other way round
    r4 = r(m.op("Sub", mean(m.op("Mul", x, m.op("Neg", x))), square(mean(x))))  # another product
    parts.append(m.op("Sub", m.op("Mul", x, r1), m.op("Mul", mean(x), r2)))  # two factors
    parts.append(m.op("Add", m.op("Mul", x, r3), m.op("Mul", mean(x), r3)))  # a sum
    parts.append(m.op("Sub", m.op("Mul", x, m.op("Mul", r4, gain)), m.op("Mul", mean(x), m.op("Mul", r4, m.random(5, 1, 1)))))  # two gains
    parts.append(m.op("Mul", x, r(m.op("Sub", mean(square(x)), square(mean(m.op("Abs", x)))))))  # the mean of another map
    product = m.op("Mul", mean(x), r1)
    parts.append(m.op("Mul", product, m.op("Sub", m.op("Mul", x, r1), product)))  # a product that another reads
    for y in parts:
        m.head(y, 5 * 4 * 4)
    m.write([functools.reduce(lambda a, b: m.op("Add", a, b), m.outputs)])


def k64(m: Model, values: list[int]) -> str:
    return m.array(values, np.int64)


def expressions() -> None:
    """Weights that are computed from constants."""
    m = Model("fold_arithmetic", [1, 3, 5, 5])
    v, gain = m.random(4, 3, 3, 3), m.random(4, 1, 1, 1)
    length = m.op("Sqrt", m.op("Add", m.op("ReduceSum", m.op("Mul", v, v), m.array([1, 2, 3], np.int64)), m.array(1e-6)))
    y = m.op("Conv", "input", m.op("Mul", gain, m.op("Div", v, length)), m.op("Exp", m.op("Neg", m.random(4))))
    w = m.op("Div", m.random(4, 4, 1, 1), m.op("ReduceL2", m.random(4, 4, 1, 1), axes=[1, -1], keepdims=1))
    y = m.op("Conv", m.op("Relu", y), m.op("Sub", w, m.op("Reciprocal", m.array([[[[3.0]]]]))))
    scale = m.op("Pow", m.op("Max", m.op("Abs", m.random(4)), m.array(0.5)), m.array(2.0))
    y = m.op("BatchNormalization", y, scale, m.random(4), m.op("ReduceMean", m.random(4, 6), axes=[1], keepdims=0), m.op("Min", scale, m.array(0.9)))
    m.head(y, 4 * 3 * 3)
    m.write()

    m = Model("fold_vector", [1, 3, 5, 5])  # spectral normalisation as PyTorch evaluates it, and sizes of an Expand
    w, u, v = m.random(4, 3, 3, 3), m.random(4), m.random(27)
    matrix = m.op("Reshape", w, m.array([4, -1], np.int64))
    w = m.op("Div", w, m.op("MatMul", u, m.op("MatMul", matrix, v)))
    y = m.op("Conv", "input", w, m.op("Reshape", m.op("MatMul", m.random(1, 3), m.random(3, 4)), m.array([4], np.int64)))
    sizes = m.array([-1, 4, 1, 1], np.int64)
    sizes = m.op("Where", m.op("Equal", sizes, m.array([-1], np.int64)), m.array([4, 1, 1, 1], np.int64), sizes)
    w = m.op("Mul", m.op("Tanh", m.op("Expand", m.random(4, 1, 1, 1), sizes)), m.op("Sigmoid", m.random(1, 4, 1, 1)))
    y = m.op("Conv", y, w, m.op("Sum", m.random(4), m.op("Relu", m.random(4)), m.random(1)))
    y = m.op("Conv", y, m.op("Clip", m.random(4, 4, 1, 1), m.array(-0.4), m.array(0.3)))
    m.head(y, 4 * 3 * 3)
    m.write()

    m = Model("fold_cast", [1, 3, 5, 5])
    half = m.random(4, 3, 3, 3, dtype=np.float16)
    y = m.op("Conv", "input", m.op("Cast", m.op("Mul", half, m.array(2, np.float16)), to=TensorProto.FLOAT))
    y = m.op("Conv", y, m.op("Cast", m.random(4, 4, 1, 1, dtype=np.float64), to=TensorProto.FLOAT))
    y = m.op("Conv", y, m.op("Cast", m.array(m.rng.integers(-3, 4, (4, 4, 1, 1)), np.int8), to=TensorProto.FLOAT))
    upper = (m.rng.normal(0, 0.5, (4, 4, 1, 1)).astype("<f4").view("<u4") >> 16).astype("<u2")  # bfloat16
    m.weights.append(helper.make_tensor("upper", TensorProto.BFLOAT16, [4, 4, 1, 1], upper.tobytes(), raw=True))
    y = m.op("Conv", y, m.op("Cast", "upper", to=TensorProto.FLOAT))
    quantised = m.array(m.rng.integers(-128, 128, (6, 4, 1, 1)), np.int8)
    scale, zero = m.array(m.rng.uniform(0.005, 0.01, 6)), m.array(m.rng.integers(-3, 4, 6), np.int8)
    y = m.op("Conv", y, m.op("DequantizeLinear", quantised, scale, zero, axis=0))
    m.head(y, 6 * 3 * 3)
    m.write()

    m = Model("fold_layout", [1, 3, 6, 6])
    ints = lambda *v: m.array(v, np.int64)
    w = m.op("Transpose", m.random(3, 3, 3, 4), perm=[3, 2, 0, 1])  # as Keras has it
    y = m.op("Conv", "input", w, m.op("Squeeze", m.random(1, 4, 1), ints(0, 2)))
    w = m.op("Concat", m.random(2, 4, 1, 1), m.op("Slice", m.random(4, 6, 1, 1), ints(-1, 1), ints(-9, 5), ints(0, 1), ints(-2, 1)), axis=0)
    y = m.op("Conv", y, w, m.op("Gather", m.random(3, 4), m.array(-2, np.int64), axis=0))
    w = m.op("Reshape", m.op("Unsqueeze", m.random(16), ints(0, 2)), ints(4, -1, 1, 1))
    y = m.op("Conv", y, w, m.op("Expand", m.random(1), m.op("Shape", m.random(4))))
    w = m.op("Tile", m.random(2, 2, 1, 1), ints(2, 2, 1, 1))
    y = m.op("Conv", y, w, m.op("ConstantOfShape", ints(4), value=numpy_helper.from_array(np.asarray([0.25], np.float32))))
    m.count += 1
    outs = [f"part_{i}" for i in range(2)]
    m.nodes.append(helper.make_node("Split", [m.random(4, 10, 1, 1), ints(6, 4)], outs, name="split", axis=1))
    y = m.op("Conv", y, outs[1])
    w = m.op("Transpose", m.op("MatMul", m.random(16 * 4, 3), m.random(3, CLASSES)))
    y = m.op("Gemm", m.op("Flatten", y), w, transB=1)
    m.write([y])

    m = Model("fold_shape", ["batch", 3, 4, 2], opset=15)
    size = m.op("Shape", "input", start=1)
    one = m.array([1], np.int64)
    rest = m.op("ReduceProd", m.op("Cast", size, to=TensorProto.INT32), keepdims=1)
    target = m.op("Concat", m.op("Shape", "input", end=1), m.op("Mul", m.op("Cast", rest, to=TensorProto.INT64), one), axis=0)
    y = m.op("Gemm", m.op("Reshape", "input", target), m.random(5, 24), transB=1)
    m.write([y])


    m = Model("fold_logic", [1, 3, 6, 6], opset=18)
    ints = lambda *v: m.array(v, np.int64)
    w = m.array(np.round(m.rng.normal(0, 2, (4, 3, 3, 3))) / 4)
    few = m.op("And", m.op("Not", m.op("Greater", w, m.array(0.5))), m.op("GreaterOrEqual", w, m.array(-0.25)))  # pruned
    few = m.op("Or", few, m.op("Xor", m.op("Less", w, m.array(-0.5)), m.op("LessOrEqual", w, m.array(-0.75))))
    few = m.op("Or", few, m.op("And", m.op("Less", w, m.array(-0.5)), m.op("LessOrEqual", w, m.array(-1.0))))
    y = m.op("Conv", "input", m.op("Mul", w, m.op("CastLike", few, "input")), m.op("Range", m.array(0.5), m.array(-0.4), m.array(-0.25)))
    w = m.random(4, 4, 1, 1)
    w = m.op("Mul", m.op("Sign", w), m.op("ReduceMean", m.op("Abs", w), ints(1, 2, 3)))  # one bit each
    y = m.op("Conv", y, m.op("Mean", w, m.op("Round", m.random(4, 1, 1, 1, scale=2))))
    w = m.op("Pad", m.random(4, 4, 1, 3), ints(1, -1, 1, 0), m.array(0.25), ints(-2, 3))
    y = m.op("Conv", y, w, m.op("CastLike", m.op("Mod", ints(-5, 4, -3, 7), ints(-3)), w))
    w = m.random(4, 4, 1, 1)
    whole = m.op("Where", m.op("Equal", m.op("Mod", w, m.array(0.5), fmod=1), w), w, m.array(0.5))
    y = m.op("Conv", y, m.op("Div", whole, m.op("Sqrt", m.op("Cast", m.op("Size", w), to=TensorProto.FLOAT))))
    m.head(y, 4 * 2 * 3)
    m.write()

    m = Model("fold_spread", ["batch", 3, 6, 6])  # numbers that an Expand repeats over the map
    y = m.conv("input", 3, 4, 3, 3)
    y = m.op("Add", y, m.op("Expand", m.random(1, 4, 1, 1), m.op("Shape", y)))
    y = m.op("Transpose", m.op("Mul", y, m.array(np.full((4, 4), 0.5))), perm=[0, 2, 3, 1])
    y = m.op("Sub", y, m.op("Expand", m.random(4), m.op("Shape", y)))
    m.head(y, 4 * 4 * 4)
    m.write()


def layouts() -> None:
    """Channels last, as TensorFlow's networks come out of tf2onnx."""
    m = Model("nhwc_input", ["batch", 7, 6, 3])
    ints = lambda *v: m.array(v, np.int64)
    y = m.op("Sub", m.op("Mul", "input", m.array(0.5)), m.random(3))
    y = m.op("Pad", y, ints(0, 1, 0, 0, 0, 0, 1, 0))
    y = m.op("Relu", m.conv(m.op("Transpose", y, perm=[0, 3, 1, 2]), 3, 5, 3, 3, auto_pad="SAME_UPPER", strides=[2, 2]))
    y = m.op("Transpose", y, perm=[0, 2, 3, 1])
    z = m.op("Add", m.op("MatMul", y, m.random(5, 4)), m.random(4))  # a Dense layer on every pixel
    y = m.op("Relu", m.op("Concat", y, z, axis=3))
    first = m.op("Squeeze", m.op("ReduceMean", y, axes=[1, 2], keepdims=1), ints(1, 2))
    first = m.op("Gemm", first, m.random(9, CLASSES))
    y = m.op("MatMul", m.op("Reshape", y, ints(-1, 4 * 4 * 9)), m.random(4 * 4 * 9, CLASSES, scale=0.2))
    m.write([first, m.op("Add", y, m.random(CLASSES))])

    m = Model("nhwc_grey", ["batch", 8, 7, 1])  # of one channel, a Transpose comes out as a Reshape
    y = m.op("Reshape", m.op("Mul", "input", m.array(0.5)), ints(-1, 1, 8, 7))
    y = m.op("Relu", m.conv(y, 1, 1, 3, 2, pads=[1, 0, 1, 0]))
    y = m.op("MatMul", m.op("Reshape", y, ints(-1, 8, 6, 1)), m.random(1, 3))
    y = m.conv(m.op("Transpose", y, perm=[0, 3, 1, 2]), 3, 4, 3, 3)
    m.head(y, 4 * 6 * 4)
    m.write()

    m = Model("nhwc_branches", [1, 3, 5, 4])
    y = m.op("Relu", m.conv("input", 3, 4, 3, 3, pads=[1] * 4))
    last = m.op("Transpose", y, perm=[0, 2, 3, 1])
    z = m.op("Transpose", m.conv(y, 4, 4, 3, 3, pads=[1] * 4), perm=[0, 2, 3, 1])
    z = m.op("Clip", m.op("Mul", m.op("Add", last, z), m.random(4)), m.array(-0.5), m.array(1.0))
    first = m.op("Gemm", m.op("Flatten", z), m.random(CLASSES, 5 * 4 * 4, scale=0.2), transB=1)
    turned = m.op("Transpose", z, perm=[0, 2, 1, 3])  # width first
    second = m.op("MatMul", m.op("Flatten", turned), m.random(5 * 4 * 4, CLASSES, scale=0.2))
    y = m.op("MaxPool", m.op("Transpose", z, perm=[0, 3, 1, 2]), kernel_shape=[2, 2], strides=[2, 2])
    third = m.head(m.conv(y, 4, 6, 2, 2), 6)
    m.write([third, first, second], [first, second, third])

    m = Model("nhwc_vector", [1, 4, 4, 2])
    y = m.conv(m.op("Transpose", "input", perm=[0, 3, 1, 2]), 2, 6, 3, 3)
    y = m.op("Reshape", m.op("GlobalAveragePool", y), m.array([-1, 1, 1, 6], np.int64))
    y = m.op("Transpose", m.op("Relu", y), perm=[0, 3, 1, 2])
    m.head(m.conv(y, 6, 4, 1, 1), 4)
    m.write()


    m = Model("nhwc_largest", ["batch", 5, 4, 3])  # Keras' GlobalMaxPooling2D
    y = m.conv(m.op("Transpose", "input", perm=[0, 3, 1, 2]), 3, 6, 3, 3)
    m.head(m.op("ReduceMax", m.op("Transpose", y, perm=[0, 2, 3, 1]), axes=[1, 2], keepdims=0), 6)
    m.write()


def pixels() -> None:
    """Padding that only pixels can be."""
    m = Model("pad_pixels", [1, 3, 5, 4])
    ints = lambda *v: m.array(v, np.int64)
    pad = lambda x, *v, value=0.0: m.op("Pad", x, ints(0, 0, *v[:2], 0, 0, *v[2:]), m.array(value))
    y = m.conv("input", 3, 4, 1, 1)
    a = m.op("AveragePool", pad(y, 1, 0, 0, 1), kernel_shape=[3, 3], pads=[1] * 4)  # its own does not count
    b = m.op("AveragePool", pad(y, 1, 0, 0, 1, value=0.75), kernel_shape=[3, 3], pads=[1] * 4)
    c = m.op("MaxPool", pad(y, 1, 0, 0, 1), kernel_shape=[3, 3], pads=[1] * 4)
    d = m.conv(pad(y, 1, 0, 0, 1, value=-0.5), 4, 4, 3, 3, pads=[1] * 4)
    e = m.op("Relu", pad(y, 1, 0, 0, 1, value=0.5))
    y = m.op("Add", m.op("Concat", a, b, c, axis=1), m.op("Concat", d, e, pad(y, 1, 0, 0, 1), axis=1))
    m.head(y, 12 * 6 * 5)
    m.write()

    m = Model("pad_windows", [1, 3, 4, 5])  # whole windows of the pools lie in it
    a = m.op("MaxPool", pad(m.op("Relu", m.conv("input", 3, 4, 1, 1)), 2, 0, 3, 1), kernel_shape=[2, 3])
    b = m.op("AveragePool", pad(m.conv("input", 3, 4, 1, 1), 0, 3, 0, 0), kernel_shape=[2, 2], strides=[1, 2])
    m.head(a, 4 * 8 * 4)
    m.head(b, 4 * 3 * 4)
    m.write(m.outputs[::-1])


def views() -> None:
    """Maps split, cut and turned: what a compiler sees in another way, and what takes a layer."""
    ints = lambda m, *v: m.array(v, np.int64)
    cut = lambda m, x, axis, begin, end, step=1: m.op("Slice", x, ints(m, begin), ints(m, end), ints(m, axis), ints(m, step))

    m = Model("shuffle", [1, 3, 6, 5])
    y = m.op("Relu", m.conv("input", 3, 8, 3, 3, pads=[1] * 4))
    for _ in range(2):
        left, right = cut(m, y, 1, 0, 4), cut(m, y, 1, 4, 8)
        right = m.op("Relu", m.conv(right, 4, 4, 1, 1))
        right = m.conv(right, 4, 4, 3, 3, pads=[1] * 4, group=4)
        right = m.op("Relu", m.conv(right, 4, 4, 1, 1))
        y = m.op("Concat", left, right, axis=1)
        y = m.op("Reshape", y, ints(m, 1, 2, 4, 6, 5))
        y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3, 4]), ints(m, 1, -1, 6, 5))
    y = m.conv(y, 8, 8, 3, 3, group=4)
    m.head(y, 8 * 4 * 3)
    m.write()

    m = Model("focus", [1, 3, 8, 6])
    parts = [cut(m, cut(m, "input", 2, i, 99, 2), 3, j, 99, 2) for j in (0, 1) for i in (0, 1)]
    y = m.op("Relu", m.conv(m.op("Concat", *parts, axis=1), 12, 5, 3, 3, pads=[1] * 4))
    y = m.op("Add", y, cut(m, cut(m, m.conv("input", 3, 5, 1, 1), 2, 1, 5), 3, 2, 5))
    m.head(y, 5 * 4 * 3)
    m.write()

    m = Model("split_ways", [1, 4, 6, 6])
    y = m.op("Relu", m.conv("input", 4, 6, 3, 3, pads=[1] * 4))
    names = [m.fresh("part") for _ in range(3)]
    m.nodes.append(helper.make_node("Split", [y, ints(m, 1, 2, 3)], names, axis=1))
    z = m.op("Concat", m.conv(names[1], 2, 2, 3, 3, pads=[1] * 4), names[0], names[2], names[1], axis=1)
    rows = [m.fresh("rows") for _ in range(2)]
    m.nodes.append(helper.make_node("Split", [z], rows, axis=2))
    y = m.op("Sum", rows[0], m.op("Relu", rows[1]), m.op("MaxPool", z, kernel_shape=[2, 1], strides=[2, 1]))
    y = m.op("Gather", y, ints(m, 7, 0, 3, 3, 1), axis=1)
    m.head(y, 5 * 3 * 6)
    m.write()

    m = Model("dilated", [1, 3, 11, 12])
    y = m.op("Relu", m.conv("input", 3, 6, 3, 2, dilations=[2, 3], pads=[2, 1, 2, 2]))
    y = m.op("Relu", m.conv(y, 6, 6, 3, 3, group=6, dilations=[3, 3], pads=[3] * 4, strides=[2, 1]))
    y = m.conv(y, 6, 4, 3, 3, dilations=[2, 2], pads=[2] * 4)
    m.head(y, 4 * 6 * 12)
    m.write()

    m = Model("squeezes", [1, 3, 4, 4])
    y = m.op("GlobalAveragePool", m.conv("input", 3, 6, 3, 3))
    y = m.op("Unsqueeze", m.op("Squeeze", y, ints(m, 2, 3)), ints(m, 2))  # N x 6 x 1
    y = m.op("Relu", m.op("Transpose", y, perm=[0, 2, 1]))
    y = m.op("Squeeze", y, ints(m, 1))
    m.head(m.op("Mul", m.op("Unsqueeze", y, ints(m, 2, 3)), m.array(0.5)), 6)
    m.write()

    m = Model("sum_views", [1, 3, 4, 5])  # two seen alike, one in its own order
    turned = [m.op("Transpose", m.op("Reshape", m.conv("input", 3, 6, 1, 1), ints(m, 1, 2, 3, 4, 5)), perm=[0, 2, 1, 3, 4]) for _ in range(2)]
    a, b = [m.op("Reshape", x, ints(m, 1, 6, 4, 5)) for x in turned]
    y = m.op("Sum", a, b, m.conv("input", 3, 6, 1, 1), b)
    m.head(y, 6 * 4 * 5)
    m.write()

    m = Model("one_of_several", [1, 3, 4, 3])  # an element of an axis that is made of two
    y = m.op("Reshape", m.conv("input", 3, 6, 1, 1), ints(m, 1, 2, 3, 4, 3))
    y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3, 4]), ints(m, 1, 6, 4, 3))
    y = m.op("Concat", cut(m, y, 1, 3, 4), cut(m, y, 1, -2, -1), axis=1)
    m.head(m.conv(y, 2, 3, 2, 2), 3 * 3 * 2)
    m.write()

    m = Model("cut_depthwise", [1, 4, 6, 5])  # of what makes the channels, nothing else is read
    y = m.op("Relu", m.conv("input", 4, 4, 3, 3, group=4))
    y = m.op("Slice", y, ints(m, -1), ints(m, -(2**63)), ints(m, -3), ints(m, -2))
    m.head(m.conv(y, 2, 2, 1, 1), 2 * 4 * 3)
    m.write()

    m = Model("turned_logits", [1, 3, 5, 4])
    y = m.op("Relu", m.conv("input", 3, 4, 3, 3))
    first = m.op("Reshape", m.head(y, 4 * 3 * 2), ints(m, 1, 5, 1))
    first = m.op("Slice", first, ints(m, 9), ints(m, -9), ints(m, 1), ints(m, -1))
    y = m.op("Flatten", m.op("Relu", m.conv(y, 4, 6, 3, 2)))
    y = m.op("Gemm", y, m.random(6, 6), transB=1)
    second = m.op("Transpose", m.op("Reshape", y, ints(m, 1, 2, 3)), perm=[0, 2, 1])
    y = m.conv("input", 3, 6, 3, 2)
    third = m.op("Slice", m.op("Sum", y, y), ints(m, -1), ints(m, -7), ints(m, 1), ints(m, -1))
    m.write([third, first, second])

    m = Model("turned_grey", [1, 2, 7, 5])  # one channel: its rows and columns still have an order
    first = m.head(m.op("Transpose", m.conv("input", 2, 1, 3, 2), perm=[0, 3, 2, 1]), 5 * 4)
    y = m.op("Reshape", m.op("Relu", m.conv("input", 2, 1, 2, 3)), ints(m, 0, 0, 6, 1, 3))
    m.write([m.head(m.op("Transpose", y, perm=[0, 1, 3, 4, 2]), 6 * 3), first])

    m = Model("batch_of_two", [2, 4, 3, 4])
    y = m.op("Reshape", m.op("Relu", m.conv("input", 4, 4, 1, 1)), ints(m, 2, 2, 2, -1))
    y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]), ints(m, 2, -1))
    m.write([m.op("Gemm", y, m.random(5, 48), transB=1)])

    m = Model("maps", [1, 3, 6, 4])
    y = m.op("Relu", m.conv("input", 3, 6, 3, 3, pads=[1] * 4))
    z = m.op("Relu", m.conv(y, 6, 10, 3, 3, strides=[2, 2], pads=[1] * 4))
    first = m.op("Transpose", m.op("Reshape", m.conv(y, 6, 6, 1, 1), ints(m, 1, 2, 3, 6, 4)), perm=[0, 1, 3, 4, 2])
    m.write([first, m.op("Identity", m.conv(z, 10, 4, 1, 1)), m.op("Reshape", m.conv(z, 10, 5, 3, 3, pads=[1] * 4), ints(m, 1, -1, 3, 2))])


def pieces() -> None:
    m = Model("leaky", [1, 3, 6, 5])
    y = m.op("LeakyRelu", m.norm(m.conv("input", 3, 6, 3, 3, pads=[1] * 4), 6), alpha=0.1)
    z = m.op("LeakyRelu", m.op("MaxPool", y, kernel_shape=[2, 1], strides=[2, 1]))  # 3 x 5
    z = m.op("Add", z, m.op("LeakyRelu", m.conv(z, 6, 6, 1, 1), alpha=-0.5))
    z = m.op("LeakyRelu", m.op("Concat", z, m.conv(z, 6, 2, 3, 3, pads=[1] * 4), axis=1), alpha=1.5)
    first = m.op("LeakyRelu", m.conv(y, 6, 5, 6, 5), alpha=0.2)
    m.write([m.op("Flatten", first), m.head(z, 8 * 3 * 5)])

    m = Model("prelu", [1, 3, 5, 4])
    y = m.op("PRelu", m.conv("input", 3, 6, 3, 3, pads=[1] * 4), m.random(6, 1, 1, scale=1.0))  # above 1 and below 0 among them
    y = m.op("PRelu", m.conv(y, 6, 4, 2, 2), m.array([0.25]))  # 4 x 3
    y = m.op("PRelu", y, m.random(1, 4, 1, 1))
    y = m.op("PRelu", m.op("Transpose", y, perm=[0, 2, 3, 1]), m.random(4))
    y = m.op("Gemm", m.op("Flatten", y), m.random(7, 4 * 4 * 3, scale=0.2), m.random(7), transB=1)
    m.head(m.op("PRelu", y, m.random(7)), 7)
    m.write()

    m = Model("pad_negative", [1, 3, 7, 6])
    y = m.op("Pad", m.op("Relu", m.conv("input", 3, 4, 3, 3, pads=[1] * 4)), m.array([0, 0, -1, -1, 0, 0, 1, 1], np.int64))  # NASNet's shift
    y = m.op("Pad", m.conv(y, 4, 4, 3, 3, pads=[1] * 4), m.array([0, -1, 2, 0, 0, -1, -3, -2], np.int64), m.array(0.5))  # 2 x 6 x 4
    m.head(y, 2 * 6 * 4)
    m.write()

    m = Model("standardised", [1, 3, 6, 5])  # weights, as NFNets have them
    w = m.random(1, 4, 27)
    w = m.op("BatchNormalization", w, m.random(4), m.array(np.zeros(4)), m.random(4), m.array(m.rng.uniform(0.2, 2, 4)), epsilon=1e-3)
    y = m.op("Conv", "input", m.op("Reshape", w, m.array([4, 3, 3, 3], np.int64)), m.random(4))
    m.head(m.op("Relu", y), 4 * 4 * 3)
    m.write()

    m = Model("pieces", [1, 3, 6, 5])
    y = m.conv("input", 3, 4, 3, 3)  # 4 x 3
    z = m.conv("input", 3, 4, 3, 3)
    parts = [m.op("Abs", y), m.op("Neg", m.op("Relu", z)), m.op("HardSigmoid", y), m.op("HardSigmoid", z, alpha=1 / 6, beta=0.4), m.op("Sub", y, z)]
    parts += [m.op("Max", y, z), m.op("Min", y, z, m.op("Relu", z)), m.op("Mean", y, z, m.op("Relu", y)), m.op("Max", z, m.array(0.1)), m.op("Min", m.array(0.2), y, z)]
    y = m.op("Concat", *parts, axis=1)
    m.head(m.op("Sub", y, m.op("Relu", y)), 40 * 4 * 3)
    m.write()


def upsampling() -> None:
    def write(m: Model) -> None:  # one exit, of all
        total = m.outputs[0]
        for y in m.outputs[1:]:
            total = m.op("Add", total, y)
        m.write([total])

    m = Model("resize_nearest", [1, 3, 4, 3])
    y = m.op("Relu", m.conv("input", 3, 6, 3, 3, pads=[1] * 4))
    up = m.op("Resize", y, "", m.array([1, 1, 2, 2]), coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor")  # PyTorch's
    z = m.op("Concat", up, m.op("Resize", m.conv(y, 6, 2, 1, 1), "", m.array([1, 1, 2, 2]), mode="nearest"), axis=1)  # YOLO's neck
    z = m.op("Resize", m.conv(z, 8, 5, 3, 3, strides=[2, 2]), "", "", m.array([1, 5, 9, 2], np.int64), mode="nearest")
    m.head(m.op("Concat", z, z, axis=1), 10 * 9 * 2)
    m.head(up, 6 * 8 * 6)
    write(m)

    m = Model("resize_linear", [1, 3, 4, 3])
    y = m.conv("input", 3, 5, 3, 3, pads=[1] * 4)
    for by in (2, 3, 4):
        for where in ("half_pixel", "asymmetric"):
            z = m.op("Resize", y, "", m.array([1, 1, by, 2]), coordinate_transformation_mode=where, mode="linear")
            m.head(z, 5 * 4 * by * 6)
    write(m)

    m = Model("upsample", [1, 3, 4, 3], opset=9)
    y = m.op("Upsample", m.conv("input", 3, 4, 3, 3, pads=[1] * 4), m.array([1, 1, 2, 3]), mode="nearest")
    m.head(y, 4 * 8 * 9)
    write(m)

    m = Model("transposed", [1, 3, 4, 3])
    y = m.op("Relu", m.conv("input", 3, 4, 3, 3, pads=[1] * 4))
    for k, strides, pads, more, group in (
        ([2, 2], [2, 2], [0, 0, 0, 0], [0, 0], 1),  # U-Net's
        ([4, 4], [2, 2], [1, 1, 1, 1], [0, 0], 1),
        ([3, 3], [2, 2], [1, 1, 1, 1], [1, 1], 2),
        ([3, 4], [2, 3], [0, 1, 1, 0], [1, 0], 4),  # rows and columns that are left over
        ([1, 2], [3, 2], [0, 0, 0, 0], [2, 0], 1),  # rows that no tap reaches
        ([3, 5], [1, 1], [1, 0, 0, 2], [0, 0], 1),
        ([5, 6], [2, 1], [4, 3, 3, 4], [0, 0], 1),
    ):
        z = m.op("ConvTranspose", y, m.random(4, 8 // group, *k), m.random(8), strides=strides, pads=pads, output_padding=more, group=group)
        h, w = (3 * strides[0] - pads[0] - pads[2] + k[0] + more[0]), (2 * strides[1] - pads[1] - pads[3] + k[1] + more[1])
        m.head(m.op("Relu", z), 8 * h * w)
    write(m)

    m = Model("depth_to_space", [1, 3, 4, 3])
    y = m.conv("input", 3, 12, 3, 3, pads=[1] * 4)
    m.head(m.op("DepthToSpace", y, blocksize=2), 12 * 4 * 3)
    m.head(m.op("DepthToSpace", m.op("Relu", y), blocksize=2, mode="CRD"), 12 * 4 * 3)
    write(m)

    m = Model("space_to_depth", [1, 3, 4, 6])
    y = m.op("SpaceToDepth", "input", blocksize=2)
    m.head(y, 12 * 2 * 3)
    y = m.op("Relu", m.conv(m.op("Pad", y, m.array([0, 0, 1, 0, 0, 0, 1, 1], np.int64)), 12, 2, 3, 3, pads=[1] * 4))
    m.head(m.op("SpaceToDepth", y, blocksize=4), 2 * 4 * 4)
    write(m)

    m = Model("pad_channels", [1, 3, 5, 4])  # as the shortcuts of CIFAR's ResNets, option A
    y = m.op("Relu", m.conv("input", 3, 4, 3, 3, pads=[1] * 4))
    few = m.op("Slice", y, m.array([0, 0], np.int64), m.array([9, 9], np.int64), m.array([2, 3], np.int64), m.array([2, 2], np.int64))
    few = m.op("Pad", few, m.array([0, 2, 0, 0, 0, 2, 0, 0], np.int64))
    m.head(m.op("Relu", m.op("Add", m.conv(y, 4, 8, 3, 3, strides=[2, 2], pads=[1] * 4), few)), 8 * 3 * 2)
    m.head(m.op("Pad", m.op("Pad", y, m.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64)), m.array([0, 1, 0, 2, 0, 0, 1, 0], np.int64), m.array(-0.5)), 5 * 7 * 7)
    write(m)


if __name__ == "__main__":
    for build in (convolutions, pads, pools, additions, joins, connected, activations, ends, functions, norms, expressions, layouts, pixels, views, pieces, upsampling):
        build()
