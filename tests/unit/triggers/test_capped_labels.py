"""Labels of metrics: a bounded set, however many names come."""

from triggers.capped_labels import OTHER, CappedLabels


def test_the_first_names_stay_and_the_others_are_one() -> None:
    labels = CappedLabels(2)

    assert [labels.label_for(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]
