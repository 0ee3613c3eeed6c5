"""The story of a run as lines: whose it is, why it waits or who has it, what each owner did, and what to do next."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.cli.output import usd
from ops.cli.runs.lines import clock, held_by, lasting
from ops.cli.runs.question_lines import answer_lines, answering_command, question_lines
from ops.cli.turn_lines import BAD, DIM, GOOD, Line, failure_lines, turn_lines
from ops.cli.verdicts import printable
from workers.control.questions import waiting_questions
from workers.local_run.report import turn_report
from workers.store.run import HoldKind, RunState

WARN = "yellow"
Story = Mapping[str, Any]

_STYLES = {RunState.SUCCEEDED: GOOD, RunState.FAILED: BAD, RunState.PARKED: BAD, RunState.NEEDS_HUMAN: WARN}


def story_lines(story: Story) -> Iterator[Line]:
    yield "bold", printable(f"{story['run_id']}  {story['workflow']} for {story['app_id']}")
    yield from _outcome(story)
    for name, value in (*own_facts(story), *_ties(story), *why_so(story)):
        yield "", printable(f"  {name:<10} {value}")
    if failed := story.get("failed_tools"):
        yield WARN, f"  {'failed':<10} {failed} call{'s' if failed != 1 else ''} of its tools"
    yield from _owners(story)
    if story["errors"]:  # of what belongs to no turn: one that was not kept, or the end of the run
        yield "", ""
        yield from failure_lines(story["errors"])
    yield from _answers(story)
    yield from ((WARN, f"  {line}") for line in question_lines(story))
    cost = story["usage"]
    yield "", ""
    yield (
        DIM,
        f"{cost['calls']} model call{'s' if cost['calls'] != 1 else ''}, "
        f"{cost['input_tokens']} tokens in, {cost['output_tokens']} out, "
        f"USD {usd(cost['cost_usd'])}",
    )
    yield from ((WARN, printable(line)) for line in repeat_lines(story))
    for step in next_steps(story):
        yield "", f"→ {step}"


def _outcome(story: Story) -> Iterator[Line]:
    state, outcome = story["state"], story["outcome"]  # maybe a state that only a newer version knows
    style = WARN if outcome and outcome.get("stranded") else _STYLES.get(state, "")
    if outcome is None or waiting_questions(story):  # the questions say it, once
        yield style, printable(state)
        return
    stranded = " (stranded)" if outcome.get("stranded") else ""
    yield style, printable(f"{state}, {outcome['kind']}{stranded}: {outcome['reason']}")
    error = outcome.get("error")
    if error:
        tool = f" of the tool {error['tool']}" if error.get("tool") else ""
        place = f"{tool} of {error['agent']} in turn {error['turn']}" if error.get("agent") else ""
        yield style, printable(f"  {error['type']}{place}: {error['message']}")


def own_facts(story: Story) -> Iterator[tuple[str, str]]:
    trigger = story["trigger"]
    nominal = f", for {clock(trigger['nominal_at'])}" if trigger.get("nominal_at") else ""
    yield "trigger", f"{trigger['name']} ({trigger['type']}), event {trigger['id']}{nominal}"
    yield "accepted", clock(story["created_at"])
    if story["started_at"]:
        yield "started", f"{clock(story['started_at'])}, after {lasting(story['created_at'], story['started_at'])}"
    if story["finished_at"]:
        took = f", after {lasting(story['started_at'], story['finished_at'])}" if story["started_at"] else ""
        at_rest = story["state"] in {RunState.PARKED, RunState.NEEDS_HUMAN}
        yield "at rest" if at_rest else "ended", f"{'since ' if at_rest else ''}{clock(story['finished_at'])}{took}"
    yield "attempt", f"{story['attempt']}, package {(story['package_version'] or 'not loaded yet')[:20]}"


def _ties(story: Story) -> Iterator[tuple[str, str]]:
    if story.get("user_id"):
        yield "user", story["user_id"]
    if story.get("parent_run_id"):
        yield "parent", story["parent_run_id"]
    if story.get("chain"):
        yield "chain", " → ".join(story["chain"])
    if story.get("debounce"):
        yield "events", f"{story['debounce']['events']} so far, merged until {clock(story['debounce']['until'])}"
    if story.get("replay_of"):
        yield "replay of", story["replay_of"]
    if story.get("keys_of"):
        yield "keys", f"tools are given the idempotency keys of {story['keys_of']}"
    if story.get("replays"):
        yield "replayed", f"as {', '.join(story['replays'])}"


def why_so(story: Story) -> Iterator[tuple[str, str]]:
    """Why it waits, or who has it."""
    if story["state"] == RunState.QUEUED:
        yield from _why_it_waits(story)
    if story["state"] == RunState.RUNNING:
        lease = story["lease"]
        yield "owner", f"{lease['owner']}, lease {lease['token']} until {clock(lease['until'])}"
    asked, resolved = story.get("cancel_requested"), story.get("resolved")
    if asked:
        yield "cancel", f"asked for by {asked['by']}, {clock(asked['at'])}"
    if resolved:
        anew = f" as {resolved['run_id']}" if resolved.get("run_id") else ""
        yield "resolved", f"{resolved['how']}{anew} by {resolved['by']}, {clock(resolved['at'])}"


def _why_it_waits(story: Story) -> Iterator[tuple[str, str]]:
    if "waits_for" in story:
        before = story["waits_for"] or "its turn, which the next pass of the scheduler gives"
        yield "waits", f"for {before}; one run at a time of {story['order']['key']}"
    elif story["hold"]:
        until = ""
        if story["hold"] == HoldKind.BUDGET:
            ends = story.get("held_until")
            until = ", until its limit is raised" if ends is None else f", until {clock(ends)}"
        yield "held", held_by(story) + until
    if story.get("not_before"):
        yield "due", clock(story["not_before"])
    if requeued := story.get("last_requeue"):
        yield "queued", f"again {clock(requeued['at'])}: {requeued['reason']}"
    if not story["hold"] and not story.get("not_before"):
        yield "waits", "for a worker"


def _owners(story: Story) -> Iterator[Line]:
    """Each owner with the turns it committed, and how it let go."""
    turns, version = list(story["turns"]), None
    for line in story.get("history") or []:
        used = line.get("package_version") or version
        edited = f", package {used[:20]} from here on" if used and version and used != version else ""
        version = used
        own = [turn for turn in turns if turn["number"] <= line["turn"]]
        turns = turns[len(own) :]
        took = lasting(line["from"], line["until"])
        yield "", ""
        who = f"{line['owner'] or 'a worker'} from {clock(line['from'])} for {took}, lease {line['token']}"
        yield DIM, printable(who + edited)
        yield from _turns(own)
        ended, reason = line["ended"].replace("_", " "), f": {line['reason']}" if line["reason"] else ""
        yield DIM, printable(f"  {ended} after turn {line['turn']}{reason}")
    if turns:
        yield "", ""
        yield from _turns(turns)


def _turns(turns: list[Mapping[str, Any]]) -> Iterator[Line]:
    for turn in turns:
        report = turn_report(turn)
        yield from turn_lines(turn["number"], report)
        yield from failure_lines(report.errors)


def _answers(story: Story) -> Iterator[Line]:
    for answer in story.get("answers") or []:
        yield from (("", f"  {line}") for line in answer_lines(answer, clock(answer.get("at"))))


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
        commands = [answering_command(run_id, question) for question in waiting_questions(story)]
        yield from (f"answer it: {each}" for each in commands or [f"{command} answer {run_id}"])
        yield f"or give it up: {command} discard {run_id}"
    elif state == RunState.FAILED and not story.get("replays"):
        yield f"once the cause is mended, start it anew: {command} replay {run_id}"
    elif state == RunState.QUEUED and not story["hold"] and story.get("not_before"):
        yield f"if it is to start before its time: {command} retry-now {run_id}"
    elif state == RunState.RUNNING:
        yield f"follow it: {command} tail {run_id}"
