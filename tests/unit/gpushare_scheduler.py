"""The scheduler's configuration that Aliyun's gpushare publishes."""

from __future__ import annotations

from pathlib import Path

PUBLISHED_CONFIG = (Path(__file__).parents[1] / "recorded" / "gpushare-scheduler-config.yaml").read_text()
