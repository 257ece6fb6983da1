"""Headless Chromium, driven through its debugging pipe (Chrome DevTools Protocol), with nothing but Python."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
]
TIMEOUT_S = 60  # for one answer
OURS, THEIRS = 3, 4  # file descriptors that Chromium reads from and writes to


class Chromium:
    """A browser with one page; a context manager that ends it.

    Args:
        flags: Further flags, such as `--use-fake-device-for-media-stream`.
    """

    def __init__(self, *flags: str) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # Through a shell, which moves the pipes to the descriptors: `preexec_fn` is not safe beside threads.
        moved = f'exec "$0" "$@" {OURS}<&{commands} {THEIRS}>&{answers}'
        arguments = [PROGRAM, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", *flags]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(["bash", "-c", moved, *arguments], pass_fds=(commands, answers), **quiet)
        os.close(commands)
        os.close(answers)
        self.buffer, self.number, self.session = b"", 0, None
        self.errors: list[str] = []  # of scripts and of the console
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call of the protocol and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self.commands, content) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.note(answer)

    def receive(self) -> dict[str, Any]:
        """The next message from the browser."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], TIMEOUT_S)
            content = os.read(self.answers, 1 << 20) if ready else b""
            assert content, "Chromium does not answer"
            self.buffer += content
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event: dict[str, Any]) -> None:
        """Keep errors of scripts, and of files that the page asks for."""
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["params"]["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.errors.append(json.dumps(event["params"]["entry"]))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, json.dumps(answer["exceptionDetails"])[:2000]
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> Any:
        """Wait until an expression is true; returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"{expression} is still {value!r}; errors: {self.errors}"
            time.sleep(0.05)
        return value

    def open(self, address: str) -> None:
        """Open a page and wait until its models are loaded."""
        self.errors.clear()
        self.call("Page.navigate", url=address)
        self.wait("document.body?.dataset.ready === 'yes'")

    def upload(self, selector: str, file: str | Path) -> None:
        """Choose a file in a file input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def move(self, x: float, y: float, kind: str = "mouseMoved", **options: Any) -> None:
        """Move the mouse to a place of the window, or press or release it there."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **options)

    def press(self, key: str) -> None:
        """Press and release a key, such as ArrowLeft."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the window in pixels, and the color scheme that the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file: str | Path) -> None:
        """Write the whole page as PNG."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        Path(file).write_bytes(base64.b64decode(picture))
