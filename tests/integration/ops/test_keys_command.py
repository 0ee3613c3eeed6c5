"""`unattended keys …` in a process of its own: create, show once, list, revoke."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.ops.command import unattended
from tests.integration.stage import Stage
from triggers.api_keys import ApiKeys

pytestmark = pytest.mark.integration


async def test_a_key_is_shown_once_and_good_for_what_it_was_made_for(stage: Stage) -> None:
    keys = ApiKeys(stage.store.database)

    plain = await unattended(stage, "keys", "create", "shop")
    scoped = await unattended(
        stage,
        *("keys", "create", "board", "--app", "acme", "--read-only", "--rate", "30/m", "--expires", "90d", "--json"),
    )
    boss = await unattended(stage, "keys", "create", "boss", "--app", "acme", "--may", "approve", "--json")
    listed = await unattended(stage, "keys", "list", "--json")
    table = await unattended(stage, "keys", "list")

    assert (plain.code, scoped.code) == (0, 0)
    shop, board = await keys.verify(plain.out.strip()), await keys.verify(scoped.json["key"])
    assert shop is not None
    assert board is not None
    assert (shop.app_id, shop.access, shop.burst, shop.expires_at) == (None, "write", 200, None)
    assert (board.app_id, board.access, board.burst) == ("acme", "read", 30)
    assert board.expires_at is not None
    assert timedelta(days=89) < board.expires_at - datetime.now(UTC) < timedelta(days=90)
    approving = await keys.verify(boss.json["key"])
    assert approving is not None
    assert [each.may_approve for each in (shop, board, approving)] == [False, False, True]
    assert [(row["id"], row["name"], row["app_id"], row["access"], row["may"], row["rate"]) for row in listed.json] == [
        (shop.id, "shop", None, "write", [], "100/s"),
        (board.id, "board", "acme", "read", [], "30/m"),
        (approving.id, "boss", "acme", "write", ["approve"], "100/s"),
    ]
    assert "write\tapprove\t100/s" in table.out
    assert set(listed.json[0]) >= {"created", "revoked", "expires", "last_used"}
    for text in (listed.out, table.out):
        assert plain.out.strip() not in text
    assert "good until" in table.out
    [document] = await stage.store.database["api_keys"].find({"_id": shop.id}).to_list()
    assert plain.out.strip() not in str(document)


async def test_a_key_is_revoked_once(stage: Stage) -> None:
    keys = ApiKeys(stage.store.database)
    plaintext = await keys.create("shop", "acme")
    [key] = await keys.list()

    first = await unattended(stage, "keys", "revoke", key.id)
    again = await unattended(stage, "keys", "revoke", key.id)
    listed = await unattended(stage, "keys", "list")

    assert (first.code, again.code) == (0, 1)
    assert "keys list" in again.err
    assert await keys.verify(plaintext) is None
    assert "revoked 20" in listed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "10"), "100/s"),
        (("--rate", "0/s"), "100/s"),
        (("--expires", "soon"), "30s, 15m or 1h"),
        (("--expires", "0s"), "above zero"),
        (("--app", ""), "one line"),
        (("--may", "everything"), "approve"),
        (("--may", "approve", "--read-only"), "--read-only excludes --may approve"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
async def test_a_mistake_is_one_line_and_makes_no_key(stage: Stage, arguments: tuple[str, ...], message: str) -> None:
    done = await unattended(stage, "keys", "create", "shop", *arguments)

    assert done.code == 2
    assert message in done.err
    assert await ApiKeys(stage.store.database).list() == []
