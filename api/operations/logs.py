"""How is the log written? One line on stderr for each thing that happened: JSON, or text for people."""

import json
import logging
import logging.config
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from api.settings import Settings
from api.web import request_record

_SECRETS = (
    # API keys, tokens of sessions, and passwords in addresses and connection strings.
    (re.compile(r"chimera_[A-Za-z0-9_-]{43}"), "chimera_***"),
    (re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+(?=@)"), r"\1:***"),
    (re.compile(r"(?i)\b(password|passfile|authorization|cookie)(['\"]?\s*[=:]\s*)\S+"), r"\1\2***"),
)


def write_logs(settings: Settings) -> None:
    """Have everything of this process logged as the settings say."""
    level = settings.log_level.upper()
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": TextLine if is_text(settings) else JsonLine}},
            "filters": {"once": {"()": Once}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "stream": "ext://sys.stderr",
                    "formatter": "line",
                    "filters": ["once"],
                }
            },
            # What libraries tell at INFO is not for here: SQLAlchemy would log every statement.
            "root": {"level": "WARNING", "handlers": ["stderr"]},
            "loggers": {
                "chimera": {"level": level},
                "uvicorn": {"level": level},
                "uvicorn.access": {"level": "CRITICAL"},
                "alembic": {"level": level},
            },
        }
    )


def is_text(settings: Settings) -> bool:
    """Whether people watch."""
    return settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())


class JsonLine(logging.Formatter):
    """One JSON object a line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message, what is known of the request, and the traceback of an error."""
        line: dict[str, Any] = {
            "time": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        } | _told(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # Value by value: what is struck out must not take a quotation mark along.
        return json.dumps({name: _clean(value) for name, value in line.items()}, default=str)


class TextLine(logging.Formatter):
    """One line, for people who watch; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the level when it is no ordinary one, the message, and ids."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname}: "
        shown = ("request_id", "caller", "study_id", "job_id")
        told = _told(record)
        ids = "".join(f" {name.removesuffix('_id')}={told[name]}" for name in shown if told.get(name))
        message = " ".join(record.getMessage().splitlines())
        line = f"{_moment(record).astimezone():%H:%M:%S} {level}{message}{ids}"
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return without_secrets(line)


class Once(logging.Filter):
    """Leaves out what our own log has told with its traceback, and what Alembic says but for changes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is news."""
        if record.name == "alembic.runtime.migration" and record.levelno <= logging.INFO:
            return record.getMessage().startswith("Running")
        request = request_record.current()
        return not (record.name == "uvicorn.error" and record.exc_info and request and request.told)


def without_secrets(text: str) -> str:
    """The text with keys and passwords struck out: none should get here, and none may stay."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _clean(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, str) else value


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _told(record: logging.LogRecord) -> dict[str, Any]:
    told: Mapping[str, Any] = getattr(record, "told", {})
    request = request_record.current()
    ids: dict[str, Any] = {}
    if request is not None:
        ids = {
            "request_id": request.id,
            "caller": request.caller,
            "study_id": request.study_id,
            "job_id": request.job_id,
        }
    return {name: value for name, value in (ids | dict(told)).items() if value is not None}
