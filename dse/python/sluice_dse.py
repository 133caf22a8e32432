"""Reads what `dse sweep --out` wrote. Needs Python alone; Sweep.rows() is what pandas.DataFrame takes."""

import json

SCHEMA = "sluice-dse-sweep/1"
UNITS = {"gops": "GOP/s", "latency_b1_ns": "ns", "samples_per_s": "1/s", "dsp": "", "bram36": "36 Kibit", "uram": "288 Kibit", "lut": "", "ff": ""}


class Sweep:
    """One finished sweep. The whole document is in `document`."""

    def __init__(self, document):
        if document.get("schema") != SCHEMA:
            raise ValueError(f"schema {document.get('schema')!r} is not {SCHEMA!r}")
        if "point" not in document["best"]:
            raise ValueError("a sweep with --law paper: only --law rtl lists designs")
        self.document = document
        self.label = document["label"]  # of all figures: estimated
        self.best = row(document["best"]["point"])

    def rows(self):
        """The designs that the document lists, each once, by falling GOP/s: the Pareto front, and those close to the best."""
        points = [self.document["best"]["point"]]
        points += self.document.get("pareto") or []
        points += self.document.get("within") or []
        named = {point["design"]["name"]: row(point) for point in points}
        return sorted(named.values(), key=lambda r: -r["gops"])

    def band(self):
        """Mean and worst error of the cycles, as fractions, and whether this configuration was counted on the RTL."""
        band = self.document["cycles_band"]
        return band["mean"], band["worst"], band["own"]

    def front(self, cost, gain="gops"):
        """The rows that no other row beats in both: less of cost, more of gain. By rising cost."""
        front = []
        for r in sorted(self.rows(), key=lambda r: (r[cost], -r[gain])):
            if not front or r[gain] > front[-1][gain]:
                front.append(r)
        return front


def row(point):
    """A design of the document as one flat row."""
    design = point["design"]
    flat = {"name": design["name"], "type": design.get("type", "int16"), "TR": point["TR"], "TP": point["TP"], "TC": point["TC"], "MHz": design["clock_mhz"]}
    return flat | {key: point.get(key, 0) for key in UNITS}


def load(path):
    """The sweep in a file."""
    with open(path) as f:
        return Sweep(json.load(f))
