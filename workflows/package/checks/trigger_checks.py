"""Checks of triggers: unknown inputs, missing inputs, and unused answers."""

from collections.abc import Collection, Sequence

from workflows.package.checks.file_places import triggers_file
from workflows.package.checks.message_parts import join_names
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Hook, LifecycleTool, Package, Tool
from workflows.package.readers.code.parsed_code import read_code
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.ui_responses import find_first_unconditional


def check_triggers(package: Package, findings: Findings) -> None:
    accepted = accepted_inputs(package)
    required = _required_names(package)
    file = triggers_file(package)
    for spec in package.triggers:
        place = package.trigger_places.get(spec.name, "triggers")
        for name in spec.input:
            if name not in accepted:
                message = (
                    f"{spec.name} supplies {name}, which is neither an input nor a runtime variable, so it has no"
                    " effect; declare it under `inputs` of the orchestrator, or remove it"
                )
                findings.add("warning", "unknown_input", file, place, message)
        supplied = frozenset(_supplied_names(spec))
        missing = tuple(name for name in required if name not in supplied)
        if missing:
            names = join_names(missing)
            message = f"{spec.name} does not supply {names}, so its runs fail: every run requires it; add it to `input`"
            findings.add("warning", "missing_input", file, place, message)
        _check_answers(spec, package, findings, file, f"{place}.ui_responses")


def _check_answers(spec: TriggerSpec, package: Package, findings: Findings, file: str, place: str) -> None:
    for name in sorted(spec.ui_responses.keys() - find_asking_names(package)) if spec.ui_responses else ():
        message = (
            f"{spec.name} answers for {name}, which is neither a tool of the package nor a name that a tool asks"
            " with, so it has no effect; write the tool's function, or the tool_id of its use_ui_tool call"
        )
        findings.add("warning", "unknown_tool", file, place, message)
    for name, answers in spec.ui_responses.items():
        unused = range(find_first_unconditional(answers) + 1, len(answers)) if isinstance(answers, list) else ()
        for index in unused:
            message = (
                "is never used: an earlier answer has no `when` and is used in every call; move that answer to the end"
            )
            findings.add("warning", "never_answers", file, f"{place}.{name}[{index}]", message)


def accepted_inputs(package: Package) -> set[str]:
    """Returns the names that a payload may contain.

    Other fields reach no prompt and no query.
    """
    runtime = {name for name, variable in package.variables.items() if variable.kind == "runtime"}
    return runtime.union(package.orchestrator.inputs)


def find_asking_names(package: Package) -> set[str]:
    """Returns the functions, and the tool ids that their files ask with.

    Imported files are not searched.
    """
    parts: list[Tool | LifecycleTool | Hook] = [*package.tools, *package.lifecycle_tools, *package.hooks]
    ui_tools = (read_code(file).ui_tools for file in dict.fromkeys(part.file for part in parts))
    return {part.function for part in parts}.union(*ui_tools)


def _required_names(package: Package) -> list[str]:
    inputs = [
        name
        for name, spec in package.orchestrator.inputs.items()
        if spec.get("required") and spec.get("default") is None
    ]
    runtime = [
        name
        for name, variable in package.variables.items()
        if variable.kind == "runtime" and variable.required and variable.default is None
    ]
    return list(dict.fromkeys([*inputs, *runtime]))


def _supplied_names(spec: TriggerSpec) -> Collection[str]:
    if isinstance(spec, FormSpec) and not spec.input:  # the form's fields are the run's inputs
        return spec.inputs.keys()
    return [name for name, value in spec.input.items() if value is not None]


def find_unknown_workflows(package: Package, workflows: Collection[str]) -> Sequence[Finding]:
    """Warns of unknown workflows.

    They are no errors, since other machines may have more packages.
    """
    findings = Findings()
    for spec in package.triggers:
        if isinstance(spec, RunFinishedSpec) and spec.workflow not in workflows:
            near = findings.suggest_name(spec.workflow, workflows)
            advice = f"did you mean {near}?" if near else "correct the name, or add that package"
            message = f"{spec.name} waits for runs of {spec.workflow}, which is not a workflow here; {advice}"
            place = package.trigger_places.get(spec.name, "triggers")
            findings.add("warning", "unknown_workflow", triggers_file(package), f"{place}.workflow", message)
    return findings.all
