"""Structured logs: one JSON object a line on standard error. No address, user agent, token or path of a request."""

import json
import logging
import sys
import time
import traceback

logger = logging.getLogger("privquant.aggregator")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        form = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        form.update(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # The kind and place of an error, never its message: that may quote a request.
            form["error"] = record.exc_info[0].__name__
            for frame in traceback.extract_tb(record.exc_info[2])[-1:]:
                form["where"] = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
        return json.dumps(form, sort_keys=False)


def configure(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        chatty = logging.getLogger(name)
        chatty.handlers = []
        chatty.propagate = name != "uvicorn.access"
        chatty.setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def say(event: str, level: int = logging.INFO, **facts: object) -> None:
    logger.log(level, event, extra={"facts": facts})
