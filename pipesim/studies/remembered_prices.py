"""Prices of plans: each computed once for all plans that take equally long, and the next one by another process."""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple

from pipesim.base import forked
from pipesim.base.forked import Forked
from pipesim.core.cluster import Cluster
from pipesim.core.granularity import Blocks
from pipesim.core.plan import Plan
from pipesim.lowering.plan_form import Form, form_of

WORTH_A_PROCESS_S = 0.03  # of prices: after them another process is forked for more, if that is possible

Price = Callable[[Plan], float]


class _Begun(NamedTuple):
    """A price that another process computes: that of a plan, or that it is more than `limit`."""

    name: str
    plan: Plan
    limit: float
    split: bool
    is_next: bool = False  # the price before it has been asked for

    def is_of(self, name: str, plan: Plan, below: float, *, split: bool) -> bool:
        """Whether it answers this."""
        return (self.name, self.plan, self.split) == (name, plan, split) and below <= self.limit


class PricesBeside:
    """Prices of plans. One that is asked for soon may be begun: another process then computes it beside this one."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self.prices = prices
        self._process: Forked | None = None
        self._begun: _Begun | None = None
        self._number, self._spent_s = 0, 0.0

    def seconds(self, name: str, plan: Plan, below: float, *, split: bool) -> float:
        """The price; infinity where it is more than `below`."""
        begun, is_begun = self._begun, self._begun is not None and self._begun.is_of(name, plan, below, split=split)
        # What is begun comes next, or after the next one; otherwise a better plan was found, and it is not asked for.
        self._begun = begun._replace(is_next=True) if begun is not None and not begun.is_next and not is_begun else None
        if is_begun and self._process is not None:
            found: float | None = self._process.answer(self._number)
            if found is not None:
                return found if found <= below else inf
        began = time.perf_counter()
        seconds = self.prices[name](plan, below=below, split=split)  # type: ignore[call-arg]
        self._spent_s += time.perf_counter() - began
        return seconds

    def begin(self, name: str, plan: Plan, below: float, *, split: bool) -> None:
        """Have it computed, where that pays and there is a process that is not at work, nor has the next price."""
        if self._process is None and self._spent_s > WORTH_A_PROCESS_S:
            self._process, self._spent_s = forked.started(self._price), 0.0
        if self._process is not None and self._begun is None and self._process.is_idle:
            self._number += 1
            if self._process.ask(self._number, name, plan, below, split):
                self._begun = _Begun(name, plan, below, split)

    def _price(self, name: str, plan: Plan, below: float, split: bool) -> float:  # noqa: FBT001 - handed over by place
        return self.prices[name](plan, below=below, split=split)  # type: ignore[call-arg]


class RememberedPrice:
    """One of these prices, computed once for all plans that take equally long because devices are interchangeable.

    With `blocks`, of plans of these.
    """

    def __init__(self, name: str, beside: PricesBeside, cluster: Cluster, blocks: Blocks | None) -> None:
        self._name, self._beside, self._cluster, self._blocks = name, beside, cluster, blocks
        self._known: dict[tuple[Form, bool], tuple[float, float]] = {}

    def __call__(self, plan: Plan, below: float = inf, *, split: bool = False) -> float:
        """Its seconds; infinity where they are more than `below`."""
        plan = self._expanded(plan)
        form = form_of(plan, self._cluster)
        seconds, is_known = self._remembered(form, below, split=split)
        if not is_known:
            seconds = self._beside.seconds(self._name, plan, below, split=split)
            if form is not None:
                self._known[form, split] = seconds, below
        return seconds if seconds <= below else inf

    def begin(self, plan: Plan, below: float = inf, *, split: bool = False) -> None:
        """Have it computed beside others; it is asked for soon."""
        plan = self._expanded(plan)
        if not self._remembered(form_of(plan, self._cluster), below, split=split)[1]:
            self._beside.begin(self._name, plan, below, split=split)

    def _expanded(self, plan: Plan) -> Plan:
        return plan if self._blocks is None else self._blocks.expanded(plan)

    def _remembered(self, form: Form | None, below: float, *, split: bool) -> tuple[float, bool]:
        """The seconds, and whether they are known: or only to be more than a limit that is no lower."""
        seconds, limit = self._known.get((form, split), (inf, 0.0)) if form is not None else (inf, 0.0)
        return seconds, seconds < inf or below <= limit
