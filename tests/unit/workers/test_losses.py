"""Losses of workers, as a run's history says them."""

import pytest

from workers.store.losses import losses_in_words


@pytest.mark.parametrize(
    ("losses", "alone", "words"),
    [
        (1, 0, "1 worker lost"),
        (2, 0, "2 workers lost"),
        (6, 4, "6 workers lost, 4 of them while it ran alone"),
    ],
)
def test_losses_are_written_in_words(losses: int, alone: int, words: str) -> None:
    assert losses_in_words(losses, alone) == words
