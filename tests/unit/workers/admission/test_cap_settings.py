"""Caps: the limits of each app and workflow, and invalid lines."""

import pytest

from workers.admission.cap_settings import Caps, parse_caps
from workers.store.limit_name import LimitKind, LimitName
from workers.store.rate import Rate


def test_a_name_of_its_own_wins_over_the_general_one() -> None:
    caps = parse_caps("app=20, app:acme=50,workflow:Digest=3,rate=60/m,rate:acme=10/s")

    assert caps.caps_for("acme", "Digest") == {
        LimitName(LimitKind.APP, "acme"): 50,
        LimitName(LimitKind.WORKFLOW, "Digest"): 3,
    }
    assert caps.caps_for("globex", "Other") == {LimitName(LimitKind.APP, "globex"): 20}
    assert caps.rate_for("acme") == Rate(10, 1)
    assert caps.rate_for("globex") == Rate(60, 60)


def test_without_caps_nothing_limits() -> None:
    assert not parse_caps("")
    assert Caps().caps_for("acme", "Digest") == {}
    assert Caps().rate_for("acme") is None


def test_an_app_may_have_colons_in_its_name() -> None:
    assert parse_caps("app:eu:acme=2").caps_for("eu:acme", "W") == {LimitName(LimitKind.APP, "eu:acme"): 2}


@pytest.mark.parametrize("text", ["app", "app=0", "app=x", "rate=60", "app=3/s", "team=3", "app=1,app=2", "rate=1/d"])
def test_ambiguous_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"caps such as|only once"):
        parse_caps(text)
