"""Query parameters that an operation of /v1 does not have: a misspelt filter is refused, and widens no answer."""

import pytest

from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.gateway_server import Gateway

pytestmark = pytest.mark.integration


async def test_every_operation_refuses_them_and_names_the_ones_that_it_has(
    gateway: Gateway, operator: ApiClient
) -> None:
    document = (await gateway.client.get("/openapi.json")).json()
    found = [(method, path, each) for path, methods in document["paths"].items() for method, each in methods.items()]
    assert len(found) > 15

    for method, path, operation in found:
        known = sorted(each["name"] for each in operation["parameters"] if each["in"] == "query")
        address = path.replace("{", "").replace("}", "")
        answer = await operator.call(method.upper(), f"{address}?zzz=1")
        takes = f"takes {', '.join(known)}" if known else "takes none"
        said = {"zzz": f"is not a query parameter here; this address {takes}"}
        assert (answer.status_code, answer.json().get("errors")) == (422, said), (method, path)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("stat=failed", {"stat": "did you mean state?"}),
        ("state=failed&Limit=3", {"Limit": "did you mean limit?"}),
        ("workflow_name=Sales&stat=failed", {"workflow_name": "takes app_id", "stat": "did you mean state?"}),
        ("stat", {"stat": "did you mean state?"}),
        ("&=1", {"": "takes app_id"}),
        (f"{'x' * 5_000}=1", {"x" * 200: "takes app_id"}),
    ],
)
async def test_a_misspelt_one_is_named_with_the_one_that_was_meant(
    acme: ApiClient, query: str, named: dict[str, str]
) -> None:
    answer = await acme.get(f"/v1/runs?{query}")

    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert list(errors) == list(named)
    for name, words in named.items():
        assert words in errors[name]
        assert "app_id, cursor, hold, limit, outcome, since, state, trigger, until, workflow" in errors[name]


async def test_a_thousand_of_them_are_one_short_answer(acme: ApiClient) -> None:
    answer = await acme.get("/v1/runs?" + "&".join(f"p{number}=1" for number in range(1_000)))

    assert (answer.status_code, len(answer.json()["errors"])) == (422, 50)
    assert len(answer.content) < 20_000


async def test_a_caller_without_a_key_learns_no_parameter(gateway: Gateway) -> None:
    answer = await gateway.client.get("/v1/runs?stat=failed")

    assert answer.status_code == 401
    assert "state" not in answer.text
