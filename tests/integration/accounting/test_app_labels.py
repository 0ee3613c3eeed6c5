"""App labels on a real MongoDB: they stay what they were, whatever apps come and go, and whoever shows them."""

from collections.abc import Sequence

import pytest

from accounting.app_labels import COLLECTION, OTHER, NamedApps
from workers.store.run_store import RunStore
from workers.together import together

pytestmark = pytest.mark.integration


async def learned(store: RunStore, apps: Sequence[str], *, most: int) -> set[str]:
    """What an exporter that starts now names."""
    return set((await NamedApps(store.database, most=most).learn(apps)).named)


async def test_apps_above_the_cap_are_one(store: RunStore) -> None:
    labels = await NamedApps(store.database, most=2).learn(["b", "a", "c"])

    assert [labels.label(app) for app in ("a", "b", "c", "unheard-of", OTHER)] == ["a", "b", OTHER, OTHER, OTHER]


async def test_a_label_once_given_stays_in_every_exporter_and_after_a_restart(store: RunStore) -> None:
    one, other = NamedApps(store.database, most=3), NamedApps(store.database, most=3)
    await one.learn(["m"])
    await other.learn(["n", "m"])
    named = [await one.learn(["a", "n", "m", "b"]), await other.learn(["b", "n"]), await one.learn([])]

    assert [each.named for each in named] == [{"m", "n", "a"}] * 3
    assert await learned(store, ["b", "a"], most=3) == {"m", "n", "a"}


async def test_exporters_that_start_at_once_name_the_same_apps(store: RunStore) -> None:
    orders = [[f"app-{(number + start) % 40}" for number in range(40)] for start in range(8)]

    named = await together(learned(store, apps, most=10) for apps in orders)

    assert len(named[0]) == 10
    assert all(each == named[0] for each in named)


async def test_a_raised_cap_names_more_and_a_lowered_one_the_first(store: RunStore) -> None:
    apps = ["c", "a", "d", "b"]

    named = [await learned(store, apps, most=most) for most in (2, 3, 1)]

    assert named == [{"c", "a"}, {"c", "a", "d"}, {"c"}]
    assert await learned(store, ["z", "y"], most=4) == {"c", "a", "d", "z"}


async def test_names_are_kept_as_they_are(store: RunStore) -> None:
    odd = ["$name", "a.b", "{}", "", "ä", "x" * 500]

    assert await learned(store, odd, most=10) == set(odd)


async def test_the_store_is_asked_only_about_new_apps_while_there_is_room(store: RunStore) -> None:
    apps = NamedApps(store.database, most=2)
    await apps.learn(["a"])
    await store.database[COLLECTION].drop()

    assert (await apps.learn(["a"])).named == {"a"}
    assert await store.database[COLLECTION].count_documents({}) == 0
    assert (await apps.learn(["a", "b"])).named == {"a", "b"}
    assert await learned(store, ["c"], most=2) == {"a", "b"}
