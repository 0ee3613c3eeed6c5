"""Names of time zones: which one somebody may have meant."""

from difflib import get_close_matches
from zoneinfo import available_timezones

MACHINE_ZONE = "localtime"  # another one on each


def describe_unknown_zone(name: object) -> str:
    """What to say of a name that is none."""
    written = str(name).strip().lower().replace(" ", "_")
    zones = sorted(available_timezones() - {MACHINE_ZONE}, key=lambda zone: ("/" not in zone, zone))
    same = [zone for zone in zones if zone.lower() == written]
    of_city = same or [zone for zone in zones if zone.lower().rpartition("/")[2] == written]
    lower = {zone.lower(): zone for zone in zones}
    meant = of_city or [lower[each] for each in get_close_matches(written, lower, n=1, cutoff=0.75)]
    return (
        f"is no time zone; did you mean {meant[0]}?" if meant else "is no time zone; write one as Europe/Berlin, or UTC"
    )
