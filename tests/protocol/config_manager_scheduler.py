"""A stand-in for kube-scheduler, run as a process of its own: reads its configuration once and serves its health.

It is given a listening socket, so that a restart answers on the same port. Like the real one it ends at once on a
configuration that it cannot use (here: one that names the host ``refused.example``).
"""

from __future__ import annotations

import http.server
import os
import socket
import sys
from pathlib import Path


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    for argument in sys.argv[1:]:
        flag, _, path = argument.partition("=")
        is_config = flag in ("--config", "--policy-config-file")
        if is_config and "refused.example" in Path(os.environ["HOST_ROOT"] + path).read_text():
            sys.exit("configuration refused")
    listener = socket.socket(fileno=int(os.environ["LISTEN_FD"]))
    server = http.server.HTTPServer(("127.0.0.1", 0), Health, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


if __name__ == "__main__":
    main()
