"""The YAML reader: equal to the reference loader, except for surprises to an author."""

from typing import Any

import pytest
import yaml

from workflows.package.files.yaml_reader import MAX_DEPTH, read_yaml


@pytest.mark.parametrize(
    "text",
    [
        "<<: {a: 1}\nb: 2",
        "a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: {<<: [*x, {p: 9, r: 1}]}",
        "a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y}",
        "=: 1\n~: 3\n1.5: x\n0x1F: 010\nt: 1:30\nf: 1e3\ng: .inf\nh: 1_000\n? a\n: b",
        "a: |\n  x\n   y\nb: >-\n  x\n  y\nc: 'it''s'\nd: \"\\u20ac\"",
        "x: !!str 5\ny: !!int '7'\nz: ! 5\nw: !!float 1\nv: !!null ''\nu: !!map {}\nt: !!seq []",
        "a: yes\nb: [off, On, y, 'on']",
        "--- \n...",
        "# nothing",
        "%YAML 1.1\n---\na: b",
    ],
)
def test_it_reads_as_the_reference_does(text: str) -> None:
    assert read_yaml(text).data == yaml.load(text, yaml.CSafeLoader)


def test_an_anchor_may_be_named_anew() -> None:
    assert read_yaml("- &a x\n- *a\n- &a y\n- *a").data == ["x", "x", "y", "y"]


@pytest.mark.parametrize("word", ["on", "On", "yes", "NO", "off", "true", "False"])
def test_a_key_that_yaml_takes_for_a_truth_is_the_word_that_stands_there(word: str) -> None:
    document = read_yaml(f"rules:\n- {{a: 1, {word}: 2}}")

    assert document.data == {"rules": [{"a": 1, word: 2}]}
    (note,) = document.notes
    assert (note.code, note.path, note.line) == ("boolean_key", f"rules[0].{word}", 2)
    assert read_yaml(f"'{word}': 1").notes == ()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a: 1\nb: 2\na: 3", [("a", 3)]),
        ("x:\n- {a: 1, a: 2}\n- {a: 1, 'a': 2, a: 3}", [("x[0].a", 2), ("x[1].a", 3), ("x[1].a", 3)]),
        ("on: 1\n'on': 2", [("on", 1), ("on", 2)]),
        ("a: &x {p: 1}\nb: {p: 2, <<: *x}", []),
        ("a: {x: 1}\nb: {x: 1}", []),
    ],
)
def test_the_first_of_two_equal_keys_is_reported(text: str, places: list[tuple[str, int]]) -> None:
    assert [(note.path, note.line) for note in read_yaml(text).notes] == places


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: *b", "has no anchor above it"),
        ("&a [*a]", "refers to a collection that contains it"),
        ("a: 1\n---\nb: 2", "second document"),
        ("{? [a] : 1}", "a key must be plain text"),
        ("a: !!binary aGk=", "is not supported"),
        ("a: !!set {x}", "is not supported"),
        ("a: !!python/object:x.Y {}", "is not supported"),
        ("a: !!int x", "cannot be read as int"),
        ("a: !!bool x", "cannot be read as bool"),
        ("<<: 5", "<< requires a mapping"),
        ("<<: [{a: 1}, 5]", "<< requires a mapping"),
    ],
)
def test_what_is_no_plain_data_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        read_yaml(text)
    assert words in str(caught.value.problem)
    assert caught.value.problem_mark is not None


@pytest.mark.parametrize("text", ["[<<]", "a: <<"])
def test_a_merge_is_text_where_no_key_stands(text: str) -> None:
    data: Any = read_yaml(text).data
    assert data in (["<<"], {"a": "<<"})


def test_a_merged_mapping_is_a_copy_and_an_alias_is_not_changed_by_it() -> None:
    data = read_yaml("a: &x {p: 1}\nb: {<<: *x, q: 2}\nc: *x").data
    assert data == {"a": {"p": 1}, "b": {"p": 1, "q": 2}, "c": {"p": 1}}


@pytest.mark.parametrize(("levels", "is_read"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_the_bound_of_depth_is_the_same_with_and_without_aliases(levels: int, is_read: bool) -> None:
    plain = "[" * levels + "]" * levels
    half = levels // 2
    aliased = f"- &a {'[' * half}{']' * half}\n- {'[' * (levels - half - 1)}*a{']' * (levels - half - 1)}"
    for text in (plain, aliased):
        if is_read:
            read_yaml(text)
        else:
            with pytest.raises(yaml.YAMLError):
                read_yaml(text)
