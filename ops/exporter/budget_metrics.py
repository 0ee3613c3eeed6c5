"""Metrics of budgets, out of their standings.

Several may share their labels: those of apps without a label of their own. Of those the fullest is shown, limit and
use: it is the one that stops calls first, and an alert must not miss it among the others.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric

from accounting.app_labels import AppLabels
from accounting.budgets.budget import display_amount
from accounting.budgets.standing import BudgetStatus
from ops.exporter.budgets import BudgetState, BudgetScope
from ops.exporter.families import MonotonicCounters, Labels, labelled_gauge_family

BUDGET_LABELS = ("app", "workflow", "window", "unit")
ALL_APPS_LABEL = ALL_WORKFLOWS_LABEL = ""  # of all of them together


def budget_families(budgets: BudgetState, apps: AppLabels, counters: MonotonicCounters) -> Iterator[Metric]:
    fullest: dict[Labels, BudgetStatus] = {}
    for each in budgets.standings:
        labels = _budget_labels(BudgetScope(each.app_id, each.budget.workflow, each.budget.window, each.budget.unit), apps)
        shown = fullest.get(labels)
        if shown is None or (each.share, -each.remaining) > (shown.share, -shown.remaining):
            fullest[labels] = each
    rejections: dict[Labels, float] = {}
    for scope, count in budgets.rejections.items():
        labels = _budget_labels(scope, apps)
        rejections[labels] = rejections.get(labels, 0) + count
    limits = {labels: display_amount(each.budget.unit, each.limit) for labels, each in fullest.items()}
    used = {
        labels: display_amount(each.budget.unit, each.spent) for labels, each in fullest.items() if each.start is not None
    }
    limit_text = "What may be spent in a window; of budgets with the same labels, the fullest"
    yield labelled_gauge_family("unattended_budget_limit", limit_text, BUDGET_LABELS, limits)
    used_text = "What was spent in the present window, of the same budget; a budget per run has no such number"
    yield labelled_gauge_family("unattended_budget_used", used_text, BUDGET_LABELS, used)
    rejected = "Runs that a budget held or refused, and calls that it kept from being made"
    yield counters.family("unattended_budget_rejections", rejected, BUDGET_LABELS, rejections)


def _budget_labels(scope: BudgetScope, apps: AppLabels) -> Labels:
    app = ALL_APPS_LABEL if scope.app_id is None else apps.label(scope.app_id)
    return app, scope.workflow or ALL_WORKFLOWS_LABEL, scope.window, scope.unit
