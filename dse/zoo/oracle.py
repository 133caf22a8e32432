#!/usr/bin/env python3
"""Run a multi-exit model in onnxruntime and write every exit's logits.

This is the reference that the other implementations of the same model are
compared with; it shares no code with them. The output is a plain binary, all of
it little-endian:

    char    magic[4]           "SLOR"
    uint32  version            1
    uint32  n_images
    uint32  n_exits
    uint32  classes[n_exits]
    float32 data[]             exit-major: for each exit, for each image, its logits

The exits are the model's outputs in the model's order, or the tensors named by --exit. The images of --images
are unsigned bytes and are divided by 255; a .npy file of float32 is taken as it
is. Layouts: [image][row][column], which gets one channel, or NCHW.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import struct
import sys
from pathlib import Path

import numpy as np
import onnxruntime

import idx

MAGIC = b"SLOR"
VERSION = 1
BATCH = 256
FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class OracleError(Exception):
    """Something about the arguments or the files that the user can put right."""


def parse_shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if len(shape) != 4 or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not four positive integers N,C,H,W")
    return shape


def non_negative(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return int(text)


def load_images(path: Path) -> np.ndarray:
    """Images in NCHW, still unsigned bytes or float32: scaling is done batch by batch."""
    if not path.is_file():
        raise OracleError(f"{path}: no such file")
    if path.suffix == ".npy":
        try:
            images = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise OracleError(f"{path}: {error}") from error
    else:
        try:
            images = idx.read_idx(path)
        except (OSError, ValueError) as error:  # they name the file
            raise OracleError(str(error)) from error
    if images.dtype not in (np.uint8, np.float32):
        raise OracleError(f"{path}: images are {images.dtype}, not uint8 or float32")
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4:
        raise OracleError(f"{path}: {images.ndim} dimensions, not three or four")
    return images


def load_raw(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    if not path.is_file():
        raise OracleError(f"{path}: no such file")
    expected = 4 * math.prod(shape)
    if path.stat().st_size != expected:
        raise OracleError(f"{path}: {path.stat().st_size} bytes, the shape needs {expected}")
    return np.memmap(path, dtype="<f4", mode="r", shape=shape)


def select(images: np.ndarray, start: int, count: int | None) -> np.ndarray:
    total = len(images)
    end = total if count is None else start + count
    if start >= total or end > total or end == start:
        raise OracleError(f"images {start} up to {end} of {total} cannot be selected")
    return images[start:end]


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def field(number: int, content: bytes) -> bytes:
    """A protobuf field of bytes."""
    size, varint = len(content), b""
    while size > 127:
        varint += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([size]) + content


def with_outputs(model: bytes, names: list[str]) -> bytes:
    """The model with tensors as outputs too: protobuf messages merge when they are joined."""
    return model + b"".join(field(7, field(12, field(1, name.encode()))) for name in names)


def session_in(folder: Path | None, model: str | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """A session; data outside a model that is bytes are looked for in the working folder."""
    with contextlib.chdir(folder) if folder else contextlib.nullcontext():
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def open_session(path: Path, exits: list[str], folder: Path | None = None) -> onnxruntime.InferenceSession:
    if not path.is_file():
        raise OracleError(f"{path}: no such file")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised and reported here
    # The model as it stands: onnxruntime 1.19.2 fuses a Pad into the AveragePool behind it and then leaves the
    # padding out of the average (Inception-v3 as PyTorch 1.13 exports it: 8 % off).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model: str | bytes = path.read_bytes() if folder else str(path)
    try:
        if exits:
            have = session_in(folder, model, options).get_outputs()
            missing = [name for name in exits if name not in {o.name for o in have}]
            if missing:
                model, folder = with_outputs(path.read_bytes(), missing), folder or path.parent
        session = session_in(folder, model, options)
    except Exception as error:  # onnxruntime's exceptions have no common public base
        raise OracleError(f"{path}: onnxruntime cannot load it: {one_line(error)}") from error
    if len(session.get_inputs()) != 1:
        raise OracleError(f"{path}: {len(session.get_inputs())} inputs, not one")
    return session


def infer(session: onnxruntime.InferenceSession, images: np.ndarray, exits: list[str]) -> list[np.ndarray]:
    """The logits of each exit, [image][class]."""
    shape = session.get_inputs()[0].shape
    fixed = shape[0] if isinstance(shape[0], int) and shape[0] > 0 else None  # a name where it is open
    if len(shape) == 2:  # N x C
        if images.shape[2:] != (1, 1):
            raise OracleError(f"images of shape {images.shape[1:]}, the model takes vectors")
        images = images[:, :, 0, 0]
    try:
        return infer_by(session, images, exits, fixed or BATCH, fixed is not None)
    except OracleError:
        if fixed is not None or len(images) == 1:
            raise
        # A Reshape to [1, -1] says that the batch is open and is 1.
        return infer_by(session, images, exits, 1, False)


def infer_by(session: onnxruntime.InferenceSession, images: np.ndarray, exits: list[str], size: int, fixed: bool) -> list[np.ndarray]:
    """infer with so many images at a time; fixed: no fewer at the end either."""
    name = session.get_inputs()[0].name
    wanted = exits or [output.name for output in session.get_outputs()]
    parts: list[list[np.ndarray]] = [[] for _ in wanted]
    for begin in range(0, len(images), size):
        batch = np.ascontiguousarray(images[begin : begin + size])
        real = len(batch)
        if fixed and real < size:
            batch = np.concatenate([batch, np.repeat(batch[-1:], size - real, axis=0)])
        # Bytes are scaled in float32, as they were for training.
        x = batch.astype(np.float32) / np.float32(255) if batch.dtype == np.uint8 else batch
        kind = session.get_inputs()[0].type
        x = np.rint(x).astype(np.uint8) if kind == "tensor(uint8)" else x.astype(FLOATS.get(kind, np.float32), copy=False)
        try:
            outputs = session.run(wanted, {name: x})
        except Exception as error:  # as above
            raise OracleError(f"onnxruntime failed on images of shape {x.shape[1:]}: {one_line(error)}") from error
        for part, output, what in zip(parts, outputs, wanted):
            if len(output) != len(x):
                raise OracleError(f"output {what}: {output.shape} of {len(x)} images")
            part.append(output[:real])
    found = [np.concatenate(part) for part in parts]
    for i, (output, logits) in enumerate(zip(wanted, found)):
        logits = logits.reshape(len(logits), -1)  # a map as it lies in the file
        if logits.dtype in FLOATS.values():
            logits = logits.astype(np.float32)
        found[i] = logits
        if logits.ndim != 2 or logits.dtype != np.float32:
            raise OracleError(f"output {output}: {logits.dtype} {logits.shape}, not float32 [image][class]")
    return found


def write(path: Path, exits: list[np.ndarray]) -> None:
    header = struct.pack("<4sIII", MAGIC, VERSION, len(exits[0]), len(exits))
    header += struct.pack(f"<{len(exits)}I", *(logits.shape[1] for logits in exits))
    try:
        with open(path, "wb") as stream:
            stream.write(header)
            for logits in exits:
                stream.write(logits.astype("<f4").tobytes())
    except OSError as error:
        raise OracleError(f"{path}: {error.strerror}") from error


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--images", type=Path, metavar="FILE", help=".npy or idx.gz file")
    source.add_argument("--raw", type=Path, metavar="FILE", help="little-endian float32, NCHW; needs --shape")
    parser.add_argument("--shape", type=parse_shape, metavar="N,C,H,W", help="of the --raw file")
    parser.add_argument("--channels-last", action="store_true", help="the model takes N x H x W x C")
    parser.add_argument("--start", type=non_negative, default=0, help="first image (default 0)")
    parser.add_argument("--n", type=non_negative, help="number of images (default: all from --start on)")
    parser.add_argument("--exit", action="append", default=[], metavar="TENSOR", help="an exit, in place of the model's outputs; once for each")
    parser.add_argument("--folder", type=Path, help="where data outside the model lie (default: beside it)")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    if (args.raw is None) != (args.shape is None):
        parser.error("--raw and --shape go together")
    try:
        images = load_raw(args.raw, args.shape) if args.raw else load_images(args.images)
        if args.channels_last:
            images = images.transpose(0, 2, 3, 1)
        exits = infer(open_session(args.model, args.exit, args.folder), select(images, args.start, args.n), args.exit)
        write(args.out, exits)
    except OracleError as error:
        print(f"oracle.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
