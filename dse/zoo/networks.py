"""The multi-exit networks that are trained for Fashion-MNIST, and a MAC counter.

Every network is a sequence of segments. A segment is a trunk part and a head
on top of it; the head's logits are one exit. The next segment's trunk part
continues from the trunk, not from the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CLASSES = 10


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
            self.shortcut = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(y + (x if self.shortcut is None else self.shortcut(x)))


def head(channels: int, before: nn.Module | None = None) -> nn.Sequential:
    """Global average pool and a linear classifier, after `before` if there is one."""
    parts: list[nn.Module] = [] if before is None else [before]
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)
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
                head(32, conv_bn_relu(16, 32, stride=2)),
            ),
            (Residual(16, 48, 48, stride=2), head(48)),
            (Residual(48, 32, 48), head(48)),
            (Residual(48, 72, 72, stride=2), head(72)),
        ]
    )


def tiny() -> MultiExit:
    """Two exits; small enough to be simulated within a unit test."""
    return MultiExit(
        [
            (nn.Sequential(conv_bn_relu(1, 8, stride=2), nn.MaxPool2d(2)), head(8)),
            (nn.Sequential(conv_bn_relu(8, 16, stride=2), Residual(16, 16, 16)), head(16)),
        ]
    )


@dataclass(frozen=True)
class Layer:
    segment: int  # 1 for the first
    name: str
    kernel: int  # 1 for a linear layer
    stride: int
    shape: tuple[int, ...]  # of the output, without the batch
    macs: int


def layers(network: MultiExit, size: int = 28) -> list[Layer]:
    """The convolutions and linear layers, in order of execution, for one image."""
    found: list[Layer] = []

    def hook_for(segment: int, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(module: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
            shape = tuple(output.shape[1:])
            if isinstance(module, nn.Conv2d):
                kernel, stride = module.kernel_size[0], module.stride[0]
                fan_in = module.in_channels * kernel * kernel
            else:
                kernel, stride, fan_in = 1, 1, module.in_features
            found.append(Layer(segment, name, kernel, stride, shape, output[0].numel() * fan_in))

        return hook

    handles = [
        module.register_forward_hook(hook_for(int(name.split(".")[1]) + 1, name))
        for name, module in network.named_modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    was_training = network.training
    network.eval()
    with torch.no_grad():
        network(torch.zeros(1, 1, size, size))
    network.train(was_training)
    for handle in handles:
        handle.remove()
    return found


def segment_macs(network: MultiExit) -> list[int]:
    """MACs of each segment, its head included."""
    totals = [0] * len(network.heads)
    for layer in layers(network):
        totals[layer.segment - 1] += layer.macs
    return totals


def parameters(network: nn.Module) -> int:
    """Trainable parameters; the running statistics of a normalisation are not."""
    return sum(p.numel() for p in network.parameters())


NETWORKS: dict[str, Callable[[], MultiExit]] = {"fashion": fashion, "tiny": tiny}
