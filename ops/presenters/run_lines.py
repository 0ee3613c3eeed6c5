"""The story of a run as lines: whose it is, why it waits or who has it, what each owner did, and what to do next."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.cli.output import format_exact_usd
from ops.presenters.printable_text import to_printable
from ops.presenters.question_lines import answer_command_line, answer_lines, question_lines
from ops.presenters.times import describe_hold, format_duration, format_utc
from ops.presenters.turn_lines import BAD, DIM, GOOD, Line, error_lines, turn_lines
from workers.control.questions import waiting_questions
from workers.local_run.report import turn_report
from workers.store.run import HoldKind, RunState

WARNING = "yellow"
Story = Mapping[str, Any]

_STYLES = {RunState.SUCCEEDED: GOOD, RunState.FAILED: BAD, RunState.PARKED: BAD, RunState.NEEDS_HUMAN: WARNING}


def run_lines(story: Story) -> Iterator[Line]:
    yield "bold", to_printable(f"{story['run_id']}  {story['workflow']} for {story['app_id']}")
    yield from _outcome_lines(story)
    for name, value in (*run_facts(story), *_link_facts(story), *state_facts(story)):
        yield "", to_printable(f"  {name:<10} {value}")
    if failed := story.get("failed_tools"):
        yield WARNING, f"  {'failed':<10} {failed} call{'s' if failed != 1 else ''} of its tools"
    yield from _owner_lines(story)
    if story["errors"]:  # of what belongs to no turn: one that was not kept, or the end of the run
        yield "", ""
        yield from error_lines(story["errors"])
    yield from _all_answer_lines(story)
    yield from ((WARNING, f"  {line}") for line in question_lines(story))
    cost = story["usage"]
    yield "", ""
    yield (
        DIM,
        f"{cost['calls']} model call{'s' if cost['calls'] != 1 else ''}, "
        f"{cost['input_tokens']} tokens in, {cost['output_tokens']} out, "
        f"USD {format_exact_usd(cost['cost_usd'])}",
    )
    yield from ((WARNING, to_printable(line)) for line in repeat_lines(story))
    for step in next_steps(story):
        yield "", f"→ {step}"


def _outcome_lines(story: Story) -> Iterator[Line]:
    state, outcome = story["state"], story["outcome"]  # maybe a state that only a newer version knows
    style = WARNING if outcome and outcome.get("stranded") else _STYLES.get(state, "")
    if outcome is None or waiting_questions(story):  # the questions say it, once
        yield style, to_printable(state)
        return
    stranded = " (stranded)" if outcome.get("stranded") else ""
    yield style, to_printable(f"{state}, {outcome['kind']}{stranded}: {outcome['reason']}")
    error = outcome.get("error")
    if error:
        tool = f" of the tool {error['tool']}" if error.get("tool") else ""
        place = f"{tool} of {error['agent']} in turn {error['turn']}" if error.get("agent") else ""
        yield style, to_printable(f"  {error['type']}{place}: {error['message']}")


def run_facts(story: Story) -> Iterator[tuple[str, str]]:
    trigger = story["trigger"]
    nominal = f", for {format_utc(trigger['nominal_at'])}" if trigger.get("nominal_at") else ""
    yield "trigger", f"{trigger['name']} ({trigger['type']}), event {trigger['id']}{nominal}"
    yield "accepted", format_utc(story["created_at"])
    if story["started_at"]:
        yield (
            "started",
            f"{format_utc(story['started_at'])}, after {format_duration(story['created_at'], story['started_at'])}",
        )
    if story["finished_at"]:
        took = f", after {format_duration(story['started_at'], story['finished_at'])}" if story["started_at"] else ""
        at_rest = story["state"] in {RunState.PARKED, RunState.NEEDS_HUMAN}
        yield (
            "at rest" if at_rest else "ended",
            f"{'since ' if at_rest else ''}{format_utc(story['finished_at'])}{took}",
        )
    yield "attempt", f"{story['attempt']}, package {(story['package_version'] or 'not loaded yet')[:20]}"


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
        yield "keys", f"tools are given the idempotency keys of {story['keys_of']}"
    if story.get("replays"):
        yield "replayed", f"as {', '.join(story['replays'])}"


def state_facts(story: Story) -> Iterator[tuple[str, str]]:
    """Why it waits, or who has it."""
    if story["state"] == RunState.QUEUED:
        yield from _wait_facts(story)
    if story["state"] == RunState.RUNNING:
        lease = story["lease"]
        yield "owner", f"{lease['owner']}, lease {lease['token']} until {format_utc(lease['until'])}"
    asked, resolved = story.get("cancel_requested"), story.get("resolved")
    if asked:
        yield "cancel", f"asked for by {asked['by']}, {format_utc(asked['at'])}"
    if resolved:
        anew = f" as {resolved['run_id']}" if resolved.get("run_id") else ""
        yield "resolved", f"{resolved['how']}{anew} by {resolved['by']}, {format_utc(resolved['at'])}"


def _wait_facts(story: Story) -> Iterator[tuple[str, str]]:
    if "waits_for" in story:
        before = story["waits_for"] or "its turn, which the next pass of the scheduler gives"
        yield "waits", f"for {before}; one run at a time of {story['order']['key']}"
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
    """Each owner with the turns it committed, and how it let go."""
    turns, version = list(story["turns"]), None
    for line in story.get("history") or []:
        used = line.get("package_version") or version
        edited = f", package {used[:20]} from here on" if used and version and used != version else ""
        version = used
        own = [turn for turn in turns if turn["number"] <= line["turn"]]
        turns = turns[len(own) :]
        took = format_duration(line["from"], line["until"])
        yield "", ""
        who = f"{line['owner'] or 'a worker'} from {format_utc(line['from'])} for {took}, lease {line['token']}"
        yield DIM, to_printable(who + edited)
        yield from _owner_turn_lines(own)
        ended, reason = line["ended"].replace("_", " "), f": {line['reason']}" if line["reason"] else ""
        yield DIM, to_printable(f"  {ended} after turn {line['turn']}{reason}")
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
    """Before a replay is advised: what it would do again."""
    done = story.get("done")
    if done and not story.get("replays") and story["state"] in {RunState.PARKED, RunState.FAILED}:
        yield "A replay begins with the first turn, and does again what this run has done:"
        yield from (f"  {sentence}" for sentence in done["sentences"])
        yield done["about_keys"]


def next_steps(story: Story) -> Iterator[str]:
    """What a person can do about it now."""
    run_id, command = story["run_id"], "unattended runs"
    state = story["state"]
    if state == RunState.PARKED:
        yield f"start it anew: {command} replay {run_id}"
        yield f"or give it up: {command} discard {run_id}"
    elif state == RunState.NEEDS_HUMAN:
        commands = [answer_command_line(run_id, question) for question in waiting_questions(story)]
        yield from (f"answer it: {each}" for each in commands or [f"{command} answer {run_id}"])
        yield f"or give it up: {command} discard {run_id}"
    elif state == RunState.FAILED and not story.get("replays"):
        yield f"once the cause is mended, start it anew: {command} replay {run_id}"
    elif state == RunState.QUEUED and not story["hold"] and story.get("not_before"):
        yield f"if it is to start before its time: {command} retry-now {run_id}"
    elif state == RunState.RUNNING:
        yield f"follow it: {command} tail {run_id}"
