"""Drives Chromium through its debugging pipe: opens pages, types, clicks, and reports errors."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "/": 191}
_TOLD = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Audits.issueAdded")


class Browser:
    """One page of a browser of its own.

    Attributes:
        faults: what the console, exceptions, and the content security policy told.
        requests: every address that was asked for.
    """

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.faults: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self._number, self._buffer, self._session = 0, b"", ""
        theirs_in, self._out = (_high(end) for end in os.pipe())
        self._in, theirs_out = (_high(end) for end in os.pipe())
        arguments = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        silent = os.open(os.devnull, os.O_RDWR)
        moved = [(os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4),
                 (os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_DUP2, silent, 2)]  # fmt: skip
        self._process = os.posix_spawn(CHROMIUM, arguments, os.environ, file_actions=moved, setpgroup=0)
        for end in (theirs_in, theirs_out, silent):
            os.close(end)

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Audits", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command of its protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            got = self._read()
            if got.get("id") == self._number:
                assert "error" not in got, got["error"]
                result: dict[str, Any] = got["result"]
                return result

    def screen(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the window, and the scheme of colours that is preferred."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Goes to an address."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, expression: str, seconds: float = 30) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"!!({expression})"):
            assert time.monotonic() < end, f"never true: {expression}\n{self.value('document.body.innerText')}"
            time.sleep(0.05)

    def broken_rules(self) -> list[str]:
        """What axe, the rules that screen readers' makers and WCAG agree on, finds wrong on the page as it is now."""
        self.call("Runtime.evaluate", expression=axe().read_text(encoding="utf-8"))
        told = self.value(
            "axe.run(document).then((found) => ({passes: found.passes.length, broken: found.violations.flatMap("
            "(rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 150)}: ${node.failureSummary}`))}))"
        )
        assert told["passes"] > 5, "axe looked at next to nothing"
        broken: list[str] = told["broken"]
        return broken

    def click(self, selector: str) -> None:
        """Clicks in the middle of an element."""
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.value(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        self.point(*box)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, text: str) -> None:
        """Types at once what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Presses a key."""
        sent = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key] if key in _KEYS else ord(key.upper())}
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **sent, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **sent)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 60)
            got = os.read(self._in, 2**20) if ready else b""
            assert got, "the browser does not answer"
            self._buffer += got
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in _TOLD:
            self.faults.append(message)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message


def axe() -> Path:
    """The script of axe, from the package axe-core-python; tests that need it are skipped without."""
    found = find_spec("axe_core_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core-python is not installed")
    return Path(found.origin).with_name("axe.min.js")


def _high(end: int) -> int:
    """A copy of a descriptor well above those that the browser listens on."""
    copy = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(end)
    return copy
