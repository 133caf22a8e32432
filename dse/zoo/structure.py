#!/usr/bin/env python3
"""Write the structure-only networks: architecture, exits and shapes, but no weights.

They are torchvision's architectures with three early exits added at the block
ends nearest to a quarter, a half and three quarters of the MACs. A reader fills
the weights in from a seed, which the model's metadata says: sluice.weights =
seeded. What is stripped are the weights only; constants that shape the
computation (the bounds of a Clip, the amounts of a Pad) stay.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
import torchvision
from torch import nn

from networks import MultiExit, head, layers, parameters, segment_macs, traced

HERE = Path(__file__).resolve().parent
OPSET = 13
CLASSES = 1000
EARLY_EXITS = 3
# A weight has dimensions; scalars are the bounds of a Clip and the like.
STRIPPED_TYPES = (onnx.TensorProto.FLOAT,)

Stages = list[tuple[str, nn.Module]]


def resnet50_stages() -> Stages:
    net = torchvision.models.resnet50(weights=None)
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    groups = {"layer1": net.layer1, "layer2": net.layer2, "layer3": net.layer3, "layer4": net.layer4}
    blocks = [(f"{name}_{i}", b) for name, group in groups.items() for i, b in enumerate(group)]
    return [("stem", stem), *blocks]


def inceptionv3_stages() -> Stages:
    net = torchvision.models.inception_v3(
        weights=None, aux_logits=False, transform_input=False, init_weights=False
    )
    # In order of execution up to the pool, the dropout and the classifier,
    # which is how torchvision declares them.
    return [
        (name, part) for name, part in net.named_children() if name not in ("avgpool", "dropout", "fc")
    ]


def mobilenetv2_stages() -> Stages:
    net = torchvision.models.mobilenet_v2(weights=None)
    return [(f"features_{i}", part) for i, part in enumerate(net.features)]


@dataclass(frozen=True)
class Architecture:
    stages: Callable[[], Stages]
    size: int  # height and width of the input


ARCHITECTURES = {
    "resnet50": Architecture(resnet50_stages, 224),
    "inceptionv3": Architecture(inceptionv3_stages, 299),
    "mobilenetv2": Architecture(mobilenetv2_stages, 224),
}


def with_exits(stages: Stages, size: int) -> tuple[MultiExit, list[str]]:
    """The network cut into segments by early exits, and the stages after which they come."""
    x = torch.zeros(1, 3, size, size)
    cumulative, channels = [], []
    for _, stage in stages:
        x, found = traced(stage, x)
        cumulative.append((cumulative[-1] if cumulative else 0) + sum(layer.macs for layer in found))
        channels.append(x.shape[1])
    segments, names, begin = [], [], 0
    for exit_number in range(1, EARLY_EXITS + 2):
        target = cumulative[-1] * exit_number / (EARLY_EXITS + 1)
        last = min(range(begin, len(stages)), key=lambda i: abs(cumulative[i] - target))
        if exit_number == EARLY_EXITS + 1:
            # The last exit follows the whole trunk, MACs or not.
            last = len(stages) - 1
        trunk = nn.Sequential()
        for name, stage in stages[begin : last + 1]:
            trunk.add_module(name, stage)
        segments.append((trunk, head(channels[last], CLASSES)))
        names.append(stages[last][0])
        begin = last + 1
    return MultiExit(segments), names


def make_distinct(network: MultiExit) -> None:
    """Give every normalisation an offset of its own.

    Untrained, all are zero, and the exporter then merges the equal tensors of
    different layers into one, as it would not for a trained network.
    """
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.bias)


def export(network: MultiExit, size: int) -> onnx.ModelProto:
    network.eval()
    names = [f"exit{i + 1}" for i in range(len(network.heads))]
    stream = io.BytesIO()
    torch.onnx.export(
        network,
        (torch.zeros(1, 3, size, size),),
        stream,
        opset_version=OPSET,
        input_names=["input"],
        output_names=names,
        dynamic_axes={name: {0: "batch"} for name in ["input", *names]},
        dynamo=False,
    )
    model = onnx.load_from_string(stream.getvalue())
    # Before the weights go: the checker rightly objects to tensors without data.
    onnx.checker.check_model(model, full_check=True)
    return model


def strip(model: onnx.ModelProto) -> None:
    """Remove the data of every weight; its name, shape and type stay."""
    for tensor in model.graph.initializer:
        if tensor.dims and tensor.data_type in STRIPPED_TYPES:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    onnx.helper.set_model_props(model, {"sluice.weights": "seeded"})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the .onnx files and structures.json")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    described: dict[str, object] = {}
    for name, architecture in ARCHITECTURES.items():
        network, after = with_exits(architecture.stages(), architecture.size)
        make_distinct(network)
        model = export(network, architecture.size)
        strip(model)
        content = model.SerializeToString(deterministic=True)
        (args.out / f"{name}.onnx").write_bytes(content)
        macs = segment_macs(layers(network, (3, architecture.size, architecture.size)))
        described[name] = {
            "bytes": len(content),
            "exits_after": after,
            "input": [3, architecture.size, architecture.size],
            "macs": sum(macs),
            "macs_by_segment": macs,
            "operators": sorted({node.op_type for node in model.graph.node}),
            "parameters": parameters(network),
        }
        print(f"{name}: {len(content)} bytes, exits after {after}, MACs {macs}")
    described["versions"] = {
        "onnx": onnx.__version__,
        "opset": OPSET,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }
    (args.out / "structures.json").write_text(json.dumps(described, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
