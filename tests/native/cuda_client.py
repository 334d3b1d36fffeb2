"""A process that computes nothing and allocates: through the CUDA driver's own API, with nothing to install.

Reads sizes in MiB from its standard input, one per line, allocates each and answers with CUDA's code: 0 is success, 2
is out of memory. A 0 asks whether its context still works. "managed MIB" allocates managed memory; "info" is answered
with the MiB that are free and all that there are. Source: CUDA driver API reference.
"""

from __future__ import annotations

import ctypes
import sys

MIB = 1 << 20


def main() -> int:
    """Answer until standard input ends."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
    ):
        if code:
            sys.stderr.write(f"CUDA answered {code}\n")
            return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        word, _, amount = line.strip().rpartition(" ")
        if amount == "info":
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            sys.stdout.write(f"{free.value // MIB} {total.value // MIB}\n")
            sys.stdout.flush()
            continue
        size, pointer = int(amount), ctypes.c_uint64()
        if word == "managed":
            code = cuda.cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(size * MIB), 1)
        elif size:
            code = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size * MIB))
        else:
            code = cuda.cuCtxSynchronize()
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
