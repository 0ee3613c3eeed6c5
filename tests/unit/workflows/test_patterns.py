"""The nine patterns of design 4, each a package in tests/patterns: order and end."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.loader import load_package

PATTERNS = Path(__file__).parents[2] / "patterns"
NAMES = sorted(folder.name for folder in PATTERNS.iterdir())

COMPLETED, FAILED = OutcomeKind.COMPLETED, OutcomeKind.WORKFLOW_FAILED
TRIED = ["TaskMaster", "Plain", "Playful", "Learned", "Judge"]
# Package, answers, input; the speakers of all turns; the end.
SCRIPTS: list[tuple[str, str, dict[str, Any], list[str], OutcomeKind]] = [
    ("ContextAwareRouting", "answers", {}, ["Router", "BillingDesk"], COMPLETED),
    ("ContextAwareRouting", "answers", {"desk": "technical"}, ["TechnicalDesk"], COMPLETED),
    (
        "ContextAwareRouting",
        "answers-misrouted",
        {},
        ["Router", "TechnicalDesk", "Router", "BillingDesk"],
        COMPLETED,
    ),
    ("ContextAwareRouting", "answers-unsure", {}, ["Router", "GeneralDesk"], COMPLETED),
    ("Escalation", "answers", {}, ["FirstLine", "SecondLine"], COMPLETED),
    ("Escalation", "answers-first-line", {}, ["FirstLine"], COMPLETED),
    ("Escalation", "answers-given-up", {}, ["FirstLine", "SecondLine", "Expert"], FAILED),
    ("FeedbackLoop", "answers", {}, ["Planner", *["Drafter", "Reviewer"] * 2, "Publisher"], COMPLETED),
    ("FeedbackLoop", "answers-given-up", {}, ["Planner", *["Drafter", "Reviewer"] * 3], FAILED),
    (
        "Hierarchical",
        "answers",
        {},
        [
            *("Director", "MarketManager", "PriceResearcher", "MarketManager", "RivalResearcher", "MarketManager"),
            *("Director", "TextManager", "Copywriter", "TextManager", "Director"),
        ],
        COMPLETED,
    ),
    ("Organic", "answers", {}, ["ProjectLead", "Mover", "Accountant", "Web_Editor", "ProjectLead"], COMPLETED),
    ("Organic", "answers-unreadable", {}, ["ProjectLead"], OutcomeKind.MODEL_ERROR),
    ("Pipeline", "answers", {}, ["OrderDesk", "Stock", "Payment", "Shipping", "Notice"], COMPLETED),
    ("Pipeline", "answers-refused", {}, ["OrderDesk", "Stock", "Payment", "Notice"], COMPLETED),
    ("Pipeline", "answers-unclear", {}, ["OrderDesk", "Stock", "Payment"], OutcomeKind.NO_TRANSITION),
    ("Pipeline", "answers", {"order": {"items": []}}, ["OrderDesk"], FAILED),
    ("Redundant", "answers", {}, TRIED, COMPLETED),
    ("Redundant", "answers-again", {}, [*TRIED, *TRIED[1:]], FAILED),
    (
        "Star",
        "answers",
        {},
        ["Concierge", "Weather", "Concierge", "Café-Guide", "Concierge", "Concierge"],
        COMPLETED,
    ),
    ("Star", "answers-nothing", {}, ["Concierge", "Trains", "Concierge"], FAILED),
    (
        "TriageWithTasks",
        "answers",
        {},
        ["Triage", *["TaskManager", "Researcher"] * 2, "TaskManager", "Writer", "TaskManager", "Editor"],
        COMPLETED,
    ),
    ("TriageWithTasks", "answers-nothing-to-do", {}, ["Triage", "TaskManager", "Editor"], COMPLETED),
]


def chat(name: str, answers: str, inputs: dict[str, Any], folder: Path) -> Chat:
    package = load_package(PATTERNS / name)
    context = {key: spec.get("default") for key, spec in package.orchestrator.inputs.items()}
    context |= {each.name: copy.deepcopy(each.default) for each in package.variables.values()}
    made = build_chat(package, PATTERNS / name / f"{answers}.yaml", folder)
    return Chat(made, {"app_id": "acme", "chat_id": "run_1", **context, **inputs})


async def play_pattern(
    name: str, folder: Path, answers: str = "answers", **inputs: Any
) -> tuple[Outcome, ChatRecorder]:
    return await chat(name, answers, inputs, folder).run()


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_is_a_package_without_findings(name: str) -> None:
    package = load_package(PATTERNS / name)

    assert package.findings == ()
    assert package.name == name


@pytest.mark.design("D4-7")
def test_every_pattern_is_played_in_every_way_that_is_written_down() -> None:
    written = {(file.parent.name, file.stem) for file in PATTERNS.glob("*/answers*.yaml")}
    assert {(name, answers) for name, answers, *_ in SCRIPTS} == written
    assert len(NAMES) == 9


@pytest.mark.design("D4-7")
@pytest.mark.parametrize(
    ("name", "answers", "given", "speakers", "kind"),
    SCRIPTS,
    ids=["-".join([name, answers.removeprefix("answers"), *given]) for name, answers, given, *_ in SCRIPTS],
)
async def test_the_order_of_agents_and_the_end_are_equal_from_a_checkpoint(
    tmp_path: Path, name: str, answers: str, given: dict[str, Any], speakers: list[str], kind: OutcomeKind
) -> None:
    playing = chat(name, answers, given, tmp_path)
    outcome, kept = await playing.run()

    assert (kept.speakers, outcome.kind) == (speakers, kind)
    for number in {1, len(speakers) // 2 + 1, len(speakers)}:
        again, resumed = await playing.run(kept.copy_up_to(number))

        assert again == outcome
        assert [turn.text for turn in resumed.turns] == [turn.text for turn in kept.turns]
        assert resumed.context(len(speakers)) == kept.context(len(speakers))


async def test_a_known_desk_skips_the_router_and_its_model(tmp_path: Path) -> None:
    _, kept = await play_pattern("ContextAwareRouting", tmp_path, desk="billing")
    assert [call.agent for call in kept.calls] == ["BillingDesk"]


async def test_the_escalated_question_keeps_its_surest_answer(tmp_path: Path) -> None:
    _, kept = await play_pattern("Escalation", tmp_path, "answers-given-up")

    assert kept.context(3)["tried_by"] == [1, 3, 2]
    assert kept.context(3)["answer"] == "Rarely."


async def test_the_feedback_of_two_rounds_is_counted(tmp_path: Path) -> None:
    outcome, kept = await play_pattern("FeedbackLoop", tmp_path)

    assert outcome.reason == "workflow_complete"
    assert [kept.context(number)["points"] for number in (3, 5)] == [["say from when"], []]


async def test_a_manager_of_the_hierarchy_hands_over_with_words_and_without(tmp_path: Path) -> None:
    _, kept = await play_pattern("Hierarchical", tmp_path)

    silent, spoken = kept.turn(2), kept.turn(4)
    assert (silent.text, silent.handoff, list(silent.events)) == ("", "PriceResearcher", [])
    assert (spoken.text, spoken.handoff) == ("And the rivals?", "RivalResearcher")
    assert kept.context(5)["notes"] == {"prices": "900 to 1200", "rivals": "two with a belt"}


async def test_the_organic_manager_is_metered_as_itself(tmp_path: Path) -> None:
    _, kept = await play_pattern("Organic", tmp_path)

    assert [call.agent for call in kept.calls[:4]] == ["ProjectLead", "group_manager", "Mover", "group_manager"]
    assert kept.turn(1).tokens == {"input": 80, "output": 4}
    assert [turn.handoff for turn in kept.turns][-1] == "terminate"


async def test_a_proposal_of_the_redundant_agents_wins(tmp_path: Path) -> None:
    _, kept = await play_pattern("Redundant", tmp_path)
    assert kept.context(5)["winner"] == "The Pedal"


async def test_the_hub_of_the_star_hands_over_beside_other_calls_and_stays(tmp_path: Path) -> None:
    _, kept = await play_pattern("Star", tmp_path)

    both = kept.turn(3)
    assert (both.text, both.handoff) == ("Now the table.", "Café-Guide")  # the first of two transfers
    assert [call["name"] for call in both.as_document()["tool_calls"]] == ["keep_note"]
    assert [turn.handoff for turn in kept.turns[4:]] == ["Concierge", "terminate"]


async def test_the_tasks_of_the_triage_are_done_in_their_order(tmp_path: Path) -> None:
    _, kept = await play_pattern("TriageWithTasks", tmp_path)

    titles = [each["title"] for each in kept.context(8)["finished"]]
    assert titles == ["what they cost", "how they work", "the page on costs"]
