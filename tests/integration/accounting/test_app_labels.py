"""App labels on a real MongoDB: they never change, whichever exporter shows them."""

from collections.abc import Sequence

import pytest

from accounting.app_labels import COLLECTION, OTHER, AppLabelStore
from accounting.infra.aio import gather_all
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


async def learn_labels(store: RunStore, apps: Sequence[str], *, limit: int) -> set[str]:
    """Registers apps as a starting exporter does."""
    return set((await AppLabelStore(store.database, max_apps=limit).register(apps)).known_apps)


async def test_apps_above_the_cap_are_one(store: RunStore) -> None:
    labels = await AppLabelStore(store.database, max_apps=2).register(["b", "a", "c"])

    assert [labels.label(app) for app in ("a", "b", "c", "unheard-of", OTHER)] == ["a", "b", OTHER, OTHER, OTHER]


async def test_a_label_once_given_stays_in_every_exporter_and_after_a_restart(store: RunStore) -> None:
    one, other = AppLabelStore(store.database, max_apps=3), AppLabelStore(store.database, max_apps=3)
    await one.register(["m"])
    await other.register(["n", "m"])
    named = [await one.register(["a", "n", "m", "b"]), await other.register(["b", "n"]), await one.register([])]

    assert [labels.known_apps for labels in named] == [{"m", "n", "a"}] * 3
    assert await learn_labels(store, ["b", "a"], limit=3) == {"m", "n", "a"}


async def test_exporters_that_start_at_once_name_the_same_apps(store: RunStore) -> None:
    orders = [[f"app-{(number + start) % 40}" for number in range(40)] for start in range(8)]

    named = await gather_all(learn_labels(store, apps, limit=10) for apps in orders)

    assert len(named[0]) == 10
    assert all(labels == named[0] for labels in named)


async def test_a_raised_cap_names_more_and_a_lowered_one_the_first(store: RunStore) -> None:
    apps = ["c", "a", "d", "b"]

    named = [await learn_labels(store, apps, limit=most) for most in (2, 3, 1)]

    assert named == [{"c", "a"}, {"c", "a", "d"}, {"c"}]
    assert await learn_labels(store, ["z", "y"], limit=4) == {"c", "a", "d", "z"}


async def test_names_are_kept_as_they_are(store: RunStore) -> None:
    odd = ["$name", "a.b", "{}", "", "ä", "x" * 500]

    assert await learn_labels(store, odd, limit=10) == set(odd)


async def test_the_store_is_asked_only_about_new_apps_while_there_is_room(store: RunStore) -> None:
    apps = AppLabelStore(store.database, max_apps=2)
    await apps.register(["a"])
    await store.database[COLLECTION].drop()

    assert (await apps.register(["a"])).known_apps == {"a"}
    assert await store.database[COLLECTION].count_documents({}) == 0
    assert (await apps.register(["a", "b"])).known_apps == {"a", "b"}
    assert await learn_labels(store, ["c"], limit=2) == {"a", "b"}
