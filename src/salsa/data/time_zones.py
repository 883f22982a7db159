"""Names of time zones, which model files hold."""

from __future__ import annotations

#: The zone of stamps that carry an offset but no name of a zone: each has its own clock
AS_WRITTEN = ""


def is_zone(name: str) -> bool:
    """Return whether a name, such as Europe/Berlin, is that of a time zone."""
    from zoneinfo import ZoneInfo  # here, because models without dates need no zones

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
