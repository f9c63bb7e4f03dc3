"""The option `refresh` of a materialized view: when it is brought on, other than by name."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

FORM = "manual, an interval such as 'every 1 hour', or five fields of cron such as '0 6 * * 1-5' (UTC)"
PATTERN = r"manual|default|every\s+([1-9]\d*\s+)?(second|minute|hour|day|week)s?|\S+(\s+\S+){4}"
_EVERY = re.compile(r"every\s+(?:(\d+)\s+)?(second|minute|hour|day|week)s?", re.IGNORECASE)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def is_manual(text: str) -> bool:
    """Tell whether a view is brought on by name only."""
    return text.strip().lower() == "manual"


def validate_schedule(text: str) -> str | None:
    """Return what is wrong with a text of the right form, None if it says when."""
    if is_manual(text) or text.strip().lower() == "default" or _EVERY.fullmatch(text.strip()):
        return None
    try:
        next(CronSim(text.strip(), datetime.now(UTC)))
    except CronSimError as error:
        return str(error)[:1].lower() + str(error)[1:]
    except StopIteration:
        return "that time never comes"
    return None


def find_next_time(text: str, after: float) -> float | None:
    """Return the first time of a schedule after another, both in seconds since 1970; None if it has none.

    The times of an interval are its multiples since 1970, those of cron fields are in UTC.
    """
    if found := _EVERY.fullmatch(text.strip()):
        step = int(found[1] or 1) * _SECONDS[found[2].lower()]
        return float((math.floor(after / step) + 1) * step)
    if is_manual(text):
        return None
    moment = next(CronSim(text.strip(), datetime.fromtimestamp(after, UTC)), None)
    return None if moment is None else moment.timestamp()
