"""The package of a local run, built from the folder that was named."""

from workers.local_run.plan import Plan
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.invocation import PackageCodeError, TimedOutError, invoke
from workflows.package.environment_requirements import missing_environment_error

BUILD_TIMEOUT_S = 60.0


async def build_local_package(plan: Plan) -> BuiltPackage:
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
