"""Every call of tritonclient, over HTTP and gRPC, also from asyncio, against a server that has the model `tiny`.

Usage: clients.py HTTP_ADDRESS GRPC_ADDRESS. It prints one line a group of calls, and ends with 1 at the first that is wrong.
"""

import asyncio
import queue
import sys

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
from tritonclient.utils import InferenceServerException

MODEL = "tiny"


def check(ok, what):
    if not ok:
        raise SystemExit(f"clients.py: {what}")


def fails(call, *words):
    """The call is refused, and says each of the words."""
    try:
        call()
    except InferenceServerException as e:
        for w in words:
            check(w in str(e), f"{e}: expected {w!r} in it")
        return
    check(False, f"a call that must be refused was not (expected {words})")


def inputs(mod, shape, n=1, dtype="FP32", binary=True, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.random([n, *shape], dtype=np.float32)
    if dtype == "INT16":
        x = (x * 256).astype(np.int16)
    i = mod.InferInput("input", list(x.shape), dtype)
    if mod is th:
        i.set_data_from_numpy(x, binary_data=binary)
    else:
        i.set_data_from_numpy(x)
    return [i]


def right(r, n, of=""):
    """An answer's tensors agree with each other."""
    logits, cls, conf, ex = (r.as_numpy(k) for k in ("logits", "class", "confidence", "exit"))
    check(logits.shape[0] == n and cls.shape == conf.shape == ex.shape == (n, 1), f"{of}: shapes {logits.shape} {cls.shape}")
    check((logits.argmax(axis=1) == cls[:, 0]).all(), f"{of}: class is not the largest logit")
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    soft = (soft / soft.sum(axis=1, keepdims=True)).max(axis=1)
    check(np.allclose(soft, conf[:, 0], atol=1e-5), f"{of}: confidence is not softmax top-1")
    return int(ex[0, 0])


def about(c, http):
    check(c.is_server_live() and c.is_server_ready() and c.is_model_ready(MODEL) and c.is_model_ready(MODEL, "1"), "not ready")
    as_json = {} if http else {"as_json": True}
    check(c.get_server_metadata(**as_json)["name"] == "sluice", "server metadata")
    m = c.get_model_metadata(MODEL, **as_json)
    check([o["name"] for o in m["outputs"]] == ["logits", "class", "confidence", "exit"], f"model metadata {m}")
    shape = [int(v) for v in m["inputs"][0]["shape"]]
    check(m["inputs"][0]["datatype"] == "FP32" and shape[0] == -1, "input metadata")
    config = c.get_model_config(MODEL, **as_json)
    config = config if http else config["config"]
    check(int(config["max_batch_size"]) >= 1 and config["model_transaction_policy"]["decoupled"], "model config")
    index = c.get_model_repository_index(**as_json)
    index = index if http else index["models"]
    check([i["state"] for i in index if i["name"] == MODEL] == ["READY"], "repository index")
    for kind in ("system", "cuda"):
        check(not list((getattr(c, f"get_{kind}_shared_memory_status")(**as_json) or {})) or not http, f"{kind} shared memory status")
        getattr(c, f"unregister_{kind}_shared_memory")()
        getattr(c, f"unregister_{kind}_shared_memory")("x")
    fails(lambda: c.register_system_shared_memory("x", "/x", 64), "shares no memory")
    fails(lambda: c.register_cuda_shared_memory("x", b"aGFuZGxl", 0, 64), "shares no memory")
    fails(lambda: c.get_model_metadata("none"), "none")
    return shape[1:]


def statistics(c, http, least):
    for name in ("", MODEL):
        s = c.get_inference_statistics(name) if http else c.get_inference_statistics(name, as_json=True)
        s = [m for m in s["model_stats"] if m["name"] == MODEL][0]
        st = s["inference_stats"]
        check(int(st["success"]["count"]) >= least, f"statistics {s}")
        check(len({st[k].get("count") for k in ("queue", "compute_input", "compute_infer", "compute_output")}) == 1, f"counts differ: {st}")


def repository(c):
    c.unload_model(MODEL)
    check(not c.is_model_ready(MODEL), "ready after it was unloaded")
    fails(lambda: c.get_model_metadata(MODEL), "not ready")
    c.load_model(MODEL)
    check(c.is_model_ready(MODEL), "not ready after it was loaded")
    fails(lambda: c.load_model(MODEL, config='{"name": "x"}'), "parameters")
    fails(lambda: c.load_model("none"), "none")


def infer(c, mod, shape):
    http = mod is th
    first = c.infer(MODEL, inputs(mod, shape), request_id="7")
    check(first.get_response()["id"] == "7" if http else first.get_response().id == "7", "request id")
    right(first, 1, "one")
    right(c.infer(MODEL, inputs(mod, shape, 5), model_version="1"), 5, "five")
    right(c.infer(MODEL, inputs(mod, shape, 2, "INT16")), 2, "words")
    last = right(c.infer(MODEL, inputs(mod, shape), parameters={"exit_threshold": "2"}), 1, "last exit")
    check(last >= 1, "threshold 2 must take the last exit")
    check(right(c.infer(MODEL, inputs(mod, shape), parameters={"exit_threshold": 0}), 1) == 0, "threshold 0 must take the first exit")
    check(right(c.infer(MODEL, inputs(mod, shape), parameters={"exit_threshold": 2000}), 1) == last, "threshold in 1/1000")
    check(right(c.infer(MODEL, inputs(mod, shape), parameters={"exit_threshold": "2", "max_exit": 0}), 1) == 0, "max_exit")
    right(c.infer(MODEL, inputs(mod, shape), priority=1, timeout=5_000_000), 1, "priority and timeout")
    r = c.infer(MODEL, inputs(mod, shape), parameters={"slo_us": 5_000_000}).get_response()
    p = r["parameters"] if http else {k: getattr(v, v.WhichOneof("parameter_choice")) for k, v in r.parameters.items()}
    check(p["deadline_met"] is True and p["queue_us"] >= 0 and {"exit", "class", "confidence"} <= set(p), f"parameters {p}")
    ranked = c.infer(MODEL, inputs(mod, shape), outputs=[mod.InferRequestedOutput("logits", class_count=3)]).as_numpy("logits")
    check(ranked.shape == (1, 3) and b":" in ranked[0, 0], f"classification {ranked}")
    only = c.infer(MODEL, inputs(mod, shape), outputs=[mod.InferRequestedOutput("class")])
    check(only.as_numpy("logits") is None and only.as_numpy("class") is not None, "requested outputs")
    fails(lambda: c.infer(MODEL, inputs(mod, [*shape[:-1], shape[-1] + 1])), "input", "expected")
    fails(lambda: c.infer("none", inputs(mod, shape)), "none")
    fails(lambda: c.infer(MODEL, inputs(mod, shape), outputs=[mod.InferRequestedOutput("x")]), "output")
    fails(lambda: c.infer(MODEL, inputs(mod, shape), parameters={"max_exit": 99}), "max_exit")
    fails(lambda: c.infer(MODEL, inputs(mod, shape), parameters={"slo_us": 1}), "deadline")
    for bad in ("nan", "many"):
        fails(lambda bad=bad: c.infer(MODEL, inputs(mod, shape), parameters={"exit_threshold": bad}), "exit_threshold")


def http_only(c, shape):
    for binary in (False, True):
        out = [th.InferRequestedOutput(n, binary_data=binary) for n in ("logits", "class", "confidence", "exit")]
        right(c.infer(MODEL, inputs(th, shape, binary=binary), outputs=out), 1, f"binary {binary}")
    for z in ("gzip", "deflate"):
        right(c.infer(MODEL, inputs(th, shape), request_compression_algorithm=z, response_compression_algorithm=z), 1, z)
    many = [c.async_infer(MODEL, inputs(th, shape, seed=i)) for i in range(16)]
    for r in many:
        right(r.get_result(), 1, "async")


def grpc_only(c, shape):
    for z in ("gzip", "deflate"):
        right(c.infer(MODEL, inputs(tg, shape), compression_algorithm=z), 1, z)
    q = queue.Queue()
    for i in range(16):
        c.async_infer(MODEL, inputs(tg, shape, seed=i), callback=lambda result, error: q.put((result, error)))
    for _ in range(16):
        result, error = q.get(timeout=60)
        check(error is None, f"async: {error}")
        right(result, 1, "async")
    c.start_stream(callback=lambda result, error: q.put((result, error)))
    c.async_stream_infer(MODEL, inputs(tg, shape), request_id="s", parameters={"exit_threshold": "2"})
    exits = []
    while True:
        result, error = q.get(timeout=60)
        check(error is None, f"stream: {error}")
        exits.append(right(result, 1, "stream"))
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
    check(exits == [*range(exits[-1] + 1), exits[-1]], f"exits of a stream {exits}")
    c.async_stream_infer("none", inputs(tg, shape))
    result, error = q.get(timeout=60)
    check(error is not None and "none" in str(error), "an error on a stream")
    c.stop_stream()


async def aio(http, grpc, shape):
    async with tha.InferenceServerClient(http) as c:
        check(await c.is_server_live() and await c.is_model_ready(MODEL), "aio http")
        for r in await asyncio.gather(*[c.infer(MODEL, inputs(th, shape, seed=i)) for i in range(8)]):
            right(r, 1, "aio http")
    async with tga.InferenceServerClient(grpc) as c:
        check(await c.is_server_ready() and (await c.get_server_metadata()).name == "sluice", "aio grpc")
        for r in await asyncio.gather(*[c.infer(MODEL, inputs(tg, shape, seed=i)) for i in range(8)]):
            right(r, 1, "aio grpc")

        async def questions():
            for i in range(3):
                yield {"model_name": MODEL, "inputs": inputs(tg, shape, seed=i), "request_id": str(i)}

        final = 0
        async for result, error in c.stream_infer(questions()):
            check(error is None, f"aio stream: {error}")
            final += result.get_response().parameters["triton_final_response"].bool_param
            if final == 3:
                break


def main(http, grpc):
    for name, mod, address in (("http", th, http), ("grpc", tg, grpc)):
        c = mod.InferenceServerClient(address, concurrency=8) if mod is th else mod.InferenceServerClient(address)
        shape = about(c, mod is th)
        print(f"{name}: health, metadata, configuration, index, shared memory")
        infer(c, mod, shape)
        (http_only if mod is th else grpc_only)(c, shape)
        print(f"{name}: inference")
        statistics(c, mod is th, 1)
        repository(c)
        print(f"{name}: statistics, load, unload")
        right(c.infer(MODEL, inputs(mod, shape)), 1, "after load")
        c.close()
    asyncio.run(aio(http, grpc, shape))
    print("asyncio: inference and streams")


if __name__ == "__main__":
    main(*sys.argv[1:3])
