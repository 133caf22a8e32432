#!/usr/bin/env python3
"""Makes the pictures beside it, and what PIL makes of them (expected/, listed in cases.json).

    pip install pillow==12.0.0 numpy simplejpeg==1.9.0 && apt-get install libjpeg-turbo-progs && python3 make.py

Crops follow torchvision's two rules: Resize makes the longer side int(size * long / short), CenterCrop begins at
int(round((size - crop) / 2)).
"""

import json
import os
import struct
import subprocess
import zlib

import numpy as np
import simplejpeg
from PIL import Image, ImageOps

here = os.path.dirname(os.path.abspath(__file__))
pictures = os.path.join(here, "pictures")
os.makedirs(os.path.join(here, "expected"), exist_ok=True)
os.makedirs(pictures, exist_ok=True)
rng = np.random.default_rng(17)
cases = []
JPEG = 0  # its own cosine transform and interpolation of chroma, as libjpeg-turbo has them


def scene(w, h, channels=3):
    """Colours that change from pixel to pixel, and edges."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 120 * np.sin(x / (1.3 + c) + y / (2.1 + c) + c) for c in range(channels)], -1)
    a[(x // 5 + y // 4) % 3 == 0] = rng.integers(0, 256, channels)
    return np.clip(a + rng.normal(0, 12, a.shape), 0, 255).astype(np.uint8)


def name(file):
    return os.path.join(pictures, file)


def expect(file, image, within, **how):
    out = "expected/%d.npy" % len(cases)
    array = np.asarray(image)
    np.save(os.path.join(here, out), array[None])
    cases.append({"file": file, "expected": out, "shape": list(array.shape[:2]) + [array.shape[2] if array.ndim == 3 else 1],
                  "within": within, **how})


def whole(file, within):
    expect(file, Image.open(name(file)).convert("RGB"), within)


# JPEG: every ratio of chroma, odd sizes, and widths at which libjpeg does not interpolate.
for ratio in "444", "422", "420", "440", "411":
    for w, h in (37, 29), (32, 18), (4, 5), (3, 2), (6, 1):
        file = "%s-%dx%d.jpg" % (ratio, w, h)
        with open(name(file), "wb") as f:
            f.write(simplejpeg.encode_jpeg(np.ascontiguousarray(scene(w, h)), quality=92, colorsubsampling=ratio))
        whole(file, JPEG)
Image.fromarray(scene(37, 29)).save(name("progressive.jpg"), progressive=True, quality=90, subsampling="4:2:0")
whole("progressive.jpg", JPEG)
Image.fromarray(scene(23, 17)).save(name("quality30.jfif"), format="JPEG", quality=30, subsampling="4:2:0")
whole("quality30.jfif", JPEG)
Image.fromarray(scene(19, 13, 1)[..., 0]).save(name("grey.jpg"), quality=90)
whole("grey.jpg", JPEG)
Image.fromarray(scene(19, 13, 4), mode="CMYK").save(name("cmyk.jpg"), quality=95, subsampling="4:4:4")
whole("cmyk.jpg", JPEG)

# PNG: alpha, palettes, grey with alpha, 16 bits.
Image.fromarray(scene(11, 7, 4), mode="RGBA").save(name("alpha.png"))
whole("alpha.png", 0)
Image.fromarray(scene(11, 7, 2), mode="LA").save(name("grey-alpha.png"))
whole("grey-alpha.png", 0)
p = Image.fromarray(scene(11, 7)).quantize(16)
p.save(name("palette.png"), transparency=3)
whole("palette.png", 0)
p.quantize(2).save(name("palette-bits.png"), bits=1)
whole("palette-bits.png", 0)
Image.fromarray(scene(11, 7, 1)[..., 0] > 127).save(name("one-bit.png"))
whole("one-bit.png", 0)


def png16(file, array, kind):
    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    h, w = array.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    with open(name(file), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 16, kind, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


png16("rgb16.png", scene(11, 7).astype(int) * 256 + rng.integers(0, 256, (7, 11, 3)), 2)
whole("rgb16.png", 0)
png16("rgba16.png", scene(11, 7, 4).astype(int) * 256 + 77, 6)
whole("rgba16.png", 0)
png16("grey16.png", scene(11, 7, 1)[..., 0].astype(int) * 256 + 99, 0)  # refused

# BMP and WebP.
Image.fromarray(scene(11, 7)).save(name("24.bmp"))
whole("24.bmp", 0)
Image.fromarray(scene(11, 7)).quantize(16).save(name("palette.bmp"))
whole("palette.bmp", 0)
for w, h in (37, 29), (32, 18), (1, 1), (2, 3):
    file = "lossy-%dx%d.webp" % (w, h)
    Image.fromarray(scene(w, h)).save(name(file), quality=90)
    whole(file, 0)
Image.fromarray(scene(19, 12, 4), mode="RGBA").save(name("lossy-alpha.webp"), quality=85, exact=True)
whole("lossy-alpha.webp", 0)
Image.fromarray(scene(19, 12)).save(name("lossless.webp"), lossless=True)
whole("lossless.webp", 0)
frames = [Image.fromarray(scene(9, 9)) for _ in range(2)]
frames[0].save(name("animated.webp"), save_all=True, append_images=frames[1:])  # refused

# EXIF orientations, in all three kinds of files that carry them.
for o in range(1, 9):
    exif = Image.Exif()
    exif[0x112] = o
    for kind in ("png",) if o not in (1, 6) else ("png", "jpg", "webp"):
        file = "orientation-%d.%s" % (o, kind)
        Image.fromarray(scene(9, 6)).save(name(file), exif=exif, quality=95)
        m = Image.open(name(file))
        expect(file, m.convert("RGB"), JPEG, orientation=o)
        expect(file, ImageOps.exif_transpose(m).convert("RGB"), JPEG, exif="turn", orientation=o)

# Sizes: torchvision's Resize and CenterCrop, both filters, grey too.
filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def cropped(m, w, h, side, how):
    short, long = min(m.size), max(m.size)
    size = int(side * long / short)
    m = m.resize((side, size) if m.width <= m.height else (size, side), how)
    if w > m.width or h > m.height:
        left, top = max(0, (w - m.width) // 2), max(0, (h - m.height) // 2)
        framed = Image.new(m.mode, (max(w, m.width), max(h, m.height)))
        framed.paste(m, (left, top))
        m = framed
    left, top = int(round((m.width - w) / 2.0)), int(round((m.height - h) / 2.0))
    return m.crop((left, top, left + w, top + h))


for w, h in (41, 107), (111, 43), (22, 19), (7, 5):
    file = "source-%dx%d.png" % (w, h)
    Image.fromarray(scene(w, h)).save(name(file))
    m = Image.open(name(file))
    for filter, how in filters.items():
        for mode in "RGB", "L":
            expect(file, m.convert(mode).resize((14, 10), how), 0, fit="stretch", filter=filter)
        for side in 16, 19, 21:
            expect(file, cropped(m, 16, 16, side, how), 0, fit="crop", resize=side, filter=filter)
        expect(file, cropped(m, 12, 16, 9, how), 0, fit="crop", resize=9, filter=filter)

# JPEG as cjpeg can write it: restart markers, scans of single components, other samplings, colours and coefficients.
scans = os.path.join(here, "scans")
with open(scans, "w") as f:
    f.write("0; 2; 1;")
for i, how in enumerate((
    "-quality 1 -sample 2x2", "-quality 100 -sample 2x2", "-sample 2x2 -restart 1B", "-progressive -sample 2x2 -restart 2", "-progressive -sample 1x2 -quality 40",
    "-progressive -sample 4x1", "-sample 4x2", "-sample 2x4", "-sample 3x1", "-sample 2x2,1x2,2x1", "-sample 1x1,2x2,2x2", "-sample 2x1,1x1,2x1",
    "-rgb", "-grayscale -sample 2x2", "-sample 2x1 -optimize -scans " + scans, "-sample 2x2 -dct fast",
)):
    w, h = ((33, 21), (50, 8), (5, 19))[i % 3]
    ppm, file = os.path.join(here, "x.ppm"), "cjpeg-%d.jpg" % i
    Image.fromarray(rng.integers(0, 256, (h, w, 3)).astype(np.uint8) if i < 2 else scene(w, h)).save(ppm)
    subprocess.run(["cjpeg", *how.split(), "-outfile", name(file), ppm], check=True)
    whole(file, JPEG)
os.remove(ppm)
os.remove(scans)
with open(name("cmyk.jpg"), "rb") as f:
    content = f.read()
at = content.index(b"Adobe") + 11
for file, changed in ("ycck.jpg", content[:at] + b"\2" + content[at + 1:]), ("cmyk-plain.jpg", content[:at - 15] + content[at + 1:]):
    with open(name(file), "wb") as f:
        f.write(changed)
    whole(file, JPEG)
with open(name("unfinished.jpg"), "wb") as f:  # a progressive file whose last scan is missing; refused
    with open(name("progressive.jpg"), "rb") as g:
        content = g.read()
    f.write(content[:content.rindex(b"\xff\xda")] + b"\xff\xd9")

# What files may be besides: interlaced, with a colour for transparent, in other headers and row orders, with fill bytes and comments,
# EXIF of the other byte order.
rng = np.random.default_rng(18)


def png(file, w, h, kind, rows, interlaced=0, extra=b""):
    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    with open(name(file), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, kind, 0, 0, interlaced)) + extra
                + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r.tobytes() for r in rows if r.size))) + chunk(b"IEND", b""))
    whole(file, 0)


a = scene(11, 9)
passes = (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
png("interlaced.png", 11, 9, 2, [r for x, y, dx, dy in passes for r in a[y::dy, x::dx]], 1)
png("colour-key.png", 11, 9, 2, a, 0, b"\0\0\0\6tRNS" + (key := struct.pack(">HHH", *map(int, a[0, 0]))) + struct.pack(">I", zlib.crc32(b"tRNS" + key)))
w, h = 7, 5
a = scene(w, h)
for file, header, height, order in ("top-down.bmp", 40, -h, 1), ("v5.bmp", 124, h, -1):
    rows = b"".join(r[:, ::-1].tobytes() + b"\0" * (-3 * w % 4) for r in a[::order])
    with open(name(file), "wb") as f:
        f.write(b"BM" + struct.pack("<IHHI", 14 + header + len(rows), 0, 0, 14 + header)
                + struct.pack("<IiiHHIIiiII", header, w, height, 1, 24, 0, len(rows), 2835, 2835, 0, 0) + b"\0" * (header - 40) + rows)
    whole(file, 0)
Image.fromarray(scene(33, 25)).save(name("restart.jpg"), quality=85, restart_marker_blocks=2)
whole("restart.jpg", JPEG)
with open(name("restart.jpg"), "rb") as f:
    content = f.read()
at = content.index(b"\xff\xdb")
with open(name("fill.jpg"), "wb") as f:
    f.write(content[:2] + b"\xff\xff\xff" + content[2:at] + b"\xff\xfe\0\6abcd" + content[at:] + b"\xff\xd8behind it")
whole("fill.jpg", JPEG)
Image.fromarray(scene(20, 14)).save(name("orientation-mm.jpg"), exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", quality=95)
expect("orientation-mm.jpg", ImageOps.exif_transpose(Image.open(name("orientation-mm.jpg"))).convert("RGB"), JPEG, exif="turn", orientation=6)

with open(os.path.join(here, "cases.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
