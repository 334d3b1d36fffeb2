"""Write the chart's dashboards.

python -m scripts.grafana            write the files
python -m scripts.grafana --check    exit 1 and name the file that is not in step
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from scripts.grafana.cluster import CLUSTER
from scripts.grafana.node import NODE
from scripts.grafana.rendering import render

FOLDER = (
    Path(__file__).parents[2]
    / "deploy/gcushare-scheduler-extender/build-and-deploy/gcushare-scheduler-extender-chart/dashboards"
)
# Grafana's sidecar puts the dashboards of all charts into one folder: the names must be ours alone.
FILES = {FOLDER / f"{dashboard.uid}.json": dashboard for dashboard in (CLUSTER, NODE)}


def main() -> int:
    """Write or check every file; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    stale = []
    for path, dashboard in FILES.items():
        text = json.dumps(render(dashboard), indent=2, ensure_ascii=False) + "\n"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if is_check:
            stale.append(path.name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        sys.stderr.write(f"not in step with scripts/grafana: {', '.join(stale)}; run make dashboards\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
