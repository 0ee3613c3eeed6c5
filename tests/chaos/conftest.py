"""Chaos happens on the same real servers and stage as the integration tests."""

from tests.integration.conftest import servers, settings, stage, store

__all__ = ["servers", "settings", "stage", "store"]
