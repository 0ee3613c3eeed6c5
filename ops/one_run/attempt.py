"""An attempt: the chat as it begins, or as it goes on after the last turn that was kept."""

from dataclasses import replace

from ops.one_run.context_log import ContextLog
from ops.one_run.kept import Kept
from ops.one_run.plan import Plan
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_loop import DEFAULT_OPENING
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import RunCounters
from workflows.chat.limits.run_clock import RunClock
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.package_code.invocation import PackageCodeError, TimedOutError, invoke
from workflows.context.context_loader import load_context, suppressed_names
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import remove_hidden
from workflows.package.environment_requirements import missing_environment_error

BUILD_TIMEOUT_S = 60.0


async def built_package(plan: Plan) -> BuiltPackage:
    """Imports the package's Python: code that may do anything, and take for ever."""
    around = plan.around
    error = missing_environment_error(plan.package, around.settings.environ)
    if error is not None:
        raise PackageDefect(error)
    build = (build_package, plan.package, around.models, around.threads, around.databases)
    try:
        built: BuiltPackage = await invoke(*build, keywords={}, threads=around.threads, timeout_s=BUILD_TIMEOUT_S)
    except PackageCodeError as raised:
        if not isinstance(raised.error, TimedOutError):
            raise raised.error from None
        raise PackageDefect(f"its Python files take longer than {BUILD_TIMEOUT_S:g} s to load") from None
    return built


def new_chat(plan: Plan, built: BuiltPackage, kept: Kept, before: RunCounters | None) -> Conversation:
    """`before` is what the attempt before this one had used up."""
    orchestrator, around = plan.package.orchestrator, plan.around
    fixed = plan.facts.base_values()
    checkpoint = kept.checkpoint()
    counters = _carried_over(checkpoint.counters if checkpoint is not None else RunCounters(), before)
    return Conversation(
        built_package=built,
        context=ContextVariables(fixed if checkpoint is None else checkpoint.context),
        suppressed_names=suppressed_names(plan.package, production=around.sources.production),
        meter=RunMeter(kept.record, counters, around.prices, call_number=len(kept.calls)),
        opening_message=around.redactor.redact_text(
            plan.request.message or orchestrator.initial_message or DEFAULT_OPENING
        ),
        turns=[] if checkpoint is None else list(checkpoint.turns),
        next_agent=None if checkpoint is None else checkpoint.next_agent,
        fixed_values=fixed,
        redactor=around.redactor,
        final_outcome=None if checkpoint is None else checkpoint.final_outcome,
        ui_responses=plan.request.ui_responses,
        clock=RunClock(orchestrator.limits.wall_clock_s, counters.worked_s),
    )


def _carried_over(kept: RunCounters, before: RunCounters | None) -> RunCounters:
    """A worker finds in its ledger what an attempt used up that kept nothing else."""
    if before is None:
        return kept
    return replace(
        kept,
        model_calls=before.model_calls,
        tokens=before.tokens,
        cost_nano_usd=before.cost_nano_usd,
        failed=dict(before.failed),
    )


async def load_run_context(plan: Plan, chat: Conversation, context_log: ContextLog) -> None:
    loaded = await load_context(plan.as_loaded, plan.facts, plan.request.input, plan.around.sources)
    context_log.log_loaded(loaded.variables)
    remove_hidden(loaded.variables, chat.suppressed_names, chat.redactor, fixed=chat.fixed_values)
    chat.context = loaded.variables
