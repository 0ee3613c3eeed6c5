"""Signatures are compared in constant time."""

import ast
import hmac
import inspect

import pytest

from triggers.webhook.schemes import signature_parts


def test_every_pair_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    constant_time = hmac.compare_digest

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return constant_time(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare_digest)

    assert signature_parts.any_equal([b"a", b"b"], [b"a", b"c"])
    assert not signature_parts.any_equal([b"a"], [b"b"])
    assert compared == [(b"a", b"a"), (b"a", b"c"), (b"b", b"a"), (b"b", b"c"), (b"a", b"b")]


def test_no_signature_is_compared_with_an_operator() -> None:
    """`==` ends at the first byte that differs, and its time tells how many were right."""
    compares = [
        node for node in ast.walk(ast.parse(inspect.getsource(signature_parts))) if isinstance(node, ast.Compare)
    ]

    assert not [ast.unparse(each) for each in compares if any(isinstance(op, ast.Eq | ast.NotEq) for op in each.ops)]
