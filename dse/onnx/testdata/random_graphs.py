#!/usr/bin/env python3
"""Write random graphs of supported operators with what onnxruntime makes of a random input, for TestNodes.

    pip install onnx==1.16.2 onnxruntime==1.19.2
    python3 random_graphs.py DIR SEED N && go test ./dse/onnx -run TestNodes -args -onnx.nodes DIR

A graph that onnxruntime refuses, or that answers with NaNs or with samples of the batch mixed, is left out and counted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """A graph that grows by random operators; values are (name, shape)."""

    def __init__(self, seed: int, n: int):
        self.rng = np.random.default_rng([seed, n])
        self.nodes, self.weights, self.count = [], [], 0
        self.batch = int(self.rng.choice([1, 1, 1, 2]))
        self.opset = int(self.rng.choice([11, 13, 17]))

    def pick(self, *of):
        return of[int(self.rng.integers(len(of)))]

    def array(self, value, dtype=np.float32) -> str:
        self.count += 1
        name = f"w{self.count}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape, scale=0.7) -> str:
        return self.array(self.rng.normal(0, scale, shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes):
        names = []
        for _ in range(outputs):
            self.count += 1
            names.append(f"t{self.count}")
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def step(self, x: str, s: list):
        """One operator more: its output's name, and its shape where that is told here, else None."""
        r = self.rng
        four = len(s) == 4
        kinds = ["Relu", "Clip", "LeakyRelu", "Scale", "Abs", "Neg", "HardSigmoid", "Reshape", "Transpose", "Slice", "Bound", "Two", "Split", "Gather", "Function", "Function", "Composed", "Product"]
        if four:
            kinds += ["Conv"] * 6 + ["MaxPool", "AveragePool", "BatchNormalization", "PRelu", "Concat", "Concat", "Pad", "Global", "Shuffle", "Residual", "Residual", "Gate", "Gate"]
        if len(s) == 2:
            kinds += ["Gemm"] * 4 + ["MatMul"]
        kind = kinds[int(r.integers(len(kinds)))]
        if kind == "Relu" or kind == "Abs" or kind == "Neg":
            return self.op(kind, x)
        if kind == "Clip":
            lo, hi = sorted(r.normal(0, 1.5, 2))
            return self.op("Clip", x, self.pick("", self.array(lo)), self.array(hi))
        if kind == "LeakyRelu":
            return self.op(kind, x, alpha=float(r.normal(0.2, 0.6)))
        if kind == "Function":
            name = self.pick("Sigmoid", "Tanh", "Erf", "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSwish", "Sigmoid", "Tanh")
            if name == "HardSwish" and self.opset < 14:
                name = "Tanh"
            return self.op(name, x, **({"alpha": float(r.uniform(0.2, 1.5))} if name in ("Elu", "Celu") else {}))
        if kind == "Composed":
            k = self.array
            if self.pick(True, False):
                gate = self.op(self.pick("Sigmoid", "Tanh", "HardSigmoid"), self.op("Mul", x, k(r.uniform(0.5, 2))) if self.pick(True, False) else x)
                return self.op("Mul", *self.pick((x, gate), (gate, x)))
            return self.pick(
                lambda: self.op("Mul", self.op("Mul", x, self.op("Add", self.op("Erf", self.op("Div", x, k(2**0.5))), k(1.0))), k(0.5)),
                lambda: self.op("Div", self.op("Mul", x, self.op("Clip", self.op("Add", x, k(3.0)), k(0.0), k(6.0))), k(6.0)),
                lambda: self.op("Mul", x, self.op("Tanh", self.op("Softplus", x))),
                lambda: self.op("Div", x, self.op("Add", self.op("Abs", x), k(r.uniform(0.5, 2)))),
                lambda: self.op("Exp", self.op("Min", x, k(r.normal(0, 0.5)))),
                lambda: self.op("Sqrt", self.op("Add", self.op("Pow", x, k(2.0)), k(0.5))),
                lambda: self.op("Add", x, self.op("Sigmoid", x)),
                lambda: self.op("Reciprocal", self.op("Add", self.op("Exp", self.op("Neg", x)), k(1.0))),
            )()
        if kind == "Product":
            y = self.op(self.pick("Relu", "Sigmoid", "Neg"), x)
            return self.pick(lambda: self.op("Mul", *self.pick((x, y), (y, x), (x, x))), lambda: self.op("Pow", x, self.array(self.pick(2.0, 3.0))))()
        if kind == "HardSigmoid":
            return self.op(kind, x, alpha=float(r.uniform(0.1, 0.4)), beta=float(r.uniform(0.2, 0.7)))
        if kind == "Scale":
            shape = [s[1]] + [1] * (len(s) - 2) if self.pick(True, False) else []
            k = self.array(r.uniform(0.3, 1.7, shape) * r.choice([-1, 1]))
            return self.op(self.pick("Mul", "Add", "Sub", "Div"), *((x, k) if self.pick(True, True, False) else (x, k)))
        if kind == "Bound":
            return self.op(self.pick("Max", "Min"), x, self.array(r.normal(0, 0.5)))
        if kind == "Two":
            y = self.op("Relu", x)
            return self.op(self.pick("Max", "Min", "Sub", "Add", "Mean", "Sum"), *self.pick((x, y), (y, x), (x, x)))
        if kind == "Reshape":
            target = [0 if self.pick(True, False) else self.batch] + list(self.pick([-1], [s[1], -1], [self.pick(1, 2, 3), -1, s[-1]], [-1, s[-1]]))
            return self.op("Reshape", x, self.array(target, np.int64))
        if kind == "Transpose":
            perm = [0] + [int(a) + 1 for a in r.permutation(len(s) - 1)]
            return self.op("Transpose", x, perm=perm)
        if kind == "Slice":
            a = int(r.integers(1, len(s)))
            lo = int(r.integers(0, max(1, s[a] // 2)))
            return self.op("Slice", x, self.array([lo], np.int64), self.array([int(r.integers(lo + 1, s[a] + 2))], np.int64), self.array([a], np.int64), self.array([self.pick(1, 1, 2)], np.int64))
        if kind == "Split":
            a = int(r.integers(1, len(s)))
            if s[a] % 2 or self.opset >= 18:
                return self.op("Identity", x)
            u, v = self.op("Split", x, outputs=2, axis=a)
            return self.op("Concat", v, u, axis=a) if self.pick(True, False) else self.pick(u, v)
        if kind == "Gather":
            a = int(r.integers(1, len(s)))
            return self.op("Gather", x, self.array(r.integers(-s[a], s[a], self.pick(1, 2, s[a])), np.int64), axis=a)
        if kind == "Gemm":
            n = int(r.integers(2, 9))
            return self.op("Gemm", x, self.random(n, s[1], scale=s[1] ** -0.5), self.random(n), transB=1, alpha=float(self.pick(1.0, 0.5)))
        if kind == "MatMul":
            return self.op("MatMul", x, self.random(s[1], int(r.integers(2, 9)), scale=s[1] ** -0.5))
        # of maps
        if kind == "Conv":
            group = self.pick(1, 1, s[1], 2 if s[1] % 2 == 0 else 1)
            cout = group * int(r.integers(1, 4 if group > 1 else 9))
            k = [int(self.pick(1, 2, 3, 3)) for _ in range(2)]
            dilations = [int(self.pick(1, 1, 1, 2)) for _ in range(2)]
            w = self.random(cout, s[1] // group, *k, scale=(k[0] * k[1] * s[1] / group) ** -0.5)
            inputs = [x, w] + ([self.random(cout)] if self.pick(True, False) else [])
            where = self.pick({"pads": [int(v) for v in r.integers(0, 3, 4)]}, {"auto_pad": self.pick("SAME_UPPER", "SAME_LOWER", "VALID")}) if dilations == [1, 1] else {"pads": [int(v) for v in r.integers(0, 3, 4)]}
            return self.op("Conv", *inputs, group=group, strides=[int(self.pick(1, 1, 2)) for _ in range(2)], dilations=dilations, **where)
        if kind in ("MaxPool", "AveragePool"):
            k = [int(self.pick(1, 2, 3)) for _ in range(2)]
            more = {"count_include_pad": int(self.pick(0, 1))} if kind == "AveragePool" else {"ceil_mode": int(self.pick(0, 0, 1))}
            strides, pads = [int(self.pick(1, 2)) for _ in range(2)], [int(r.integers(0, k[i % 2])) for i in range(4)]
            for i in range(2):  # onnxruntime 1.19 keeps windows that begin behind the map and reads what lies there
                if -(-(s[2 + i] + pads[i] + pads[2 + i] - k[i]) // strides[i]) * strides[i] >= s[2 + i] + pads[i]:
                    more.pop("ceil_mode", None)
            return self.op(kind, x, kernel_shape=k, strides=strides, pads=pads, **more)
        if kind == "BatchNormalization":
            return self.op(kind, x, self.random(s[1]), self.random(s[1]), self.random(s[1]), self.array(r.uniform(0.3, 2, s[1])))
        if kind == "PRelu":
            return self.op(kind, x, self.random(s[1], 1, 1))
        if kind == "Concat":
            y = self.op("Conv", x, self.random(int(r.integers(1, 5)), s[1], 1, 1, scale=s[1] ** -0.5))
            return self.op("Concat", *self.pick((x, y), (y, x), (y, x, y)), axis=self.pick(1, -3))
        if kind == "Pad":
            pads = [0, 0] + [int(v) for v in r.integers(-1, 3, 2)] + [0, 0] + [int(v) for v in r.integers(-1, 3, 2)]
            return self.op("Pad", x, self.array(pads, np.int64), self.array(self.pick(0.0, 0.0, 0.75)))
        if kind == "Gate":
            y = self.op("GlobalAveragePool", x) if self.pick(True, False) else self.op("ReduceMean", x, axes=[2, 3], keepdims=1)
            y = self.op(self.pick("Sigmoid", "HardSigmoid", "Relu"), self.op("Conv", y, self.random(s[1], s[1], 1, 1, scale=s[1] ** -0.5), self.random(s[1])))
            return self.op(self.pick("Mul", "Mul", "Mul", "Add"), *self.pick((x, y), (y, x)))
        if kind == "Global":
            return self.op(self.pick("GlobalAveragePool", "GlobalMaxPool"), x)
        if kind == "Shuffle":
            g = 2 if s[1] % 2 == 0 else 1
            y = self.op("Reshape", x, self.array([self.batch, g, s[1] // g, s[2], s[3]], np.int64))
            return self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3, 4]), self.array([self.batch, s[1], s[2], s[3]], np.int64))
        y = self.op("Conv", x, self.random(s[1], s[1], 3, 3, scale=(9 * s[1]) ** -0.5), pads=[1] * 4)  # Residual
        return self.op("Add", *self.pick((x, y), (y, x)))

    def model(self, outputs: list[str], shape: list[int]):
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8).SerializeToString()


def run(content: bytes, x: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


def main() -> None:
    out, seed, n = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    left, made, i = 0, 0, 0
    while made < n:
        i += 1
        g = Graph(seed, i)
        shape = [g.batch, int(g.rng.integers(1, 7)), int(g.rng.integers(3, 10)), int(g.rng.integers(3, 10))]
        x = g.rng.uniform(-1, 1, shape).astype(np.float32)
        name, s, all_ = "x", shape, []
        for _ in range(int(g.rng.integers(2, 10))):
            before = len(g.nodes), len(g.weights)
            try:
                after = g.step(name, s)
                if after == name:
                    continue
                (y,) = run(g.model([after], shape), x)
                if len(y) != g.batch or y.size == 0 or y.size > 20000 or not np.isfinite(y).all() or np.abs(y).max() > 1e4:
                    raise ValueError("its output cannot be compared")
            except Exception:
                del g.nodes[before[0]:], g.weights[before[1]:]
                left += 1
                continue
            name, s = after, list(y.shape)
            all_.append(name)
        if len(all_) < 2:
            continue
        exits = [name]
        if g.pick(True, False, False) and len(all_) > 3:
            exits = [all_[len(all_) // 2], name]
        content = g.model(exits, shape)
        y = run(content, x)
        for k, sample in enumerate(x):  # each sample alone is what counts
            alone = run(content, np.repeat(sample[None], g.batch, 0))
            if any(not np.allclose(a[0], b[k], atol=1e-4) for a, b in zip(alone, y)):
                break
        else:
            (out / f"{i}.onnx").write_bytes(content)
            (out / f"{i}.bin").write_bytes(b"".join(np.ascontiguousarray(a).astype("<f4").tobytes() for a in [x] + y))
            made += 1
    print(f"{made} graphs; {left} steps that onnxruntime refuses or that cannot be compared are left out")


if __name__ == "__main__":
    main()
