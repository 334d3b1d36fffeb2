"""The lines that the manual prints, word for word (its chapters 3.2 and 5.1)."""

from __future__ import annotations

import posixpath

from gcushare.config_manager.scheduler_config.versions import Version

START_MODIFY = "start modify scheduler config..."
START_RECOVER = "start recover scheduler config..."


def version_checked(version: Version) -> str:
    return f"check current k8s cluster version is {version}"


def missing(path: str) -> str:
    return f"stat {path}: no such file or directory"


def config_written(path: str) -> str:
    return f"copy scheduler extender config file success, for detail, see {path}"


def backed_up(target: str, backup: str) -> str:
    return f"backup {posixpath.basename(target)} success, for detail, see {backup}"


def edited(staging: str) -> str:
    return f"modify scheduler pod yaml template success, for detail, see {staging}"


def modified(target: str) -> str:
    return f"modify kube-scheduler config finish, for detail, see {target}"


def recovered(target: str) -> str:
    return f"recover default scheduler success, for detail, see {target}"


def deleted(directory: str) -> str:
    return f"delete all scheduler config file success, for detail, see {directory}"
