"""One operation on the reference page: example, parameters and responses."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any
from urllib.parse import urlencode

from triggers.api.schema_text import SchemaField, Schemas

_CODE = re.compile(r"`([^`]+)`")
_HOST = "http://127.0.0.1:8400"


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    spec: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.spec["operationId"])

    @property
    def summary(self) -> str:
        return str(self.spec["summary"])

    @property
    def parameters(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.spec.get("parameters", ())
        return found

    @property
    def body(self) -> Mapping[str, Any] | None:
        content = self.spec.get("requestBody", {}).get("content", {})
        return next((media["schema"] for media in content.values()), None)


def operation_html(operation: Operation, schemas: Schemas) -> str:
    return "\n".join(_render_parts(operation, schemas))


def inline_html(text: str) -> str:
    """Escapes a text, with `code` as code."""
    return _CODE.sub(r"<code>\1</code>", escape(" ".join(text.split())))


def _render_parts(operation: Operation, schemas: Schemas) -> Iterator[str]:
    method = operation.method
    yield f'<section class="operation" id="{escape(operation.id)}" aria-labelledby="{escape(operation.id)}-name">'
    yield f'<h3 id="{escape(operation.id)}-name">{escape(operation.summary)}</h3>'
    yield f'<p class="address"><span class="method {method}">{method.upper()}</span> {escape(operation.path)}</p>'
    yield f"<p>{inline_html(operation.spec.get('description', ''))}</p>"
    yield f"<pre>{escape(curl_example(operation, schemas))}</pre>"
    if operation.parameters:
        yield _fields_table("Parameters", [_parameter_field(parameter, schemas) for parameter in operation.parameters])
    if operation.body is not None:
        yield _fields_table("Body", list(schemas.fields(operation.body)))
    yield from _responses_html(operation, schemas)
    yield "</section>"


def curl_example(operation: Operation, schemas: Schemas) -> str:
    path = operation.path
    query = []
    for parameter in operation.parameters:
        example = (parameter.get("examples") or parameter["schema"].get("examples") or [None])[0]
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(example or parameter["name"].upper()))
        elif parameter["in"] == "query" and parameter.get("required"):
            query.append((parameter["name"], str(example or parameter["name"].upper())))
    address = f"{_HOST}{path}" + (f"?{urlencode(query)}" if query else "")
    verb = "" if operation.method == "get" else f" -X {operation.method.upper()}"
    lines = [f"curl{verb} {shlex.quote(address)}", '-H "Authorization: Bearer $KEY"']
    if operation.body is not None:
        example = json.dumps(schemas.example(operation.body), ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(example)}"]
    return " \\\n  ".join(lines)


def _parameter_field(parameter: Mapping[str, Any], schemas: Schemas) -> SchemaField:
    schema = parameter["schema"]
    where = "header, " if parameter["in"] == "header" else ""
    description = parameter.get("description") or schema.get("description") or ""
    needed = bool(parameter.get("required"))
    return SchemaField(
        parameter["name"], where + schemas.describe_type(schema), needed, description, schema.get("default")
    )


def _fields_table(title: str, fields: Sequence[SchemaField]) -> str:
    rows = "".join(
        f'<tr><td class="name"><code>{escape(field.name)}</code>{_NEEDED if field.needed else ""}</td>'
        f"<td>{escape(field.type)}</td><td>{inline_html(field.description)}{_default_html(field)}</td></tr>"
        for field in fields
    )
    head = '<tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col">Meaning</th></tr>'
    return f'<h4>{title}</h4><div class="wide"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


_NEEDED = '<span class="needed">needed</span>'


def _default_html(field: SchemaField) -> str:
    if field.default in (None, {}, []):
        return ""
    return f' <span class="soft">Default: {escape(json.dumps(field.default))}</span>'


def _responses_html(operation: Operation, schemas: Schemas) -> Iterator[str]:
    rows: list[str] = []
    fields: dict[str, SchemaField] = {}
    for status, answer in sorted(operation.spec["responses"].items()):
        content = answer.get("content", {})
        schema = next((media.get("schema", {}) for media in content.values()), None)
        words = "" if schema is None else escape(schemas.describe_type(schema))
        rows.append(
            f"<tr><td><code>{status}</code></td><td>{words}</td><td>{inline_html(answer['description'])}</td></tr>"
        )
        if status.startswith("2") and schema is not None:
            fields |= {field.name: replace(field, needed=False) for field in schemas.fields(schema)}
    head = '<tr><th scope="col">Status</th><th scope="col">Body</th><th scope="col">When</th></tr>'
    yield f'<h4>Answers</h4><div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    if fields:
        table = _fields_table("Answer", list(fields.values()))
        yield f"<details><summary>Fields of the answer</summary>{table}</details>"
