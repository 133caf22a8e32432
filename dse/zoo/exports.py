#!/usr/bin/env python3
"""Write torchvision's networks as PyTorch exports them, without their weights, for the importer's tests.

testdata/exports/NAME.EXPORTER.onnx.gz: what torch.onnx.export writes with both its exporters (script:
opset 13, the weights in the file; dynamo: the exporter's own opset, the weights in a file beside it),
untouched but for what a fixture has no use for: the data of the weights (a reader draws them from a
seed, sluice.weights = seeded) and the exporter's notes on where in a program a node comes from.

    python3 -m venv venv && venv/bin/pip install -r requirements-exports.txt
    venv/bin/python exports.py
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
import torch
import torchvision
from torch import Tensor, nn

from structure import make_distinct, strip

HERE = Path(__file__).resolve().parent
OPSET = 13  # of the script exporter
models = torchvision.models


class WithExit(nn.Module):
    """A network with a head of its own after one of its parts: two exits."""

    def __init__(self, net: nn.Module, part: str, head: nn.Module) -> None:
        super().__init__()
        self.net, self.head, self.seen = net, head, torch.empty(0)
        getattr(net, part).register_forward_hook(self.see)

    def see(self, _: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        self.seen = output

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        last = self.net(x)
        return self.head(self.seen), last


class Normalised(nn.Module):
    """A network with its pre-processing and its softmax inside."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.net((x - self.mean) / self.deviation), 1)


def inception_with_exit() -> nn.Module:
    net = models.inception_v3(weights=None, init_weights=False)
    return WithExit(net, "Mixed_6e", net.AuxLogits)


# transform_input is what torchvision sets for its pretrained weights.
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{name: lambda name=name: getattr(models, name)(weights=None) for name in (
        "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg16", "vgg19", "vgg11_bn",
        "mobilenet_v2", "squeezenet1_0", "squeezenet1_1", "densenet121", "mnasnet1_0",
    )},
    "inception_v3": lambda: models.inception_v3(weights=None, init_weights=False, transform_input=True),
    "inception_v3_exit": inception_with_exit,
    "googlenet": lambda: models.googlenet(weights=None, init_weights=False, transform_input=True),
    "squeezenet1_1_normalised": lambda: Normalised(models.squeezenet1_1(weights=None)),
}


def export(network: nn.Module, side: int, dynamo: bool) -> onnx.ModelProto:
    network.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        args = {"dynamo": True} if dynamo else {"dynamo": False, "opset_version": OPSET}
        torch.onnx.export(network, (torch.zeros(1, 3, side, side),), str(path), **args)
        return onnx.load(path)


def forget(model: onnx.ModelProto) -> None:
    """Remove what says where the model was made, which no reader uses."""
    for part in [model, model.graph, *model.graph.node, *model.graph.initializer, *model.graph.value_info,
                 *model.graph.input, *model.graph.output]:
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    model.graph.ClearField("value_info")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "testdata" / "exports")
    parser.add_argument("--network", choices=sorted(NETWORKS), action="append", help="default: all")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    for name in args.network or NETWORKS:
        network = NETWORKS[name]()
        make_distinct(network)
        for exporter, dynamo in (("script", False), ("dynamo", True)):
            model = export(network, 299 if name.startswith("inception") else 224, dynamo)
            forget(model)
            strip(model)
            path = args.out / f"{name}.{exporter}.onnx.gz"
            # Without a time, so that the same model is the same bytes.
            path.write_bytes(gzip.compress(model.SerializeToString(deterministic=True), mtime=0))
            print(f"{path.name}: {path.stat().st_size} bytes, {len(model.graph.node)} nodes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
