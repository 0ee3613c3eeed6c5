"""Metrics of budgets, out of their standings.

Several may share their labels: those of apps without a label of their own. Of those the fullest is shown, limit and
use: it is the one that stops calls first, and an alert must not miss it among the others.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric

from accounting.app_labels import AppLabels
from accounting.budgets.budget import shown_amount
from accounting.budgets.standing import Standing
from ops.exporter.budgets import BudgetLook, Scope
from ops.exporter.families import Counters, Labels, gauge_by

NAMES = ("app", "workflow", "window", "unit")
NO_APP = NO_WORKFLOW = ""  # of all of them together


def budget_families(budgets: BudgetLook, apps: AppLabels, counters: Counters) -> Iterator[Metric]:
    fullest: dict[Labels, Standing] = {}
    for each in budgets.standings:
        labels = _labels(Scope(each.app_id, each.budget.workflow, each.budget.window, each.budget.unit), apps)
        shown = fullest.get(labels)
        if shown is None or (each.share, -each.left) > (shown.share, -shown.left):
            fullest[labels] = each
    rejections: dict[Labels, float] = {}
    for scope, count in budgets.rejections.items():
        labels = _labels(scope, apps)
        rejections[labels] = rejections.get(labels, 0) + count
    limits = {labels: shown_amount(each.budget.unit, each.limit) for labels, each in fullest.items()}
    used = {
        labels: shown_amount(each.budget.unit, each.spent) for labels, each in fullest.items() if each.start is not None
    }
    limit_text = "What may be spent in a window; of budgets with the same labels, the fullest"
    yield gauge_by("unattended_budget_limit", limit_text, NAMES, limits)
    used_text = "What was spent in the present window, of the same budget; a budget per run has no such number"
    yield gauge_by("unattended_budget_used", used_text, NAMES, used)
    rejected = "Runs that a budget held or refused, and calls that it kept from being made"
    yield counters.family("unattended_budget_rejections", rejected, NAMES, rejections)


def _labels(scope: Scope, apps: AppLabels) -> Labels:
    app = NO_APP if scope.app_id is None else apps.label(scope.app_id)
    return app, scope.workflow or NO_WORKFLOW, scope.window, scope.unit
