"""A run as lines: outcome, facts, owners and turns, answers, usage, and what to do next."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.presenters.amounts import format_exact_usd, pluralize
from ops.presenters.printable_text import to_printable
from ops.presenters.question_lines import answer_command_line, answer_lines, question_lines
from ops.presenters.times import format_duration, format_utc
from ops.presenters.turn_lines import BAD, DIM, GOOD, WARNING, Line, error_lines, turn_lines
from workers.control.open_questions import waiting_questions
from workers.local_run.report import turn_report
from workers.store.run import HoldKind, RunState
from workers.store.run_order import ORDER_PREFIX

Story = Mapping[str, Any]

_STYLES = {RunState.SUCCEEDED: GOOD, RunState.FAILED: BAD, RunState.PARKED: BAD, RunState.NEEDS_HUMAN: WARNING}


def run_lines(story: Story) -> Iterator[Line]:
    yield "bold", to_printable(f"{story['run_id']}  {story['workflow']} for {story['app_id']}")
    yield from _outcome_lines(story)
    for name, value in (*run_facts(story), *_link_facts(story), *state_facts(story)):
        yield "", to_printable(f"  {name:<10} {value}")
    if failed := story.get("failed_tools"):
        yield WARNING, f"  {'failed':<10} {pluralize(failed, 'tool call')}"
    yield from _owner_lines(story)
    if story["errors"]:  # outside of any stored turn: of an uncommitted turn, or of the end of the run
        yield "", ""
        yield from error_lines(story["errors"])
    yield from _all_answer_lines(story)
    yield from ((WARNING, f"  {line}") for line in question_lines(story))
    usage = story["usage"]
    tokens = f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    yield "", ""
    yield DIM, f"{pluralize(usage['calls'], 'model call')}, {tokens}, USD {format_exact_usd(usage['cost_usd'])}"
    yield from ((WARNING, to_printable(line)) for line in repeat_lines(story))
    for step in next_steps(story):
        yield "", f"→ {step}"


def _outcome_lines(story: Story) -> Iterator[Line]:
    state, outcome = story["state"], story["outcome"]  # maybe a state that only a newer version knows
    style = WARNING if outcome and outcome.get("stranded") else _STYLES.get(state, "")
    if outcome is None or waiting_questions(story):  # the questions follow below
        yield style, to_printable(state)
        return
    stranded = " (stranded)" if outcome.get("stranded") else ""
    yield style, to_printable(f"{state}, {outcome['kind']}{stranded}: {outcome['reason']}")
    error = outcome.get("error")
    if error:
        tool = f" of the tool {error['tool']}" if error.get("tool") else ""
        location = f"{tool} of {error['agent']} in turn {error['turn']}" if error.get("agent") else ""
        yield style, to_printable(f"  {error['type']}{location}: {error['message']}")


def run_facts(story: Story) -> Iterator[tuple[str, str]]:
    trigger = story["trigger"]
    nominal = f", for {format_utc(trigger['nominal_at'])}" if trigger.get("nominal_at") else ""
    yield "trigger", f"{trigger['name']} ({trigger['type']}), event {trigger['id']}{nominal}"
    yield "accepted", format_utc(story["created_at"])
    if story["started_at"]:
        waited = format_duration(story["created_at"], story["started_at"])
        yield "started", f"{format_utc(story['started_at'])}, after {waited}"
    if story["finished_at"]:
        took = f", after {format_duration(story['started_at'], story['finished_at'])}" if story["started_at"] else ""
        at_rest = story["state"] in {RunState.PARKED, RunState.NEEDS_HUMAN}
        yield (
            "at rest" if at_rest else "ended",
            f"{'since ' if at_rest else ''}{format_utc(story['finished_at'])}{took}",
        )
    not_loaded = "not loaded" if story["finished_at"] else "not loaded yet"
    yield "attempt", f"{story['attempt']}, package {(story['package_version'] or not_loaded)[:20]}"


def describe_state(run: Mapping[str, Any]) -> str:
    """Add the reason why a queued run may not start yet."""
    later = "later" if run["state"] == RunState.QUEUED and run.get("not_before") else None
    reason = "in order" if str(run.get("held_by")).startswith(ORDER_PREFIX) else run["hold"] or later
    return run["state"] if reason is None else f"{run['state']} ({reason})"


def describe_hold(run: Mapping[str, Any]) -> str:
    holder = run.get("held_by") or ""
    if run["hold"] == HoldKind.BUDGET:  # a budget's name begins with the word
        return f"by the {holder.replace(':', ' ', 1)}"
    return f"by the {run['hold']} limit {holder}".rstrip()


def _link_facts(story: Story) -> Iterator[tuple[str, str]]:
    if story.get("user_id"):
        yield "user", story["user_id"]
    if story.get("parent_run_id"):
        yield "parent", story["parent_run_id"]
    if story.get("chain"):
        yield "chain", " → ".join(story["chain"])
    if story.get("debounce"):
        yield "events", f"{story['debounce']['events']} so far, merged until {format_utc(story['debounce']['until'])}"
    if story.get("replay_of"):
        yield "replay of", story["replay_of"]
    if story.get("keys_of"):
        yield "keys", f"tools get the idempotency keys of {story['keys_of']}"
    if story.get("replays"):
        yield "replayed", f"as {', '.join(story['replays'])}"


def state_facts(story: Story) -> Iterator[tuple[str, str]]:
    """Yield why the run waits, or which worker owns it."""
    if story["state"] == RunState.QUEUED:
        yield from _wait_facts(story)
    if story["state"] == RunState.RUNNING:
        lease = story["lease"]
        yield "owner", f"{lease['owner']}, lease {lease['token']} until {format_utc(lease['until'])}"
    cancel_request, resolved = story.get("cancel_requested"), story.get("resolved")
    if cancel_request:
        yield "cancel", f"requested by {cancel_request['by']}, {format_utc(cancel_request['at'])}"
    if resolved:
        new_run = f" as {resolved['run_id']}" if resolved.get("run_id") else ""
        yield "resolved", f"{resolved['how']}{new_run} by {resolved['by']}, {format_utc(resolved['at'])}"


def _wait_facts(story: Story) -> Iterator[tuple[str, str]]:
    if "waits_for" in story:
        previous = story["waits_for"] or "its turn, which the scheduler's next pass gives"
        yield "waits", f"for {previous}; one run at a time of {story['order']['key']}"
    elif story["hold"]:
        until = ""
        if story["hold"] == HoldKind.BUDGET:
            ends = story.get("held_until")
            until = ", until its limit is raised" if ends is None else f", until {format_utc(ends)}"
        yield "held", describe_hold(story) + until
    if story.get("not_before"):
        yield "due", format_utc(story["not_before"])
    if requeued := story.get("last_requeue"):
        yield "queued", f"again {format_utc(requeued['at'])}: {requeued['reason']}"
    if not story["hold"] and not story.get("not_before"):
        yield "waits", "for a worker"


def _owner_lines(story: Story) -> Iterator[Line]:
    """Yield each owner with the turns it committed, and how its lease ended."""
    turns, version = list(story["turns"]), ""
    for lease in story.get("history") or []:
        lease_version = lease.get("package_version") or version
        is_edited = lease_version and version and lease_version != version
        edit = f", package {lease_version[:20]} from here on" if is_edited else ""
        version = lease_version
        own_turns = [turn for turn in turns if turn["number"] <= lease["turn"]]
        turns = turns[len(own_turns) :]
        duration = format_duration(lease["from"], lease["until"])
        yield "", ""
        owner = f"{lease['owner'] or 'a worker'} from {format_utc(lease['from'])} for {duration}"
        yield DIM, to_printable(f"{owner}, lease {lease['token']}{edit}")
        yield from _owner_turn_lines(own_turns)
        end, reason = lease["ended"].replace("_", " "), f": {lease['reason']}" if lease["reason"] else ""
        yield DIM, to_printable(f"  {end} after turn {lease['turn']}{reason}")
    if turns:
        yield "", ""
        yield from _owner_turn_lines(turns)


def _owner_turn_lines(turns: list[Mapping[str, Any]]) -> Iterator[Line]:
    for turn in turns:
        report = turn_report(turn)
        yield from turn_lines(turn["number"], report)
        yield from error_lines(report.errors)


def _all_answer_lines(story: Story) -> Iterator[Line]:
    for answer in story.get("answers") or []:
        yield from (("", f"  {line}") for line in answer_lines(answer, format_utc(answer.get("at"))))


def repeat_lines(story: Story) -> Iterator[str]:
    """Yield the effects that a replay would repeat, before it is suggested."""
    effects = story.get("done")
    if effects and not story.get("replays") and story["state"] in {RunState.PARKED, RunState.FAILED}:
        yield "A replay begins with the first turn, and repeats these effects:"
        yield from (f"  {sentence}" for sentence in effects["sentences"])
        yield effects["about_keys"]


def next_steps(story: Story) -> Iterator[str]:
    """Yield the commands that an operator can run now."""
    run_id, command = story["run_id"], "unattended runs"
    state = story["state"]
    if state == RunState.PARKED:
        yield f"replay it: {command} replay {run_id}"
        yield f"or discard it: {command} discard {run_id}"
    elif state == RunState.NEEDS_HUMAN:
        answers = [answer_command_line(run_id, question) for question in waiting_questions(story)]
        yield from (f"answer it: {answer}" for answer in answers or [f"{command} answer {run_id}"])
        yield f"or discard it: {command} discard {run_id}"
    elif state == RunState.FAILED and not story.get("replays"):
        yield f"fix the cause, then replay it: {command} replay {run_id}"
    elif state == RunState.QUEUED and not story["hold"] and story.get("not_before"):
        yield f"start it now: {command} retry-now {run_id}"
    elif state == RunState.RUNNING:
        yield f"follow it: {command} tail {run_id}"
