"""The fencing token of a claim: the conditions under which an owner may write.

Each claim of a run has a higher token than the one before. Every write of an owner has its token in the filter, so the
write of an owner that lost its lease matches nothing. The owner's name is no fence: a process may claim a run twice.
"""

from workers.store.run import Claim, RunState
from workers.store.run_document import Document

NEXT_TOKEN: Document = {"$add": ["$lease.token", 1]}


def owned_query(claim: Claim) -> Document:
    """Returns the filter of a write to the run: it matches while this claim is the newest."""
    return {"_id": claim.run_id, "lease.token": claim.token, "state": RunState.RUNNING.value}


def turn_query(claim: Claim, number: int) -> Document:
    """Returns the filter of a write to a turn that is not counted yet.

    It matches a turn of an older owner, and not that of a newer one: the upsert then fails on its `_id`.
    """
    return {"_id": f"{claim.run_id}:{number}", "token": {"$lte": claim.token}}


def lease_extension(lease_s: int) -> Document:
    return {"$add": ["$$NOW", lease_s * 1000]}
