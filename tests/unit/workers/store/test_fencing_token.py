from workers.store.fencing_token import owned_query, turn_query
from workers.store.run import Claim


def claim(*, token: int) -> Claim:
    return Claim("run_1", "worker-1", token, {})


def test_a_second_claim_of_the_same_owner_does_not_pass_the_first_ones_fence() -> None:
    assert owned_query(claim(token=1)) != owned_query(claim(token=2))
    assert owned_query(claim(token=2))["lease.token"] == 2


def test_an_uncounted_turn_is_replaced_by_its_own_or_a_newer_token_only() -> None:
    assert turn_query(claim(token=2), 3) == {"_id": "run_1:3", "token": {"$lte": 2}}
