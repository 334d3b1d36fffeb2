"""Settings of every program's log: level, format, and the local file."""

from __future__ import annotations

import enum
from pathlib import Path

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, setting, settings


class LogLevel(enum.Enum):
    """The least important lines that a program logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.Enum):
    """The format of a log line."""

    TEXT = "text"
    JSON = "json"


@settings
class LogSettings:
    """Log."""

    log_level: LogLevel = choice_setting(
        LogLevel.INFO,
        help="The least important lines that are written. An admin sets debug to find a cause: it adds every "
        "request, what each of a pod's annotations "
        "was and became, and the ids that its containers get.",
    )
    log_format: LogFormat = choice_setting(
        LogFormat.TEXT,
        help="Lines for people (time, level, place, message, key=value) or one JSON object per line for collectors.",
    )
    log_dir: Path | None = setting(
        parsers.optional(parsers.path("DIR"), "no file is written"),
        default=Path("/var/log/topscloud/gcushare"),
        help="Directory of the local log file (the chart sets it by logs.hostPath), which survives the container; "
        "the file is named after the program. "
        "A directory that cannot be written, or that others can write, is a warning, not an error.",
    )
    log_file_size: int = 16 << 20
    """Bytes at which the local log file is rotated: with the older files a program keeps at most 80 MiB."""
    log_file_count: int = 4
    """How many rotated log files are kept next to the current one."""
