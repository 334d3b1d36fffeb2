"""A service of JupyterHub: stops servers whose pod has not used its card for an hour. See docs/one-card.md.

``PROMETHEUS`` is the address of the Prometheus that reads the device plugin's metrics. Another address of the hub's API
is ``HUB``, and ``EVERY`` the seconds between two looks.
"""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from urllib.request import Request, urlopen

HUB = os.environ.get("HUB", "http://localhost:8081/hub/api")
IDLE = timedelta(hours=1)
# Pods whose use of a card was measured an hour ago already, and was below 1 % since.
QUERY = (
    "max by (pod_namespace, pod_name) (max_over_time(gcushare_pod_utilization_percent[1h])) < 1"
    " and on (pod_namespace, pod_name) gcushare_pod_utilization_percent offset 1h"
)


def ask(url, method="GET", headers=None):
    """Send a request and return the JSON of its answer."""
    with urlopen(Request(url, method=method, headers=headers or {}), timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def stop_idle():
    """Look once."""
    token = {"Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]}
    found = ask(os.environ["PROMETHEUS"] + "/api/v1/query?query=" + quote(QUERY))["data"]["result"]
    idle = {(each["metric"]["pod_namespace"], each["metric"]["pod_name"]) for each in found}
    for user in ask(HUB + "/users?state=ready&limit=200", headers=token):
        for name, server in user["servers"].items():
            age = datetime.now(UTC) - datetime.fromisoformat(server["started"].replace("Z", "+00:00"))
            if age > IDLE and (server["state"].get("namespace"), server["state"].get("pod_name")) in idle:
                print("stops", user["name"], name, flush=True)
                path = "/servers/" + quote(name, safe="") if name else "/server"
                ask(HUB + "/users/" + quote(user["name"], safe="") + path, "DELETE", token)


def main():
    """Look again and again."""
    while True:
        try:
            stop_idle()
        except (OSError, LookupError, ValueError) as error:
            print("tries again:", repr(error), flush=True)
        time.sleep(int(os.environ.get("EVERY", "300")))


if __name__ == "__main__":
    main()
