"""The monitor in a real Chromium: what it shows, that keys come through, and that nothing it asks for leaves this
machine. One browser for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.web.browser import Browser, Page
from tests.web.conftest import Web

Start = Callable[..., Web]
REFUSED = "This address opens nothing"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser, web: Start) -> Iterator[Page]:
    made = browser.open(web().address)
    yield made
    made.close()


def text(page: Page) -> str:
    found: str = page.tell("document.body ? document.body.innerText : ''")
    return found


def test_the_monitor_is_shown_and_hears_keys_and_asks_for_nothing_elsewhere(browser: Browser, page: Page) -> None:
    page.shows("gpu01")
    assert "train" in page.shows("alice")
    assert page.tell("document.title") == "mgpu top"
    assert "token" not in page.tell("location.href") and page.tell("document.cookie") == ""
    page.press("?")  # nobody clicked: keys go there by themselves
    page.shows("cancel the job (asks first)")
    page.key("Escape", 27)
    page.until(lambda: "cancel the job (asks first)" not in page.screen())
    page.press("q")
    page.until(lambda: "This monitor has ended" in text(page))
    page.tell("document.querySelector('.closed button').click()")
    page.shows("gpu01")
    asked = [urlsplit(one) for one in browser.asked]
    assert {"http", "ws"} <= {one.scheme for one in asked}
    assert any(one.path.endswith("/static/js/textual.js") for one in asked)
    assert any("/static/fonts/" in one.path for one in asked)
    assert {one.hostname for one in asked if one.scheme != "data"} == {"127.0.0.1"}
    assert not [one for one in browser.said if "Content Security Policy" in one or "exception" in one.lower()]


def test_what_is_copied_comes_to_the_browsers_own_clipboard(browser: Browser, web: Start) -> None:
    served = web()
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]  # the first for us, to look at it
    browser.call("Browser.grantPermissions", {"permissions": allowed, "origin": served.origin})
    page = browser.open(served.address)
    page.shows("train")
    page.press("y")
    page.shows("copied")
    page.until(lambda: page.tell("navigator.clipboard.readText()") in ("17", "gpu01"))
    page.close()


def test_a_page_could_not_ask_elsewhere_if_it_would(page: Page) -> None:
    page.shows("gpu01")
    tries = {
        "connect-src": "fetch('http://127.0.0.2:1/').catch(() => 0)",
        "img-src": "new Image().src = 'http://127.0.0.2:1/x.png'",
        "script-src-elem": "document.head.append(Object.assign(document.createElement('script'), {text: '1'}))",
        "style-src-elem": "document.head.append(Object.assign(document.createElement('link'), "
        "{rel: 'stylesheet', href: 'http://127.0.0.2:1/x.css'}))",
    }
    for rule, attempt in tries.items():
        heard = "(one) => done(one.effectiveDirective), {once: true}"
        script = f"document.addEventListener('securitypolicyviolation', {heard}); {attempt}"
        assert page.tell(f"new Promise((done) => {{ {script}; }})") == rule


def test_the_address_works_once(browser: Browser, web: Start) -> None:
    served = web()
    first, second = browser.open(served.address), browser.open(served.address)
    first.shows("gpu01")
    second.until(lambda: REFUSED in text(second))
    assert second.screen() == ""
    first.go(f"{served.origin}/static/js/textual.js")  # the cookie is there, but for the monitor's place alone
    first.until(lambda: REFUSED in text(first))
    for one in (first, second):
        one.close()


def test_another_page_gets_nothing_though_the_browser_has_the_cookie(browser: Browser, web: Start) -> None:
    """One of another user of this machine: the same name, another port."""
    served, other = web(), web()
    page, stranger = browser.open(served.address), browser.open(other.address)
    page.shows("gpu01")
    stranger.shows("gpu01")
    place = page.tell("location.pathname")
    heard = "new Promise((done) => { const one = new WebSocket('ws://%s%sws'); one.onopen = () => done('open'); "
    script = heard % (served.netloc, place) + "one.onerror = () => done('refused'); })"
    stranger.go(f"{other.origin}/")  # a page that has no rules about whom it may ask would do
    stranger.call("Page.setBypassCSP", enabled=True)
    stranger.go(f"{other.origin}/x")
    stranger.until(lambda: REFUSED in text(stranger))
    assert stranger.tell(script) == "refused"
    assert (
        stranger.tell(f"fetch('{served.origin}{place}', {{credentials: 'include'}}).catch(() => 'refused')")
        == "refused"
    )
    assert page.tell(script) == "open"  # it would be open to the page itself
    for one in (page, stranger):
        one.close()
