"""A real browser, headless, for tests of what people look at: one for all tests of a file."""

import importlib.util
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Debian's name, and those of the machines that GitHub lends."""

# What a renderer needs when it runs as root, as in a container.
ROOT = ("--no-sandbox",)


def absent(reason):
    """Skip on somebody's machine, fail in CI: a silent skip there would prove nothing for years."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"no browser, and CI is set: {reason}")
    pytest.skip(f"no browser: {reason}")


@pytest.fixture(scope="module")
def browser():
    """A browser that runs until the last test of a file.

    No longer: as long as Playwright runs, no other test of the process can start an event loop.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        absent(f"none of {', '.join(PROGRAMS)} is installed; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ROOT if os.geteuid() == 0 else ())
        yield started
        started.close()


@dataclass
class Seen:
    """A page, and all that it said and asked for."""

    page: object
    said: list = field(default_factory=list)
    asked: list = field(default_factory=list)


@pytest.fixture
def look(browser):
    """Open addresses in windows of their own, with a width, a scheme, and scripts or none."""

    @contextmanager
    def opened(address, *, width=1280, height=900, dark=False, script=True, **more):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            **more,
        )
        try:
            seen = Seen(context.new_page())
            seen.page.on("console", lambda message: seen.said.append(f"{message.type}: {message.text}"))
            seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
            seen.page.on("request", lambda request: seen.asked.append(request.url))
            seen.page.goto(address)
            yield seen
        finally:
            context.close()

    return opened


@pytest.fixture(scope="session")
def samples():
    """What makes records with something of everything; those of the tests of pages."""
    file = Path(__file__).parents[1] / "report" / "sample_records.py"
    spec = importlib.util.spec_from_file_location("sample_records", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
