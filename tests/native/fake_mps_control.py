"""A stand-in for NVIDIA's program nvidia-cuda-mps-control, of the shape that its documentation gives it.

With ``-f`` it is the daemon: it makes ``control`` (a socket) and ``nvidia-cuda-mps-control.pid`` in the folder that
CUDA_MPS_PIPE_DIRECTORY names, and runs until it is asked to quit. Without an option it reads commands from its standard
input, hands each to the daemon and prints the answers; without a daemon it complains and exits with 1.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

PIPE = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
CONTROL, PID = PIPE / "control", PIPE / "nvidia-cuda-mps-control.pid"
UNREACHABLE = "Cannot find MPS control daemon process"


def serve(words: list[str]) -> int:
    """Be the daemon."""
    log = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"]) / "control.log"
    log.write_text(f"[{os.getpid()} Control] Starting control daemon {' '.join(words)}\n")
    limits: dict[str, str] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(CONTROL))
        listening.listen()
        PID.write_text(f"{os.getpid()}\n")
        while True:
            connection, _ = listening.accept()
            with connection:
                command = connection.recv(4096).decode().split()
                answer, quits = carry_out(command, limits)
                connection.sendall(answer.encode())
            if quits:
                CONTROL.unlink()
                PID.unlink()
                return 0


def carry_out(command: list[str], limits: dict[str, str]) -> tuple[str, bool]:
    """Answer one command; whether the daemon ends with it."""
    hang = PIPE.parent / "hang"
    match command:
        case _ if hang.exists():
            while hang.exists():
                time.sleep(0.01)
            return "", False
        case ["quit", *_]:
            return "", True
        case ["get_default_active_thread_percentage"]:
            return "100.0\n", False
        case ["get_server_list"]:
            return "", False
        case ["set_default_device_pinned_mem_limit", device, size]:
            limits[device] = size
            return "", False
        case ["get_default_device_pinned_mem_limit", device]:
            return f"{limits.get(device, '0')}\n", False
        case _:
            return f"Unrecognized command {' '.join(command)!r}\n", False


def ask() -> int:
    """Hand the commands of standard input to the daemon."""
    for line in sys.stdin:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(CONTROL))
                connection.sendall(line.encode())
                sys.stdout.write(connection.recv(65536).decode())
        except OSError:
            sys.stdout.write(f"{UNREACHABLE}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]) if "-f" in sys.argv or "-d" in sys.argv else ask())
