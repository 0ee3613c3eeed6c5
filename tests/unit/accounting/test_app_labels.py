"""App labels stay what they were, whatever apps come and go."""

from accounting.app_labels import OTHER, AppLabels


def test_apps_above_the_cap_are_one() -> None:
    labels = AppLabels(2)

    labels.learn(["b", "a", "c"])

    assert [labels.label(app) for app in ("a", "b", "c", "unheard-of")] == ["a", "b", OTHER, OTHER]


def test_a_label_once_given_stays() -> None:
    labels = AppLabels(2)
    labels.learn(["m", "n"])

    labels.learn(["a", "b"])
    labels.learn([])

    assert [labels.label(app) for app in ("m", "n", "a")] == ["m", "n", OTHER]


def test_an_app_called_like_the_rest_is_nothing_special() -> None:
    labels = AppLabels(1)

    labels.learn(["acme"])

    assert labels.label(OTHER) == OTHER
