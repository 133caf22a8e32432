#!/usr/bin/env python3
"""Compile U-Nets of five levels, with transposed convolutions and with bilinear Resize, and hold their maps to onnxruntime.

Weights come from a seed, norms are fitted to photographs, as in thirty.py, whose environment this runs in (`make zoo30` sets it up).
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import thirty

SIDE, CLASSES, WIDTHS = 160, 21, [16, 32, 64, 128, 256]


def convs(a: int, b: int) -> nn.Module:
    half = lambda a: (nn.Conv2d(a, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
    return nn.Sequential(*half(a), *half(b))


class UNet(nn.Module):
    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        steps = list(zip(WIDTHS[:0:-1], WIDTHS[-2::-1]))
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList([convs(a, b) for a, b in zip([3] + WIDTHS[:-1], WIDTHS)])
        self.scale = nn.ModuleList(
            [nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(a, b, 1)) if bilinear else nn.ConvTranspose2d(a, b, 2, 2) for a, b in steps]
        )
        self.up = nn.ModuleList([convs(2 * b, b) for _, b in steps])
        self.head = nn.Conv2d(WIDTHS[0], CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(self.pool(x) if i else x)
            kept.append(x)
        for scale, layer, beside in zip(self.scale, self.up, kept[-2::-1]):
            x = layer(torch.cat((beside, scale(x)), 1))
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dse", type=Path, default=thirty.HERE.parents[1] / "bin" / "dse")
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--config", default="zc706")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    calibrate, held = thirty.unpack(args.wheels, args.work / "photos")
    for bilinear in (False, True):
        torch.manual_seed(thirty.SEED)
        net, path = UNet(bilinear), args.work / "unet.onnx"
        thirty.fit(net, sorted(calibrate.iterdir()), SIDE)
        thirty.export(net, SIDE, path)
        row = thirty.agree(args.dse, args.config, path, calibrate, held)
        print("bilinear" if bilinear else "transposed", row.get("why") or f"{row['layers']} layers, at most {100 * row['worst']:.2f} % off", flush=True)


if __name__ == "__main__":
    main()
