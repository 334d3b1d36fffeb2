"""A stand-in for NVIDIA's program nvidia-cuda-mps-control, of the shape that its documentation gives it.

With ``-f`` it is the daemon: it makes ``control`` (a socket, also over one that was left) and
``nvidia-cuda-mps-control.pid`` in the folder that CUDA_MPS_PIPE_DIRECTORY names, which has to be there. Without an
option it hands the commands of its standard input to the daemon and prints the answers; without a daemon it complains
and exits with 1. While a file ``hang`` is next to that folder, the daemon answers nothing.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

PIPE = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
CONTROL, PID = PIPE / "control", PIPE / "nvidia-cuda-mps-control.pid"


def serve(words: list[str]) -> int:
    """Be the daemon."""
    log = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"]) / "control.log"
    log.write_text(f"[{os.getpid()} Control] Starting control daemon {' '.join(words)}\n")
    CONTROL.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(CONTROL))
        listening.listen()
        PID.write_text(f"{os.getpid()}\n")
        while True:
            connection, _ = listening.accept()
            with connection:
                command = connection.recv(4096).decode().strip()
                while (PIPE.parent / "hang").exists():
                    time.sleep(0.01)
                is_known = command == "get_default_active_thread_percentage"
                connection.sendall(b"100.0\n" if is_known else f"Unrecognized command {command!r}\n".encode())


def ask() -> int:
    """Hand the commands of standard input to the daemon."""
    for line in sys.stdin:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(CONTROL))
                connection.sendall(line.encode())
                sys.stdout.write(connection.recv(65536).decode())
        except OSError:
            sys.stdout.write("Cannot find MPS control daemon process\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]) if "-f" in sys.argv else ask())
