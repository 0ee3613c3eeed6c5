"""The renderer, where Helm differs from Go's templates; the other chart tests rely on it."""

from pathlib import Path

import pytest

from tests.tools.helm.chart import RefusedError, render_chart


def chart(folder: Path, **files: str) -> Path:
    """Write files by name; `__` stands for a slash and `_dot_` for a dot."""
    written = {"Chart.yaml": "{apiVersion: v2, name: small, version: 1.2.3, appVersion: '9'}", "values.yaml": "{}"}
    written |= {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_given_values_go_over_the_charts_own_and_null_takes_one_away(renderer: Path, tmp_path: Path) -> None:
    made = chart(tmp_path, values_dot_yaml="{a: {b: 1, c: [1, 2], d: 4}}", templates__x_dot_txt="{{ .Values.a.d }}!")

    shown = render_chart(renderer, {"a": {"c": [3], "d": None, "e": 5}}, chart=made)

    assert shown.values == {"a": {"b": 1, "c": [3], "e": 5}}
    assert shown.files["templates/x.txt"] == "!"  # plain Go would write <no value>


def test_partials_are_included_and_not_rendered(renderer: Path, tmp_path: Path) -> None:
    made = chart(
        tmp_path,
        templates___names_dot_tpl='{{- define "greet" -}}\nhello {{ .who }}\n{{- end }}',
        templates__x_dot_txt='a: {{ include "greet" (dict "who" .Release.Name) | quote }}\nb: {{ .Chart.AppVersion }}',
    )

    assert render_chart(renderer, {}, chart=made, release="r").files == {"templates/x.txt": 'a: "hello r"\nb: 9'}


def test_files_are_read_through_links_and_are_no_templates(renderer: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("of {{ .Values }}", encoding="utf-8")
    seen = '{{ range $path, $_ := .Files.Glob "files/*" }}{{ $path }}={{ $.Files.Get $path }};{{ end }}'
    made = chart(tmp_path / "chart", templates__x_dot_txt=seen)
    (made / "files").symlink_to("../elsewhere")

    assert render_chart(renderer, {}, chart=made).files["templates/x.txt"] == "files/a.txt=of {{ .Values }};"


def test_manifests_are_read_one_by_one(renderer: Path, tmp_path: Path) -> None:
    manifest = "{kind: Pod, metadata: {name: %s}}"
    made = chart(tmp_path, templates__x_dot_yaml=f"---\n{manifest % 'b'}\n---\n# nothing\n---\n{manifest % 'a'}\n")

    assert [each["metadata"]["name"] for each in render_chart(renderer, {}, chart=made).documents] == ["a", "b"]


def test_a_key_that_stands_twice_is_an_error(renderer: Path, tmp_path: Path) -> None:
    made = chart(tmp_path, templates__x_dot_yaml="kind: Pod\nkind: Service\n")

    with pytest.raises(RefusedError, match=r"kind.* already set"):
        render_chart(renderer, {}, chart=made)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ('{{ fail "say why" }}', "say why"),
        ('{{ required "name it" .Values.name }}', "name it"),
        ('{{ env "HOME" }}', 'function "env" not defined'),
        ("{{ if }}", "missing value for if"),
    ],
)
def test_what_helm_refuses_is_refused(renderer: Path, tmp_path: Path, template: str, words: str) -> None:
    made = chart(tmp_path, templates__x_dot_txt=template)

    with pytest.raises(RefusedError, match=words):
        render_chart(renderer, {}, chart=made)
