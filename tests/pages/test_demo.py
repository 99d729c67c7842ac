"""`privquant demo` with a guest: the console opens on the running campaign, and one click joins it."""

from __future__ import annotations

from browser import Browser, Page

from privquant.cli.demo import can_open_a_browser
from privquant.demo.local import Addresses, run


def test_a_guest_joins_the_demo_and_is_counted_beside_its_devices(browser: Browser):
    pages: list[Page] = []

    def on_ready(addresses: Addresses) -> None:
        pages.append(browser.visit(addresses.console))
        pages.append(browser.visit(addresses.join))

    def before_close() -> None:
        console, join = pages
        console.sees("How much do you spend in a month?", 40)
        console.sees("Live.", 40)  # also after the kill -9 on the way
        join.type("#value", "900")
        join.key("Enter")
        join.sees("Answered. Thank you.", 40)

    outcome = run(60, show=lambda moment: None, on_ready=on_ready, before_close=before_close)
    assert (outcome.devices, outcome.acknowledged, outcome.guests, outcome.counted) == (60, 60, 1, 61)
    assert outcome.exact
    assert outcome.verified


def test_no_browser_is_opened_where_nobody_sits_before_a_terminal():
    assert not can_open_a_browser()
