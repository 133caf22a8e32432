"""Reader for the gzip-compressed IDX files in which Fashion-MNIST is distributed."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np

# Where Debian's package dataset-fashion-mnist puts the files.
DEFAULT_DATA = Path("/usr/share/datasets/fashion-mnist")

TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"

_UBYTE = 0x08


def read_idx(path: Path) -> np.ndarray:
    """Return the unsigned-byte tensor in the IDX file at path (gzip-compressed).

    Raises ValueError, naming the file, when the content is not such a tensor.
    """
    with gzip.open(path, "rb") as stream:
        try:
            content = stream.read()
        except (OSError, EOFError) as error:
            raise ValueError(f"{path}: not a complete gzip file: {error}") from error
    if len(content) < 4:
        raise ValueError(f"{path}: {len(content)} bytes are too few for an IDX header")
    zero, kind, rank = struct.unpack_from(">HBB", content)
    if zero != 0 or kind != _UBYTE:
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    start = 4 + 4 * rank
    if rank == 0 or len(content) < start:
        raise ValueError(f"{path}: truncated IDX header")
    dims = struct.unpack_from(f">{rank}I", content, 4)
    if len(content) - start != math.prod(dims):
        raise ValueError(
            f"{path}: {len(content) - start} bytes of data, the header's {dims} needs {math.prod(dims)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(dims)
