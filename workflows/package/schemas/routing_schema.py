"""The schema of the handoffs and transition_graph files."""

from workflows.package.schemas.schema_vocabulary import (
    VERSION_FIELDS,
    Schema,
    either,
    items,
    mapping,
    names,
    not_executed_fields,
    nullable_text,
    one_of,
    read_only_fields,
    ref,
    text,
)

_KINDS = ("after_work", "after_turn", "condition")
_CONDITION_TYPES = ("expression", "context_expression", "context", "context_equals", "string_llm", "llm", "")
_SCOPES = ("pre", "post", "after", "before_reply", "immediate", "context_pre", "")


def _rule_schema() -> Schema:
    source, target = "The agent that spoke, or user", "An agent, user, terminate, or stay: the source itself"
    return mapping(
        "A hand-off from one speaker to the next",
        {
            **{name: text(source) for name in ("source_agent", "source", "from")},
            **{name: text(target) for name in ("target_agent", "target", "to")},
            "handoff_type": one_of(_KINDS, "after_work: always; condition: if the condition holds"),
            "transition_type": one_of(_KINDS, "Alias of handoff_type"),
            "condition_type": one_of(
                _CONDITION_TYPES, "How the condition is evaluated; string_llm: by the agent's model"
            ),
            "condition": {
                "type": ["string", "boolean", "null"],
                "description": "Such as ${stage} == 'done' and not ${stopped}",
            },
            "context_expression": nullable_text("Alias of condition"),
            "condition_key": nullable_text("The variable of context_equals"),
            "condition_value": {"description": "The value of context_equals"},
            "conditions": names("Several conditions; all must hold"),
            "condition_scope": one_of(
                _SCOPES, "pre: evaluated before the agent speaks; if it holds, the agent's reply is skipped"
            ),
            "transition_target": one_of(
                ("AgentTarget", "RevertToUserTarget", "StayTarget", "TerminateTarget"),
                "Kind of the target; must match the target",
            ),
            "termination_reason": nullable_text("workflow_failed fails the run"),
            "priority": {"type": ["number", "null"], "description": "Lower numbers are evaluated first"},
            "description": nullable_text("For readers"),
            **not_executed_fields("trigger"),
            "after_turn": nullable_text("The early form: the agent that spoke"),
            "terminate_if": {"type": ["object", "null"], "description": "The early form: {variable, equals}"},
        },
    )


def routing_schema() -> Schema:
    rules = items(ref("rule"))
    inner = {"type": "object", "properties": {"handoff_rules": rules, "transition_rules": rules, "transitions": rules}}
    fields = {
        **VERSION_FIELDS,
        **read_only_fields("max_turns"),
        "handoff_rules": rules,
        "transition_rules": rules,
        "transitions": rules,
        "handoffs": either(rules, inner),
        "transition_graph": either(rules, inner),
    }
    body = either(
        {"type": "object", "properties": fields},
        rules,
        description="The hand-off rules, in the order of their evaluation",
    )
    return {**body, "definitions": {"rule": _rule_schema()}}
