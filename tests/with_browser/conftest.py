"""Tests of pages in a real browser, run by `make test-browser`, which names the package where there is none."""

import os

import pytest

collect_ignore_glob = [] if "PIPESIM_BROWSER" in os.environ else ["test_*.py"]


@pytest.fixture
def browser():
    """A browser of its own, with one page; scripts that fail in it fail the test."""
    from helpers.browser import BrowserPage

    page = BrowserPage()
    try:
        yield page
        assert page.complaints() == []
    finally:
        page.close()
