"""`unattended validate`: one verdict per package, as JSON of a fixed shape and as text."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ops.cli.main import cli
from tests.unit.workflows.packages import ORCHESTRATOR, TOOL, write_package, write_tool

ALONE = {"agents": [{"name": "A", "system_message": "You are A."}]}
ZERO = dict.fromkeys(("agents", "tools", "lifecycle_tools", "handoffs", "variables", "models", "hooks", "triggers"), 0)
UNSTARTED = {"hook_files": [{"filename": "h.py", "trigger": "before_chat", "content": "code in JSON"}]}
WEBHOOK = {"name": "hook", "type": "webhook", "apps": ["acme"], "verify": {"scheme": "github", "secret": "env:HOOK"}}


def package(folder: Path, name: str = "P", **files: Any) -> Path:
    orchestrator = {"workflow_name": name, "initial_agent": "A"}
    return write_package(folder / name, **{"orchestrator": orchestrator, "agents": ALONE, **files})


def unattended(*arguments: Any, **environ: str) -> Result:
    clean = {name: None for name in os.environ if name.startswith("UNATTENDED_") or name == "ENVIRONMENT"}
    return CliRunner().invoke(cli, [str(each) for each in arguments], env={**clean, **environ})


def verdicts(*arguments: Any, **environ: str) -> list[dict[str, Any]]:
    result = unattended("validate", "--json", *arguments, **environ)
    answer = json.loads(result.stdout)
    assert list(answer) == ["packages"]
    packages: list[dict[str, Any]] = answer["packages"]
    assert result.exit_code == (1 if any(each["verdict"] == "refused" for each in packages) else 0)
    return packages


def test_json_has_exactly_this_shape(tmp_path: Path) -> None:
    folder = package(tmp_path, ui_config="x: 1", tools=[{"agent": "B", "file": "greet.py", "function": "greet"}])
    write_tool(folder, "greet.py", TOOL)

    assert verdicts(folder) == [
        {
            "name": "P",
            "path": str(folder),
            "verdict": "refused",
            "counts": {**ZERO, "agents": 1, "tools": 1},
            "findings": [
                {
                    "level": "info",
                    "code": "ui_only",
                    "file": "ui_config.yaml",
                    "path": "",
                    "message": "describes a user interface, which does not exist here; the file is not used",
                },
                {
                    "level": "error",
                    "code": "unknown_agent",
                    "file": "tools.yaml",
                    "path": "tools[0].agent",
                    "message": "B is not an agent of this package; correct it, or add the agent",
                },
            ],
        }
    ]


@pytest.mark.parametrize(
    ("files", "verdict"),
    [({}, "ready"), ({"ui_config": "x: 1"}, "findings"), ({"tools": "- ["}, "refused")],
)
def test_a_verdict_is_the_worst_that_is_found(tmp_path: Path, files: dict[str, Any], verdict: str) -> None:
    assert [each["verdict"] for each in verdicts(package(tmp_path, **files))] == [verdict]


def test_a_path_is_a_package_or_a_directory_of_packages_counted_once(tmp_path: Path) -> None:
    one, other = package(tmp_path, "One"), package(tmp_path, "Other")

    assert [each["name"] for each in verdicts(one)] == ["One"]
    assert [each["name"] for each in verdicts(tmp_path)] == ["One", "Other"]
    assert [each["path"] for each in verdicts(other, tmp_path, one)] == [str(other), str(one)]


def test_broken_packages_are_reported_not_skipped(tmp_path: Path) -> None:
    package(tmp_path, "A", agents=None)
    package(tmp_path, "B", orchestrator=None)
    package(tmp_path, "C", orchestrator="- [", agents="- [")
    (tmp_path / "D").mkdir()
    (tmp_path / "D" / "workflow.json").write_text("{}")
    for name in ("_shared", "extended_orchestration", "docs"):
        write_package(tmp_path / name, orchestrator=None, agents=None, tools="[]")

    found = {each["name"]: [one["code"] for one in each["findings"]] for each in verdicts(tmp_path)}

    assert found == {
        "A": ["missing_file"],
        "B": ["missing_file"],
        "C": ["unreadable", "unreadable"],
        "D": ["unsupported_era"],
    }


def test_a_directory_without_a_package_is_refused(tmp_path: Path) -> None:
    (answer,) = verdicts(tmp_path)

    assert (answer["verdict"], answer["counts"], answer["path"]) == ("refused", ZERO, str(tmp_path))
    assert [(each["level"], each["code"]) for each in answer["findings"]] == [("error", "not_a_package")]


@pytest.mark.parametrize("kind", ["absent", "file", "dangling link"])
def test_a_path_that_is_no_directory_is_wrong_use(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "nothing"
    if kind == "file":
        path.write_text("x")
    elif kind == "dangling link":
        path.symlink_to("absent")

    result = unattended("validate", "--json", package(tmp_path), path)

    assert result.exit_code == 2
    assert str(path) in result.stderr.replace("\n", "")
    assert ("is a file; name the directory of its package" if kind == "file" else "does not exist") in result.stderr
    assert result.stdout == ""


def test_without_a_path_the_configured_directories_are_checked(tmp_path: Path) -> None:
    package(tmp_path, "Mine")

    assert [each["name"] for each in verdicts(UNATTENDED_PACKAGES=str(tmp_path))] == ["Mine"]
    missing = unattended("validate", UNATTENDED_PACKAGES=str(tmp_path / "absent"))
    assert missing.exit_code == 2
    assert "UNATTENDED_PACKAGES" in missing.stderr


def test_of_two_packages_with_one_name_the_later_is_not_started(tmp_path: Path) -> None:
    first = package(tmp_path / "a", "Same")
    package(tmp_path / "b", "Same")

    found = verdicts(tmp_path / "a", tmp_path / "b")

    assert [each["verdict"] for each in found] == ["ready", "findings"]
    assert [(each["level"], each["code"], each["file"], each["path"]) for each in found[1]["findings"]] == [
        ("warning", "name_taken", "orchestrator.yaml", "workflow_name")
    ]
    assert "Same: findings, not started" in unattended("validate", tmp_path / "a", tmp_path / "b").output
    assert str(first) in found[1]["findings"][0]["message"]


def test_package_code_is_parsed_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    harm = f"open({str(tmp_path / 'harm')!r}, 'w').close()\nraise SystemExit(9)\n"
    folder = package(
        tmp_path,
        tools={
            "tools": [{"agent": "A", "file": "greet.py", "function": "greet"}],
            "lifecycle_tools": [{"trigger": "on_start", "file": "../_shared/begin.py", "function": "greet"}],
        },
        hooks={
            "hooks": [{"hook_type": "update_agent_state", "hook_agent": "A", "filename": "h.py", "function": "greet"}]
        },
    )
    for place, name in ((folder, "greet.py"), (folder, "h.py"), (folder, "conftest.py")):
        write_tool(place, name, harm + TOOL)
    (tmp_path / "_shared").mkdir()
    for path in (tmp_path / "_shared" / "begin.py", folder / "__init__.py", tmp_path / "sitecustomize.py"):
        path.write_text(harm + TOOL)

    (answer,) = verdicts(folder)

    assert answer["verdict"] == "ready"
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("production", [[], ["--production"]])
def test_a_secret_that_is_missing_is_a_warning_and_no_secret_is_ever_shown(
    tmp_path: Path, production: list[str]
) -> None:
    folder = package(tmp_path, triggers=[WEBHOOK])

    (missing,) = verdicts(folder, *production)
    shown = unattended("validate", folder, *production, HOOK="canary-value")
    (there,) = verdicts(folder, *production, HOOK="canary-value")

    assert missing["verdict"] == "findings"
    assert [(each["level"], each["code"], each["file"], each["path"]) for each in missing["findings"]] == [
        ("warning", "secret_missing", "triggers.yaml", "triggers[0].verify.secret")
    ]
    assert there["verdict"] == "ready"
    assert "canary-value" not in json.dumps(there) + shown.output


def chain(workflow: str) -> dict[str, str]:
    return {"name": "after", "type": "run_finished", "workflow": workflow}


def test_a_chain_behind_a_workflow_that_no_package_here_has_is_a_warning(tmp_path: Path) -> None:
    package(tmp_path, "Digest")
    package(tmp_path, "Broken", tools="- [")
    package(tmp_path, "Follower", triggers=[chain("Digests"), {**chain("Lost"), "name": "other"}])
    package(
        tmp_path, "Good", triggers=[chain("Digest"), {**chain("Broken"), "name": "b"}, {**chain("Good"), "name": "c"}]
    )

    found = {each["name"]: each for each in verdicts(tmp_path)}

    assert found["Follower"]["verdict"] == "findings"
    assert [(each["level"], each["code"], each["path"], each["message"]) for each in found["Follower"]["findings"]] == [
        (
            "warning",
            "unknown_workflow",
            "triggers[0].workflow",
            "after waits for runs of Digests, which is not a workflow here; did you mean Digest?",
        ),
        (
            "warning",
            "unknown_workflow",
            "triggers[1].workflow",
            "other waits for runs of Lost, which is not a workflow here; correct the name, or add that package",
        ),
    ]
    assert found["Good"]["verdict"] == "ready"


@pytest.mark.parametrize(("whole", "verdict"), [(True, "findings"), (False, "ready")])
def test_one_package_alone_leads_to_no_guesses_about_others(tmp_path: Path, whole: bool, verdict: str) -> None:
    folder = package(tmp_path, triggers=[chain("Digest")])

    assert [each["verdict"] for each in verdicts(tmp_path if whole else folder)] == [verdict]
    configured = verdicts(UNATTENDED_PACKAGES=str(folder))
    assert [each["verdict"] for each in configured] == ["findings"]


@pytest.mark.parametrize(
    "reference", ["file:/dev/zero", "file:{folder}/pipe", "file:~nobody-here/x", "file:a\0b", "file:"]
)
def test_a_secret_that_no_file_can_be_is_not_waited_for(tmp_path: Path, reference: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    written = reference.format(folder=tmp_path)
    folder = package(tmp_path, triggers=[{**WEBHOOK, "verify": {"scheme": "github", "secret": written}}])

    assert [each["code"] for each in verdicts(folder)[0]["findings"]] == ["secret_missing"]


def test_a_host_that_is_not_allowed_is_a_warning(tmp_path: Path) -> None:
    source = {"type": "external", "url": "https://api.example.com:444/x/{{app_id}}"}
    variables = {"definitions": {"v": {"type": "string", "source": source}}, "agents": {"A": ["v"]}}
    folder = package(tmp_path, context_variables=variables)

    (refused,) = verdicts(folder, UNATTENDED_EXTERNAL_HOSTS="api.example.com")
    (allowed,) = verdicts(folder, UNATTENDED_EXTERNAL_HOSTS="api.example.com:444")

    assert allowed["findings"] == []
    (finding,) = refused["findings"]
    assert (finding["level"], finding["code"], finding["file"], finding["path"]) == (
        "warning",
        "host_not_allowed",
        "context_variables.yaml",
        "definitions.v.source.url",
    )
    assert finding["message"].startswith("api.example.com:444 is not an allowed host; the operator lists it in")


def test_an_invalid_address_is_reported_once(tmp_path: Path) -> None:
    source = {"type": "external", "url": "https://[/x"}
    folder = package(tmp_path, context_variables={"definitions": {"v": {"type": "string", "source": source}}})

    assert [each["code"] for each in verdicts(folder)[0]["findings"]] == ["wrong_value"]


@pytest.mark.parametrize("how", [{"flag": ["--production"]}, {"environ": {"ENVIRONMENT": "production"}}])
def test_production_is_a_flag_or_the_environment(tmp_path: Path, how: dict[str, Any]) -> None:
    variables = {"definitions": {"v": {"type": "boolean", "source": {"type": "config", "env_var": "CANARY"}}}}
    rule = {"source_agent": "A", "target_agent": "terminate", "handoff_type": "condition", "condition": "${v} == True"}
    folder = package(tmp_path, context_variables=variables, handoffs={"handoff_rules": [rule]})

    (development,) = verdicts(folder, CANARY="canary-value")
    (production,) = verdicts(folder, *how.get("flag", []), **how.get("environ", {}), CANARY="canary-value")

    def messages(answer: dict[str, Any]) -> set[str]:
        return {each["message"] for each in answer["findings"]}

    assert messages(development) != messages(production)
    assert "canary-value" not in json.dumps([development, production])


def test_people_see_verdict_counts_findings_with_lines_and_a_total(tmp_path: Path) -> None:
    good = package(tmp_path, "Good")
    bad = package(tmp_path, "Bad", tools="tools:\n- agent: B\n  file: x.py\n  function: f\n")

    result = unattended("validate", tmp_path)

    counted = ", ".join(f"{name} {number}" for name, number in ZERO.items())
    lines = result.stdout.splitlines()
    assert lines[0] == f"Bad: refused ({bad}): {counted}".replace("agents 0, tools 0", "agents 1, tools 1")
    assert lines[1].startswith("  error: tools.yaml:2: tools[0].agent: B is not an agent")
    assert lines[1].endswith("[unknown_agent]")
    assert f"Good: ready ({good}): {counted}".replace("agents 0", "agents 1") in lines
    assert lines[-1] == "2 packages: 1 ready, 0 with findings, 1 refused"
    assert "\x1b" not in result.stdout
    assert result.exit_code == 1


def test_people_see_what_is_read_but_not_started(tmp_path: Path) -> None:
    folder = package(tmp_path, hooks=UNSTARTED)

    result = unattended("validate", folder)

    assert result.stdout.startswith("P: findings, not started (")
    assert result.exit_code == 0


def test_an_authors_text_cannot_steer_the_terminal_or_break_the_output(tmp_path: Path) -> None:
    folder = package(tmp_path, orchestrator=None)
    name = "\x1b[2J\u202eB\ud800\n"
    (folder / "orchestrator.json").write_text(json.dumps({**ORCHESTRATOR, "initial_agent": name}))

    result = unattended("validate", folder)

    assert not {"\x1b", "\u202e"} & set(result.stdout)
    assert "\\x1b[2J\\u202eB" in result.stdout
    assert any("\x1b" in each["message"] for each in verdicts(folder)[0]["findings"])


def list_packages(folder: Path, **environ: str) -> dict[str, tuple[str, bool]]:
    result = unattended("packages", "list", "--json", UNATTENDED_PACKAGES=str(folder), **environ)
    return {each["name"]: (each["verdict"], each["started"]) for each in json.loads(result.stdout)}


def test_packages_list_and_show_agree_with_validate(tmp_path: Path) -> None:
    package(tmp_path, "Ready")
    package(tmp_path, "Secretive", triggers=[WEBHOOK, chain("Nobody")])
    package(tmp_path, "Broken", tools="- [")
    package(tmp_path, "Blocked", hooks=UNSTARTED)

    found = {each["name"]: each for each in verdicts(tmp_path)}

    assert list_packages(tmp_path) == {
        "Blocked": ("findings", False),
        "Broken": ("refused", False),
        "Ready": ("ready", True),
        "Secretive": ("findings", True),
    }
    for name, answer in found.items():
        result = unattended("packages", "show", name, "--json", UNATTENDED_PACKAGES=str(tmp_path))
        shown = json.loads(result.stdout)
        assert {key: shown[key] for key in answer} == answer
        assert result.exit_code == (1 if name == "Broken" else 0)
    blocked = unattended("packages", "show", "Blocked", UNATTENDED_PACKAGES=str(tmp_path)).stdout
    assert blocked.endswith("\nruns of this version are not started; running processes keep the last good version\n")


REQUIRING = {"workflow_name": "P", "initial_agent": "A", "requires": {"env": ["SLACK_URL"]}}


@pytest.mark.parametrize("flags", [(), ("--production",)])
def test_a_variable_that_is_required_and_not_set_is_a_warning(tmp_path: Path, flags: tuple[str, ...]) -> None:
    folder = package(tmp_path, orchestrator=REQUIRING)

    (absent,), (there,) = verdicts(folder, *flags), verdicts(folder, *flags, SLACK_URL="s3cr3t")

    assert [(each["level"], each["code"], each["file"], each["path"]) for each in absent["findings"]] == [
        ("warning", "env_missing", "orchestrator.yaml", "requires.env")
    ]
    assert "the environment variable SLACK_URL is not set" in absent["findings"][0]["message"]
    assert (there["verdict"], there["findings"]) == ("ready", [])


STRICT_CASES: list[tuple[dict[str, Any], int, str]] = [
    ({}, 0, "--strict: no warning"),
    ({"ui_config": "x: 1"}, 0, "--strict: no warning"),  # an info
    ({"orchestrator": REQUIRING}, 1, "--strict: 1 warning, which counts as an error"),
    ({"agents": [{"name": "A", "colour": "x"}]}, 1, "--strict: 2 warnings, which count as errors"),
    ({"hooks": UNSTARTED}, 1, "--strict: 1 warning, which counts as an error"),
    ({"tools": "- ["}, 1, "--strict: no warning"),  # an error
]


@pytest.mark.parametrize(("files", "code", "line"), STRICT_CASES)
def test_strict_counts_warnings_as_errors_and_reports_it(
    tmp_path: Path, files: dict[str, Any], code: int, line: str
) -> None:
    folder = package(tmp_path, **files)

    result, data = unattended("validate", "--strict", folder), unattended("validate", "--strict", "--json", folder)
    lenient = unattended("validate", folder)

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (code, line)
    assert data.exit_code == code
    answer = json.loads(data.stdout)
    warnings = [each for each in answer["packages"][0]["findings"] if each["level"] == "warning"]
    assert (answer["strict"], answer["warnings"]) == (True, len(warnings))
    assert (lenient.exit_code, "--strict" in lenient.stdout) == (1 if "tools" in files else 0, False)
