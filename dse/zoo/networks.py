"""Multi-exit networks, those trained for Fashion-MNIST in particular, and a MAC counter.

A network is a sequence of segments. A segment is a trunk part and a head
on top of it; the head's logits are one exit. The next segment's trunk part
continues from the trunk, not from the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


def conv_bn_relu(cin: int, cout: int, stride: int = 1) -> nn.Sequential:
    # No convolution bias: the normalisation that follows has one.
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()
    )


class Residual(nn.Module):
    """Two 3x3 convolutions with a shortcut, narrowed to `mid` channels in between.

    The shortcut is a 1x1 convolution where the shape changes, otherwise none.
    """

    def __init__(self, cin: int, mid: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, mid, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(mid, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut: nn.Module | None = None
        if stride != 1 or cin != cout:
            normalise = nn.BatchNorm2d(cout)
            # The offsets of the two normalisations are added together, so their
            # gradients are equal: from an equal start they would stay equal, and
            # the ONNX exporter would merge them into one tensor.
            nn.init.uniform_(normalise.bias, -0.1, 0.1)
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), normalise)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + (x if self.shortcut is None else self.shortcut(x)))


def separable(cin: int, cout: int, stride: int = 1) -> nn.Sequential:
    """MobileNet's block: a 3x3 convolution of each channel by itself, then a 1x1 one."""
    return nn.Sequential(
        nn.Sequential(
            nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False), nn.BatchNorm2d(cin), nn.ReLU()
        ),
        nn.Sequential(nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()),
    )


def head(channels: int, classes: int = 10, before: nn.Module | None = None) -> nn.Sequential:
    """Global average pool and a linear classifier, after `before` if there is one."""
    parts: list[nn.Module] = [] if before is None else [before]
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


class MultiExit(nn.Module):
    def __init__(self, segments: list[tuple[nn.Module, nn.Module]]) -> None:
        super().__init__()
        self.trunk = nn.ModuleList(part for part, _ in segments)
        self.heads = nn.ModuleList(exit_head for _, exit_head in segments)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        logits = []
        for part, exit_head in zip(self.trunk, self.heads):
            x = part(x)
            logits.append(exit_head(x))
        return tuple(logits)


def fashion() -> MultiExit:
    """Four exits, each segment about a quarter of the MACs.

    The width grows with the depth, so that each exit has a reason to be better
    than the one before it.
    """
    return MultiExit(
        [
            (
                nn.Sequential(conv_bn_relu(1, 16), nn.MaxPool2d(2), Residual(16, 16, 16)),
                # 16 averages are too few to tell ten classes apart; 32 of a
                # smaller map cost a fifth of the segment.
                head(32, before=conv_bn_relu(16, 32, stride=2)),
            ),
            (Residual(16, 48, 48, stride=2), head(48)),
            (Residual(48, 24, 48), head(48)),
            (Residual(48, 72, 72, stride=2), head(72)),
        ]
    )


def tiny() -> MultiExit:
    """Two exits; small enough to be simulated within a unit test."""
    return MultiExit(
        [
            (
                nn.Sequential(conv_bn_relu(1, 8, stride=2), nn.MaxPool2d(2), Residual(8, 8, 8)),
                head(8),
            ),
            (Residual(8, 16, 16, stride=2), head(16)),
        ]
    )


def mobile() -> MultiExit:
    """Three exits of depthwise blocks, for designs with the depthwise unit."""
    return MultiExit(
        [
            (nn.Sequential(conv_bn_relu(1, 16, stride=2), separable(16, 32, stride=2)), head(32)),
            (nn.Sequential(separable(32, 48), separable(48, 48)), head(48)),
            (nn.Sequential(separable(48, 96, stride=2), separable(96, 96)), head(96)),
        ]
    )


@dataclass(frozen=True)
class Layer:
    name: str
    kernel: tuple[int, int]  # height and width; 1, 1 for a linear layer
    stride: int
    shape: tuple[int, ...]  # of the output, without the batch
    macs: int  # for one image


def traced(module: nn.Module, x: Tensor) -> tuple[Tensor | tuple[Tensor, ...], list[Layer]]:
    """Run module on x: its output, and the convolutions and linear layers in their order."""
    found: list[Layer] = []

    def hook_for(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(part: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
            if isinstance(part, nn.Conv2d):
                kernel, stride = part.kernel_size, part.stride[0]
                fan_in = part.in_channels // part.groups * kernel[0] * kernel[1]
            else:
                kernel, stride, fan_in = (1, 1), 1, part.in_features
            macs = output[0].numel() * fan_in
            found.append(Layer(name, kernel, stride, tuple(output.shape[1:]), macs))

        return hook

    handles = [
        part.register_forward_hook(hook_for(name))
        for name, part in module.named_modules()
        if isinstance(part, (nn.Conv2d, nn.Linear))
    ]
    was_training = module.training
    module.eval()
    with torch.no_grad():
        output = module(x)
    module.train(was_training)
    for handle in handles:
        handle.remove()
    return output, found


def layers(network: MultiExit, shape: tuple[int, int, int] = (1, 28, 28)) -> list[Layer]:
    """The layers of a network whose input has the given shape (CHW)."""
    return traced(network, torch.zeros(1, *shape))[1]


def segment_macs(found: list[Layer]) -> list[int]:
    """MACs of each segment of a MultiExit with these layers, the heads included."""
    # MultiExit names its parts trunk.SEGMENT.* and heads.SEGMENT.*
    segments = [int(layer.name.split(".")[1]) for layer in found]
    totals = [0] * (max(segments) + 1)
    for segment, layer in zip(segments, found):
        totals[segment] += layer.macs
    return totals


def parameters(network: nn.Module) -> int:
    """Trainable parameters; the running statistics of a normalisation are not."""
    return sum(p.numel() for p in network.parameters())


NETWORKS: dict[str, Callable[[], MultiExit]] = {"fashion": fashion, "mobile": mobile, "tiny": tiny}
