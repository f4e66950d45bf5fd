"""A real Chromium, driven by the protocol of its developer tools: what it asks for, shows and is typed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

LONG_S = 60.0
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
]
# xterm.js keeps what it shows to itself; its object is seen as it is made
CATCH_TERMINAL = """
Object.defineProperty(Object.prototype, "_core", {
  configurable: true,
  set(core) {
    Object.defineProperty(this, "_core", {value: core, writable: true, configurable: true});
    if ("buffer" in this && "rows" in this) window.shownTerminal = this;
  },
});
"""
READ_TERMINAL = """
(() => {
  const terminal = window.shownTerminal;
  if (!terminal) return null;
  const lines = terminal.buffer.active;
  return [...Array(terminal.rows).keys()].map((row) => lines.getLine(row)?.translateToString(true) ?? "").join("\\n");
})()
"""


class Browser:
    """`asked`: every address that anything in it asked for. `said`: what pages wrote to the console, and why something
    was not allowed to them."""

    def __init__(self, folder: Path, *more: str) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._number = 0
        self._answers: dict[int, Any] = {}
        self.asked: list[str] = []
        self.said: list[str] = []
        self._log = (folder / "log").open("wb")
        options = [f"--user-data-dir={folder / 'profile'}", *QUIET, *more]
        home = {name: str(folder / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
        self.process = subprocess.Popen(
            ["chromium", *options, "about:blank"], stdout=self._log, stderr=self._log, env={**os.environ, **home}
        )
        self._session: aiohttp.ClientSession
        self._wire: aiohttp.ClientWebSocketResponse
        self._loop.run_until_complete(self._connect(self._address()))

    def _address(self) -> str:
        port = self._folder / "profile/DevToolsActivePort"
        end = time.monotonic() + LONG_S
        while not (port.exists() and "/" in port.read_text()):
            assert self.process.poll() is None and time.monotonic() < end, (self._folder / "log").read_text()
            time.sleep(0.05)
        number, path = port.read_text().split()
        return f"ws://127.0.0.1:{number}{path}"

    async def _connect(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        self._wire = await self._session.ws_connect(address, max_msg_size=0)
        await self._call("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True})

    def close(self) -> None:
        async def end() -> None:
            await self._wire.close()
            await self._session.close()
            await asyncio.sleep(0)

        self._loop.run_until_complete(end())
        self._loop.close()
        self.process.terminate()
        self.process.wait(LONG_S)
        self._log.close()

    def open(self, address: str) -> Page:
        found = self.call("Target.createTarget", {"url": "about:blank"})
        page = Page(self, self.call("Target.attachToTarget", {"targetId": found["targetId"], "flatten": True}))
        page.target = found["targetId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            page.call(f"{domain}.enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH_TERMINAL)
        page.go(address)
        return page

    def call(self, method: str, values: dict[str, Any] | None = None, session: str = "") -> dict[str, Any]:
        return self._loop.run_until_complete(self._call(method, values or {}, session))

    async def _call(self, method: str, values: dict[str, Any], session: str = "") -> dict[str, Any]:
        self._number += 1
        number, more = self._number, {"sessionId": session} if session else {}
        await self._wire.send_json({"id": number, "method": method, "params": values, **more})
        while number not in self._answers:
            await asyncio.wait_for(self._hear(), LONG_S)
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def _hear(self) -> None:
        message = json.loads((await self._wire.receive()).data)
        if "id" in message:
            self._answers[message["id"]] = message
            return
        values = message["params"]
        match message["method"]:
            case "Network.requestWillBeSent":
                self.asked.append(values["request"]["url"])
            case "Network.webSocketCreated":
                self.asked.append(values["url"])
            case "Log.entryAdded":
                self.said.append(values["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.said.append(json.dumps(values["exceptionDetails"]))
            case "Target.attachedToTarget" if values["waitingForDebugger"]:
                for method in ("Network.enable", "Runtime.runIfWaitingForDebugger"):
                    self._number += 1
                    told = {"id": self._number, "method": method, "params": {}, "sessionId": values["sessionId"]}
                    await self._wire.send_json(told)


class Page:
    """A tab."""

    target = ""

    def __init__(self, browser: Browser, attached: dict[str, Any]) -> None:
        self._browser = browser
        self._session = attached["sessionId"]

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        return self._browser.call(method, values, self._session)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def tell(self, script: str) -> Any:
        """What it comes to there; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: Callable[[], Any]) -> Any:
        end = time.monotonic() + LONG_S
        while not (found := condition()):
            assert time.monotonic() < end, (self.screen(), self._browser.said)
            time.sleep(0.05)
        return found

    def screen(self) -> str:
        return self.tell(READ_TERMINAL) or ""

    def shows(self, text: str) -> str:
        """The screen, once that stands there."""
        found: str = self.until(lambda: text in (screen := self.screen()) and screen)
        return found

    def press(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def key(self, name: str, code: int, text: str = "") -> None:
        values: dict[str, Any] = {"key": name, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **values)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def picture(self) -> str:
        """PNG, in base64."""
        data: str = self.call("Page.captureScreenshot", format="png")["data"]
        return data

    def close(self) -> None:
        self._browser.call("Target.closeTarget", {"targetId": self.target})
