"""The schemas of files that are looked at and not executed: task batches and the user interface."""

from workflows.package.schemas.vocabulary import VERSION_FIELDS, Schema, items, mapping, names, ref, text, whole


def task_batches_schema() -> Schema:
    entry = mapping(
        "A batch; not executed yet",
        {
            "id": text("Its name"),
            "trigger_agent": text("The agent after whom it runs"),
            "decomposition_agent": text("The agent that writes the list of tasks"),
            "execution_agents": names("The agents that work through it"),
            "concurrency": whole("Tasks at once"),
            "retry_limit": whole("Further attempts of a task", minimum=0),
            "timeout_seconds": whole("Of a task"),
            "failure_policy": text("What one failed task means for the batch"),
            "require_owned_paths": {"type": ["boolean", "null"]},
        },
        required=["id"],
    )
    fields = {
        **VERSION_FIELDS,
        "version": {"type": ["integer", "string"]},
        **dict.fromkeys(("batches", "conveyors"), items(ref("batch"))),
    }
    return {**mapping("Agents that work through a list; not executed yet", fields), "definitions": {"batch": entry}}


def ui_config_schema() -> Schema:
    fields = {**VERSION_FIELDS, "visual_agents": {"type": ["array", "null"], "description": "Not read"}}
    return mapping("A user interface; there is none here, so that nothing of it is read", fields)
