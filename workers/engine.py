"""The engine: the main path of a run, as a list of steps, the same for workers, `unattended run` and tests."""

from workers.steps.finalize_run import finalize
from workers.steps.load_run import load_package, load_run_context, resume_transcript
from workers.steps.release_run import release
from workers.steps.run_execution import RunExecution
from workers.steps.run_failures import failure_as_outcome
from workers.steps.run_services import RunServices
from workers.steps.take_turns import chat_time, take_turns
from workers.steps.under_lease import under_lease
from workers.store.run import Claim


async def execute(claim: Claim, services: RunServices) -> RunExecution:
    """Runs the steps: claim → load package → load context → resume → take turns → finalize → release.

    A turn asks, records usage, derives and routes (`workflows.chat.chat_loop`); its checkpoint is written here. A
    failure becomes the outcome, and the last step releases the run in a state that shows it. `released` stays empty
    when the run was cut off and handed back, or has another owner.
    """
    run = RunExecution(claim, services)
    async with under_lease(run):
        await services.tracing.link_related_runs(claim, services.repository)
        with failure_as_outcome(run):
            await load_package(run)
            async with chat_time(run):
                await load_run_context(run)
                await resume_transcript(run)
            await take_turns(run)
        await finalize(run)
        await release(run)
    return run
