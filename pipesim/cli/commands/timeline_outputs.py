"""Pictures and files of a timeline: options that several commands share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipesim.base.settings import setting
from pipesim.cli import options

if TYPE_CHECKING:
    from pipesim.core.timeline import Simulated, Timeline
    from pipesim.display.figures import TaskGroups
    from pipesim.display.pages import Page


@dataclass(frozen=True, slots=True)
class TimelineOutputs:
    """What is drawn and written of a timeline."""

    gantt: str | None = setting(None, str, "Draw a Gantt chart to this .png, .svg or .pdf.", is_file=True)
    links: bool = setting(False, bool, "With links below the devices in the Gantt chart.")
    critical: bool = setting(False, bool, "Outline the critical path in the Gantt chart.")
    memory_plot: str | None = setting(None, str, "Draw memory over time.", is_file=True)
    links_plot: str | None = setting(None, str, "Draw the load of links over time.", is_file=True)
    html: str | None = setting(None, str, "Write an interactive page, one .html file for any browser.", is_file=True)
    output: str | None = setting(
        None, str, "Export the timeline: .json (Perfetto), .csv or .parquet.", short="o", is_file=True
    )

    def check(self) -> None:
        """Refuse options without effect and file names that nothing can be written to, before anything is simulated."""
        options.check_given("without --gantt", is_there=bool(self.gantt), without=("links", "critical"))
        options.check_outputs(
            pictures=[self.gantt, self.memory_plot, self.links_plot], exports=self.output, pages=[self.html]
        )

    def write(
        self,
        simulated: "Timeline | Simulated",
        groups: "TaskGroups | None" = None,
        page: "Callable[[], Page] | None" = None,
        *,
        quiet: bool,
    ) -> None:
        """Draw and write what was asked for; tasks in the colours of their groups, where there are any.

        The page is that which `page` makes, or of the timeline alone.
        """
        if not (self.gantt or self.memory_plot or self.links_plot or self.output or self.html):
            return
        from pipesim.analysis.critical_path import critical_path
        from pipesim.core.timeline import timeline_of
        from pipesim.display import figures, pages, timeline_files

        timeline = timeline_of(simulated)

        def gantt(path: str) -> None:
            critical = critical_path(timeline).tasks if self.critical else None
            figures.gantt(timeline, path, links=self.links, critical=critical, groups=groups)

        def load(path: str) -> None:
            figures.link_load(timeline, path, groups=groups)

        options.write_file(self.gantt, "Gantt chart", gantt, quiet=quiet)
        options.write_file(
            self.memory_plot, "memory over time", lambda path: figures.memory(timeline, path), quiet=quiet
        )
        options.write_file(self.links_plot, "load of links", load, quiet=quiet)
        options.write_file(self.output, "timeline", lambda path: timeline_files.export(timeline, path), quiet=quiet)
        options.write_page(self.html, page or (lambda: pages.timeline_page(timeline)), quiet=quiet)
