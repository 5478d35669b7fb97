"""Interactive pages: one HTML file that holds everything and asks no network for anything.

page_file       a page of charts and tables as HTML, and as a file
chart_columns   a timeline as columns, packed for the browser, with rows for lanes, links and memory
detail_levels   what a row looks like from afar, computed here so that a page of a million tasks opens at once
edited_schedules what the page must know to check and time a schedule that is edited in it
page_tables     results as tables and facts
page_views      the pages of the commands: of a simulation, a comparison, a schedule, a recorded run, any tables
program/*.js    what runs in the browser, joined into one program when a page is written
page.css        its style
"""

from pipesim.display.pages.page_file import Page, PageTable, check_path, html, write
from pipesim.display.pages.page_tables import gains_table
from pipesim.display.pages.page_views import (
    comparison_page,
    gains_page,
    jobs_page,
    page_of,
    run_page,
    schedule_page,
    simulation_page,
    timeline_page,
    tuning_page,
)
from pipesim.display.text.gains_text import first_thing

__all__ = [
    "Page",
    "PageTable",
    "check_path",
    "comparison_page",
    "first_thing",
    "gains_page",
    "gains_table",
    "html",
    "jobs_page",
    "page_of",
    "run_page",
    "schedule_page",
    "simulation_page",
    "timeline_page",
    "tuning_page",
    "write",
]
