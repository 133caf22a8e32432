"""KServe's clients, REST and gRPC, make every call they have against a server that has the model `tiny`; and KServe's own
classes read its ServingRuntime.

Usage: kserve_clients.py HTTP_ADDRESS GRPC_ADDRESS SERVINGRUNTIME. It prints one line a group, and ends with 1 at the first that
is wrong.
"""

import asyncio
import sys

import grpc
import httpx
import kserve
import numpy as np
import yaml
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kubernetes.client import ApiClient, V1Container

MODEL = "tiny"


def check(ok, what):
    if not ok:
        raise SystemExit(f"kserve_clients.py: {what}")


def question(n, binary, parameters=None, model=MODEL, width=28):
    x = np.random.default_rng(1).random([n, 28, width, 1], dtype=np.float32)
    i = InferInput("input", list(x.shape), "FP32")
    i.set_data_from_numpy(x, binary_data=binary)
    return InferRequest(model, [i], request_id="q", parameters=parameters)


def right(r, n, of):
    """An answer's tensors agree with each other."""
    check(r.id == "q" and r.model_name == MODEL, f"{of}: {r}")
    out = {o.name: o.as_numpy() for o in r.outputs}
    check(out["logits"].shape[0] == n and out["exit"].shape == (n, 1), f"{of}: {out}")
    check((out["logits"].argmax(axis=1) == out["class"][:, 0]).all(), f"{of}: class is not the largest logit")
    return out["exit"][:, 0].tolist()


async def fails(call, kind, *words):
    try:
        await call
    except kind as e:
        text = str(e) + getattr(getattr(e, "response", None), "text", "")
        for w in words:
            check(w in text, f"{text}: expected {w!r} in it")
        return
    check(False, f"a call that must be refused was not (expected {words})")


async def rest(at):
    url = "http://" + at
    async with InferenceRESTClient(RESTConfig(protocol="v2", timeout=60)) as c:
        check(await c.is_server_live(url) and await c.is_server_ready(url), "REST: live and ready")
        check(await c.is_model_ready(url, MODEL), "REST: the model is ready")
        check(not await c.is_model_ready(url, "none"), "REST: a model that there is not is ready")
        exits = None
        for binary in (False, True):
            for n in (1, 3):
                got = right(await c.infer(url, question(n, binary), model_name=MODEL), n, f"REST, binary {binary}")
                exits = exits or got
        r = await c.infer(url, question(1, True, {"exit_threshold": "2", "slo_us": 60_000_000}), model_name=MODEL)
        check(right(r, 1, "REST, never sure") == [1] and r.parameters["deadline_met"] is True, f"REST: {r}")
        await fails(c.infer(url, question(1, True, {"max_exit": 9}), model_name=MODEL), httpx.HTTPStatusError, "400", "0..1")
        await fails(c.infer(url, question(1, True, {"slo_us": 1}), model_name=MODEL), httpx.HTTPStatusError, "504", "deadline")
        await fails(c.infer(url, question(1, True, width=14), model_name=MODEL), httpx.HTTPStatusError, "400", "expected [n 28 28 1]")
    print("KServe REST: live, ready, model ready, infer with JSON and binary tensors, parameters, refusals")
    return exits


async def remote(at, exits):
    c = InferenceGRPCClient(url=at, timeout=60)
    try:
        check(await c.is_server_live() and await c.is_server_ready(), "gRPC: live and ready")
        check(await c.is_model_ready(MODEL), "gRPC: the model is ready")
        check(not await c.is_model_ready("none"), "gRPC: a model that there is not is ready")
        check(right(await c.infer(question(1, True)), 1, "gRPC") == exits, "gRPC and REST give other exits")
        right(await c.infer(question(3, False)), 3, "gRPC, typed contents")
        check(right(await c.infer(question(1, True, {"exit_threshold": "2"})), 1, "gRPC, never sure") == [1], "gRPC: threshold")
        await fails(c.infer(question(1, True, {"max_exit": 9})), grpc.RpcError, "INVALID_ARGUMENT", "0..1")
        await fails(c.infer(question(1, True, {"slo_us": 1})), grpc.RpcError, "DEADLINE_EXCEEDED")
    finally:
        await c.close()
    print("KServe gRPC: live, ready, model ready, infer with raw and typed contents, parameters, refusals")


def runtime(path):
    """Every key of the file is one that KServe's and Kubernetes' own classes know, and a container reads as it is written."""
    with open(path, encoding="utf-8") as f:
        doc = yaml.safe_load(f)
    check((doc["apiVersion"], doc["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime"), f"{path}: {doc['kind']}")

    def known(keys, cls):
        lost = set(keys) - set(cls.attribute_map.values())
        check(not lost, f"{path}: {cls.__name__} knows no {lost}")

    spec = doc["spec"]
    known(spec, kserve.V1alpha1ServingRuntimeSpec)
    for model in spec["supportedModelFormats"]:
        known(model, kserve.V1alpha1SupportedModelFormat)
        kserve.V1alpha1SupportedModelFormat(**{k: model[v] for k, v in kserve.V1alpha1SupportedModelFormat.attribute_map.items() if v in model})
    api = ApiClient()
    for container in spec["containers"]:
        back = api.sanitize_for_serialization(api._ApiClient__deserialize(container, V1Container))
        check(back == container, f"{path}: a container reads as {back}, where the file has {container}")
    print("KServe's ServingRuntime: every key is known")


async def main():
    exits = await rest(sys.argv[1])
    await remote(sys.argv[2], exits)


runtime(sys.argv[3])
asyncio.run(main())
