"""Posts the comment on the run's issue. Without GITHUB_TOKEN it posts nothing, and the run keeps the draft.

A turn may be repeated after a crash. So a comment contains the key of its turn, and the tool searches for it before
it posts. The issue comes from the run, never from the model.
"""

import os
import re
from typing import Any

import httpx


async def post_comment(comment: str, turn_idempotency_key: str, context_variables: Any) -> dict[str, Any]:
    token = os.environ.get("GITHUB_TOKEN")  # noqa: TID251 -- a tool's secrets are in its worker's environment
    if not token:
        return {"posted": False, "why": "GITHUB_TOKEN is not set where the worker runs"}
    repository, number = context_variables["repository"], int(context_variables["number"])
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", repository, re.ASCII):
        raise ValueError(f"{repository!r} is not a repository; write owner/name")
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")  # noqa: TID251 -- as above
    mark = f"<!-- {turn_idempotency_key} -->"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    async with httpx.AsyncClient(headers=headers, timeout=10, transport=httpx.AsyncHTTPTransport(retries=2)) as client:
        comments = f"{api}/repos/{repository}/issues/{number}/comments"
        existing = _checked(await client.get(comments, params={"per_page": 100})).json()
        earlier = next((entry for entry in existing if mark in (entry.get("body") or "")), None)
        posted = earlier or _checked(await client.post(comments, json={"body": f"{comment}\n\n{mark}"})).json()
    context_variables.set("comment_url", posted["html_url"])
    return {"posted": True, "url": posted["html_url"]}


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise RuntimeError(
        f"GitHub answered {response.status_code} to {response.request.method} {response.request.url.path}"
    )
