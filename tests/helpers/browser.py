"""A headless Chromium, driven over the pipe of its DevTools protocol: one page, with keys and mouse as users have."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = (
    "no Chromium was found; it comes with Debian's package chromium-headless-shell "
    "(apt-get install chromium-headless-shell); PIPESIM_CHROMIUM names another program"
)
_WAIT = 60  # seconds
_CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}


def program():
    """The path of Chromium; None if there is none."""
    chosen = os.environ.get("PIPESIM_CHROMIUM")
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, NAMES)), None)


class BrowserPage:
    """A page in a browser of its own."""

    def __init__(self, width=1280, height=900):
        self._folder = tempfile.mkdtemp(prefix="pipesim-browser-")
        reads, self._to = os.pipe()
        self._from, writes = os.pipe()
        plain = ["headless", "no-sandbox", "disable-gpu", "remote-debugging-pipe", "hide-scrollbars"]
        flags = [f"--{flag}" for flag in (*plain, "disable-dev-shm-usage", f"user-data-dir={self._folder}")]

        def pipes():  # Chromium reads commands from 3 and writes answers to 4
            high = [os.dup2(reads, 50), os.dup2(writes, 51)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [program(), *flags, "about:blank"], preexec_fn=pipes, close_fds=False,  # noqa: PLW1509
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self._buffer, self._number, self.events = b"", 0, []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def call(self, method, **parameters):
        """A command to the page."""
        return self._call(method, self._session, **parameters)

    def _call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self.events.append(answer)

    def _read(self):
        until = time.monotonic() + _WAIT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise AssertionError("the browser did not answer")
            self._buffer += os.read(self._from, 2**20)
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def size(self, width, height, ratio=1):
        """The size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False
        )

    def dark(self, on=True):  # noqa: FBT002 - a switch
        """What the system prefers."""
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, path):
        """Open a file and wait until all of it is read."""
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def run(self, script):
        """The value of a script; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def wait(self, condition):
        """Until a script gives true."""
        until = time.monotonic() + _WAIT
        while not self.run(condition):
            if time.monotonic() > until:
                raise AssertionError(f"never came true: {condition}")
            time.sleep(0.02)

    def key(self, key, *, shift=False):
        """Press a key where the focus is."""
        text = key if len(key) == 1 else ("\r" if key == "Enter" else "")
        common = {
            "key": key,
            "modifiers": 8 if shift else 0,
            "windowsVirtualKeyCode": _CODES.get(key, ord(key[0].upper())),
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.frame()

    def type(self, text):
        """Write where the focus is."""
        self.call("Input.insertText", text=text)
        self.frame()

    def mouse(self, kind, x, y, *, modifiers=0, **more):
        """One event of the mouse, in pixels of the window."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, **more)

    def click(self, x, y):
        """A click."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.frame()

    def drag(self, begin, end):
        """From one place to another with the button down."""
        self.mouse("mousePressed", *begin, button="left", clickCount=1)
        middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
        for place in (middle, end):
            self.mouse("mouseMoved", *place, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)
        self.frame()

    def frame(self):
        """Wait until what was asked for is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, path=None, *, full=False):
        """A screenshot as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        data = base64.b64decode(found["data"])
        if path:
            Path(path).write_bytes(data)
        return data

    def requests(self):
        """The addresses that were asked for."""
        self.run("1")
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """Errors of scripts, and those that the browser logs."""
        self.run("1")
        thrown = [e["params"]["exceptionDetails"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        entries = [e["params"]["entry"] for e in self.events if e.get("method") == "Log.entryAdded"]
        logged = [entry["text"] for entry in entries if entry["level"] == "error"]
        return [d.get("exception", {}).get("description", d["text"]) for d in thrown] + logged

    def close(self):
        """End the browser."""
        with contextlib.suppress(AssertionError, OSError):
            self._call("Browser.close")
        for end in (self._to, self._from):
            os.close(end)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(None if program() else f"test-browser: {MISSING}")
