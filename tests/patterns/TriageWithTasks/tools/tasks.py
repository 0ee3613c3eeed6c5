"""A list of tasks: research comes before writing, and within a kind what matters most comes first."""

from typing import Annotated, Any

ORDER = ("research", "writing")


def plan_tasks(
    tasks: Annotated[list[dict[str, Any]], "each with kind (research or writing), title and priority"],
    context_variables: Any = None,
) -> str:
    planned = sorted(tasks, key=lambda task: (ORDER.index(task["kind"]), task["priority"]))
    context_variables.set("tasks", planned)
    return f"{len(planned)} tasks"


def next_task(context_variables: Any = None) -> str:
    tasks = context_variables["tasks"]
    context_variables.set("stage", tasks[0]["kind"] if tasks else "done")
    return tasks[0]["title"] if tasks else "nothing is left to do"


def finish_task(result: str, context_variables: Any = None) -> str:
    task, *left = context_variables["tasks"]
    context_variables.set("tasks", left)
    context_variables.set("finished", [*context_variables["finished"], {"title": task["title"], "result": result}])
    return f"{len(left)} left"
