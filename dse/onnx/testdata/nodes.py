#!/usr/bin/env python3
"""Turn onnx' own node tests into models that TestNodes reads: their first input stays one, the others become constants.

For each test whose first input are floats or bytes of rank 2 or 4: NAME.onnx, and NAME.bin with little-endian float32: the
input, then each output, samples outermost. NAME.skip says why there is none.

    pip install onnx==1.16.2 && python3 nodes.py DIR && go test ./dse/onnx -run TestNodes -args -onnx.nodes DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def load(path: Path) -> onnx.TensorProto:
    t = onnx.TensorProto()
    t.ParseFromString(path.read_bytes())
    return t


def turn(test: Path, out: Path) -> str:
    """Why there is no such model; "" where there is."""
    model = onnx.load(test / "model.onnx")
    data = test / "test_data_set_0"
    names = [i.name for i in model.graph.input]
    if not names:
        return "no input"
    try:
        values = [load(data / f"input_{i}.pb") for i in range(len(names))]
        x = numpy_helper.to_array(values[0])
        wanted = [numpy_helper.to_array(load(data / f"output_{i}.pb")) for i in range(len(model.graph.output))]
    except Exception as error:  # sequences, optional values and types that numpy does not have
        return f"no tensors: {type(error).__name__}"
    if x.dtype not in (np.float32, np.float16, np.float64, np.uint8) or x.ndim not in (2, 3, 4):
        return f"first input of {x.dtype} and rank {x.ndim}"
    for y in wanted:
        if y.dtype.kind != "f" or y.ndim == 0 or len(y) != len(x):
            return f"output of {y.dtype} {y.shape} for {len(x)} samples"
    for name, value in list(zip(names, values))[1:]:
        value.name = name  # as it is: numpy has no floats of 8 bits
        model.graph.initializer.append(value)
    del model.graph.input[1:]
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if 0 < opset < 7:  # as the importer's refusal says
        try:
            model = onnx.version_converter.convert_version(model, 13)
        except Exception as error:
            return f"opset {opset}: {type(error).__name__}"
        opset = 13
    if x.dtype != np.uint8:  # a layer before: where a node only looks at its input in another way there is none
        first = model.graph.input[0]
        before = "sluice_input"
        names, shape = [before], list(x.shape)
        if x.ndim == 3:  # an input has two axes or four
            model.graph.initializer.append(numpy_helper.from_array(np.array([3], np.int64), "sluice_axis"))
            squeeze = {"axes": [3]} if opset < 13 else {}
            front = [onnx.helper.make_node("Squeeze", [before] + ([] if squeeze else ["sluice_axis"]), ["sluice_three"], **squeeze)]
            names, shape = ["sluice_three"], shape + [1]
        else:
            front = []
        model.graph.initializer.append(numpy_helper.from_array(np.array(1, x.dtype), "sluice_one"))
        front.append(onnx.helper.make_node("Mul", [names[0], "sluice_one"], [first.name]))
        body = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend(front + body)
        kind = first.type.tensor_type.elem_type
        model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info(before, kind, shape))
    flat = [x] + wanted
    (out / f"{test.name}.bin").write_bytes(b"".join(np.ascontiguousarray(a).astype("<f4").tobytes() for a in flat))
    (out / f"{test.name}.onnx").write_bytes(model.SerializeToString())
    return ""


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for test in sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "node").iterdir()):
        why = turn(test, out)
        if why:
            (out / f"{test.name}.skip").write_text(why + "\n")


if __name__ == "__main__":
    main()
