"""Logs: one event a line, each a JSON object in ASCII, so that no text can forge a line."""

import json
import logging

from earl.storage import wall_clock

LEVELS = {"earl.service": logging.INFO, "uvicorn": logging.WARNING}
KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event, and what was given with it."""

    def format(self, record: logging.LogRecord) -> str:
        time = wall_clock.now().isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in KNOWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # ASCII: whatever acts on a terminal is spelled out


def log_to(handler: logging.Handler) -> None:
    """Have a handler write what the service and its server log, one event a line."""
    handler.setFormatter(JsonLines())
    for name, level in LEVELS.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
