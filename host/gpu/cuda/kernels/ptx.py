"""Compiles the kernels to PTX with NVRTC: ptx.py LIBNVRTC [ARCH]. No GPU and no driver are needed. What is
kept was made by NVRTC 12.0 (PyPI: nvidia-cuda-nvrtc-cu12<12.1): its PTX is of version 8.0, which drivers from
CUDA 12.0 on take. The result, kernels.ptx, begins with the hash of what it was made of and that of itself."""

import ctypes
import hashlib
import pathlib
import sys

here = pathlib.Path(__file__).parent
source = b"".join((here / "src" / n).read_bytes() for n in ("cuda.hpp", "kernels.hpp", "entries.cu"))
arch = sys.argv[2] if len(sys.argv) > 2 else "compute_75"
rtc = ctypes.CDLL(sys.argv[1])


def ok(code, what):
    if code != 0:
        size = ctypes.c_size_t()
        rtc.nvrtcGetProgramLogSize(prog, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        rtc.nvrtcGetProgramLog(prog, log)
        sys.exit(f"ptx.py: {what}: NVRTC says {code}\n{log.value.decode()}")


prog = ctypes.c_void_p()
ok(rtc.nvrtcCreateProgram(ctypes.byref(prog), source, b"kernels.cu", 0, None, None), "create")
options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--fmad=false"]
ok(rtc.nvrtcCompileProgram(prog, len(options), (ctypes.c_char_p * len(options))(*options)), "compile")
size = ctypes.c_size_t()
ok(rtc.nvrtcGetPTXSize(prog, ctypes.byref(size)), "size")
ptx = ctypes.create_string_buffer(size.value)
ok(rtc.nvrtcGetPTX(prog, ptx), "fetch")
body = ptx.value
sums = [hashlib.sha256(x).hexdigest() for x in (source, body)]
(here / "kernels.ptx").write_bytes(f"// sluice kernels, sources sha256 {sums[0]}, ptx sha256 {sums[1]}, {arch}\n".encode() + body)
print(sums[0], size.value, "bytes")
