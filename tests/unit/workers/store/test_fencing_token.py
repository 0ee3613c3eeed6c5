from workers.store.fencing_token import owned_query, turn_query
from workers.store.run import Claim


def claim(*, token: int) -> Claim:
    return Claim("run_1", "worker-1", token, {})


def test_two_claims_of_one_owner_have_different_fences() -> None:
    assert owned_query(claim(token=1)) != owned_query(claim(token=2))
    assert owned_query(claim(token=2))["lease.token"] == 2


def test_an_uncounted_turn_is_replaced_by_its_own_or_a_newer_token_only() -> None:
    assert turn_query(claim(token=2), 3) == {"_id": "run_1:3", "token": {"$lte": 2}}
