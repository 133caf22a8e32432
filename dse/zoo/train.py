#!/usr/bin/env python3
"""Train one of the Fashion-MNIST networks, export it to ONNX and record its figures.

The run is a function of the seed, the software versions and the processor's
arithmetic: the same command on the same machine writes the same weights.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

import idx
from networks import NETWORKS, MultiExit, layers, parameters, segment_macs

HERE = Path(__file__).resolve().parent
# The order in which a sum is split over threads decides its rounding, so another
# count gives other weights.
THREADS = 2
OPSET = 13
THETA = 0.8
EXPORT_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Recipe:
    epochs: int
    batch: int
    peak_rate: float
    weight_decay: float
    label_smoothing: float
    max_shift: int  # pixels, either way
    # One weight per exit. The early exits weigh less, so that what they need
    # does not hold back the trunk's features for the last one.
    exit_weights: tuple[float, ...]
    # Epochs behind those, with weights and maps rounded to 8 bits, from a tenth of the peak rate.
    int8_epochs: int = 0


RECIPES = {
    "fashion": Recipe(80, 128, 0.1, 5e-4, 0.05, 2, (0.2, 0.3, 0.3, 1.0)),
    "mobile": Recipe(14, 128, 0.1, 1e-4, 0.0, 1, (0.3, 0.5, 1.0), int8_epochs=4),
    "tiny": Recipe(6, 128, 0.1, 1e-4, 0.0, 1, (0.5, 1.0)),
}


def to_input(images: Tensor) -> Tensor:
    """The networks' input, pixel/255 in NCHW, for unsigned-byte images in NHW."""
    return images.unsqueeze(1).float().div_(255).contiguous(memory_format=torch.channels_last)


def augment(images: Tensor, recipe: Recipe, rng: torch.Generator) -> Tensor:
    """Shift and mirror each image (NHW bytes) on its own draw."""
    n, height, width = images.shape
    span = 2 * recipe.max_shift + 1
    padded = F.pad(images, (recipe.max_shift,) * 4)
    rows = torch.randint(span, (n, 1), generator=rng) + torch.arange(height)
    cols = torch.randint(span, (n, 1), generator=rng) + torch.arange(width)
    mirrored = torch.rand(n, 1, generator=rng) < 0.5
    cols = torch.where(mirrored, cols.flip(1), cols)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], cols[:, None, :]]


class Weights8(nn.Module):
    """Weights in 127 steps an output channel. A normalisation behind scales steps and weights alike."""

    def forward(self, w: Tensor) -> Tensor:
        step = w.detach().abs().amax(tuple(range(1, w.ndim)), keepdim=True) / 127
        return w + ((w / step).round() * step - w).detach()


class Maps8:
    """A map in 255 steps between a running least and largest value, zero among the codes."""

    def __init__(self) -> None:
        self.lo, self.hi = 0.0, 0.0

    def __call__(self, part: nn.Module, _: tuple[Tensor, ...], x: Tensor) -> Tensor:
        lo, hi = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
        keep = 0.98 if self.hi > self.lo else 0.0
        self.lo, self.hi = keep * self.lo + (1 - keep) * lo, keep * self.hi + (1 - keep) * hi
        step = (self.hi - self.lo) / 255
        zero = round(-self.lo / step)
        clamped = x.clamp(-zero * step, (255 - zero) * step)
        return clamped + ((clamped / step).round() * step - clamped).detach()


@contextmanager
def int8(network: MultiExit) -> Iterator[None]:
    """Round as dse/quant does, gradients passing: every weight and every map that a layer writes."""
    handles = []
    for part in network.modules():
        if isinstance(part, (nn.Conv2d, nn.Linear)):
            parametrize.register_parametrization(part, "weight", Weights8())
        if isinstance(part, (nn.ReLU, nn.AdaptiveAvgPool2d, nn.Linear)):
            handles.append(part.register_forward_hook(Maps8()))
    yield
    for handle in handles:
        handle.remove()
    for part in network.modules():
        if parametrize.is_parametrized(part):
            parametrize.remove_parametrizations(part, "weight", leave_parametrized=False)


def train(
    network: MultiExit, images: Tensor, labels: Tensor, recipe: Recipe, seed: int, bf16: bool
) -> None:
    rng = torch.Generator().manual_seed(seed)
    # Decay pulls a normalisation's scale and a bias nowhere useful.
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
        lr=recipe.peak_rate,
        momentum=0.9,
        nesterov=True,
        weight_decay=recipe.weight_decay,
    )
    steps = len(images) // recipe.batch
    total = steps * recipe.epochs
    # Cosine to zero after a short linear rise: without the rise the first
    # steps at the peak rate leave dead channels behind.
    warm = max(1, total // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: (step + 1) / warm
        if step < warm
        else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm))),
    )
    network.train()
    for epoch in range(recipe.epochs):
        begin = time.monotonic()
        order = torch.randperm(len(images), generator=rng)
        losses = torch.zeros(len(recipe.exit_weights))
        for step in range(steps):
            pick = order[step * recipe.batch : (step + 1) * recipe.batch]
            x = to_input(augment(images[pick], recipe, rng))
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                exits = network(x)
            each = [
                F.cross_entropy(z.float(), labels[pick], label_smoothing=recipe.label_smoothing)
                for z in exits
            ]
            loss = sum(w * l for w, l in zip(recipe.exit_weights, each))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += torch.stack(each).detach()
        mean = " ".join(f"{l:.4f}" for l in (losses / steps).tolist())
        print(
            f"epoch {epoch + 1}/{recipe.epochs}: losses {mean}, {time.monotonic() - begin:.1f} s",
            flush=True,
        )


def evaluate(network: MultiExit, images: Tensor) -> np.ndarray:
    """Logits of every exit, [exit][image][class], in evaluation mode and float32."""
    network.eval()
    parts = []
    with torch.inference_mode():
        for x in to_input(images).split(500):
            parts.append(torch.stack(network(x)))
    return torch.cat(parts, dim=1).numpy()


def exit_accuracy(logits: np.ndarray, labels: np.ndarray) -> list[float]:
    return [round(float((z.argmax(1) == labels).mean()), 4) for z in logits]


def at_threshold(
    logits: np.ndarray, labels: np.ndarray, macs: list[int], theta: float
) -> dict[str, object]:
    """What an image's leaving at the first confident exit does.

    Confident means that the largest softmax probability is at least theta. An
    image that no exit is confident of leaves at the last.
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(2, keepdims=True))
    confident = (shifted / shifted.sum(2, keepdims=True)).max(2) >= theta
    confident[-1] = True
    taken = confident.argmax(0)
    predicted = logits.argmax(2)[taken, np.arange(len(labels))]
    cumulative = np.cumsum(macs)
    return {
        "theta": theta,
        "rule": "largest softmax probability >= theta; the last exit takes the rest",
        "exit_rates": [round(float((taken == e).mean()), 4) for e in range(len(logits))],
        "accuracy_of_taken": [
            round(float((predicted == labels)[taken == e].mean()), 4) if (taken == e).any() else None
            for e in range(len(logits))
        ],
        "accuracy": round(float((predicted == labels).mean()), 4),
        "mean_macs": int(round(float(cumulative[taken].mean()))),
    }


def export(network: MultiExit) -> bytes:
    """The network as ONNX with its normalisations as nodes of their own."""
    network.eval()
    names = [f"exit{i + 1}" for i in range(len(network.heads))]
    stream = io.BytesIO()
    torch.onnx.export(
        network.to(memory_format=torch.contiguous_format),
        (torch.zeros(1, 1, 28, 28),),
        stream,
        # The exporter's default folds normalisation into the convolutions;
        # with PRESERVE the network, being in evaluation mode, stays as it is.
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        opset_version=OPSET,
        input_names=["input"],
        output_names=names,
        dynamic_axes={name: {0: "batch"} for name in ["input", *names]},
        dynamo=False,
    )
    model = onnx.load_from_string(stream.getvalue())
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def export_error(model: bytes, images: Tensor, logits: np.ndarray) -> float:
    """Largest difference of onnxruntime's logits from PyTorch's."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    got = session.run(None, {"input": np.ascontiguousarray(to_input(images).numpy())})
    return float(np.abs(np.stack(got) - logits[:, : len(images)]).max())


def record(path: Path, name: str, figures: dict[str, object]) -> None:
    """Put a network's figures into the shared file, leaving the others' alone."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content[name] = figures
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    parser.add_argument("--epochs", type=int, help="default: the network's recipe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of NETWORK.onnx and figures.json")
    parser.add_argument("--data", type=Path, default=idx.DEFAULT_DATA, help="folder of the idx.gz files")
    parser.add_argument(
        "--holdout",
        type=int,
        default=0,
        metavar="N",
        help="train without the last N training images and measure on those, not on the test "
        "images: for choosing between recipes; exports nothing",
    )
    parser.add_argument(
        "--bf16", action="store_true", help="multiply in bfloat16 while training (weights stay float32)"
    )
    parser.add_argument("--threads", type=int, default=THREADS, help="default: %(default)s")
    args = parser.parse_args(argv)
    if args.epochs is not None and args.epochs < 1:
        parser.error("--epochs must be at least 1")
    if args.holdout < 0:
        parser.error("--holdout must not be negative")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    recipe = RECIPES[args.network]
    if args.epochs is not None:
        recipe = Recipe(**{**asdict(recipe), "epochs": args.epochs})
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)

    try:
        images, labels = (idx.read_idx(args.data / f) for f in (idx.TRAIN_IMAGES, idx.TRAIN_LABELS))
        if args.holdout:
            measured, expected = images[-args.holdout :], labels[-args.holdout :]
            images, labels = images[: -args.holdout], labels[: -args.holdout]
        else:
            measured, expected = (idx.read_idx(args.data / f) for f in (idx.TEST_IMAGES, idx.TEST_LABELS))
    except (OSError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 1

    network = NETWORKS[args.network]().to(memory_format=torch.channels_last)
    found = layers(network)
    macs = segment_macs(found)
    print(f"{args.network}: {parameters(network)} parameters, MACs by segment {macs}, total {sum(macs)}")
    begin = time.monotonic()
    of = (torch.tensor(images), torch.tensor(labels, dtype=torch.int64))
    train(network, *of, recipe, args.seed, args.bf16)
    if recipe.int8_epochs:
        with int8(network):
            fine = replace(recipe, epochs=recipe.int8_epochs, peak_rate=recipe.peak_rate / 10)
            train(network, *of, fine, args.seed, args.bf16)
    seconds = time.monotonic() - begin
    test = torch.tensor(measured)
    logits = evaluate(network, test)
    accuracy = exit_accuracy(logits, expected)
    threshold = at_threshold(logits, expected, macs, THETA)
    print(f"accuracy by exit {accuracy}; at theta {THETA}: {threshold}")
    if args.holdout:
        return 0

    model = export(network)
    error = export_error(model, test[:1000], logits)
    if error >= EXPORT_TOLERANCE:
        print(f"train.py: the exported model differs from PyTorch's by {error}", file=sys.stderr)
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{args.network}.onnx").write_bytes(model)
    record(
        args.out / "figures.json",
        args.network,
        {
            "accuracy": accuracy,
            "accuracy_images": len(expected),
            "at_threshold": threshold,
            "bf16_training": args.bf16,
            "bytes": len(model),
            "export_max_abs_error": error,
            "layers": [asdict(layer) for layer in found],
            "macs": sum(macs),
            "macs_by_segment": macs,
            "parameters": parameters(network),
            "recipe": asdict(recipe),
            "seed": args.seed,
            "threads": args.threads,
            "training_images": len(images),
            "training_seconds": round(seconds),
            "versions": {
                "numpy": np.__version__,
                "onnx": onnx.__version__,
                "onnxruntime": onnxruntime.__version__,
                "opset": OPSET,
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
