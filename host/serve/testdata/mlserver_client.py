"""`mlserver infer` sends a file of requests to a server that has the model `tiny`: one by one and in batches, as JSON and binary.

Usage: mlserver_client.py HTTP_ADDRESS. It ends with 1 at the first answer that is wrong.
"""

import json
import multiprocessing
import os
import sys
import tempfile

import numpy as np
from mlserver.cli.main import root

N = 7


def check(ok, what):
    if not ok:
        raise SystemExit(f"mlserver_client.py: {what}")


def infer(at, into, lines, *more):
    """The answers by their line of the input."""
    asked, answered = os.path.join(into, "in.jsonl"), os.path.join(into, "out.jsonl")
    with open(asked, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    command = ["infer", "-u", at, "-m", "tiny", "-i", asked, "-o", answered, "-w", "3", *more]
    # what the command `mlserver` calls, in a process of its own, but without two seconds of imports each
    run = multiprocessing.get_context("fork").Process(target=root, args=(command,))
    run.start()
    run.join()
    check(run.exitcode == 0, f"mlserver {command}: status {run.exitcode}")
    with open(answered, encoding="utf-8") as f:
        out = [json.loads(line) for line in f]
    return {o["parameters"]["batch_index"]: o for o in out}


def main():
    x = np.random.default_rng(1).random([N, 1, 28, 28, 1], dtype=np.float32)
    lines = [{"inputs": [{"name": "input", "shape": list(i.shape), "datatype": "FP32", "data": i.ravel().tolist()}]} for i in x]
    first = None
    with tempfile.TemporaryDirectory() as into:
        for more in ([], ["--batch-size", "3"], ["--binary-data"], ["--batch-size", "3", "--binary-data"]):
            got = infer(sys.argv[1], into, lines, *more)
            check(sorted(got) == list(range(N)), f"{more}: answers {sorted(got)}: {got}")
            classes = []
            for i in range(N):
                check("error" not in got[i], f"{more}: {got[i]}")
                out = {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in got[i]["outputs"]}
                check(out["logits"].argmax() == out["class"].ravel()[0], f"{more}: class is not the largest logit: {out}")
                classes.append((int(out["class"].ravel()[0]), int(out["exit"].ravel()[0])))
            first = first or classes
            check(classes == first, f"{more}: {classes}, where the first way gave {first}")
        lines[0]["inputs"][0]["shape"] = [1, 28, 14, 2]
        got = infer(sys.argv[1], into, lines[:1], "-r", "1")
        check("expected [n 28 28 1]" in got[0]["error"]["msg"], f"a wrong shape: {got}")
    print("mlserver infer: single and batched, JSON and binary, a refusal")


main()
