"""A headless Chromium to look at a page with: its DevTools protocol over two pipes. The standard library alone.

What the page does is noted as it happens: lines of the console, exceptions, what is asked of whom. Whoever uses a Page asserts at its end
that it had nothing to complain of (Page.quiet)."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

from harness import LIMIT, Skip

# Descriptors 3 and 4 are where Chromium looks; ours may lie anywhere.
BEGIN = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"
OPTIONS = ("--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking "
           "--disable-component-update --disable-sync --disable-extensions --disable-default-apps --mute-audio --hide-scrollbars "
           "--force-color-profile=srgb --remote-debugging-pipe").split()
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Browser:
    def __init__(self):
        wanted = os.environ.get("PENSTOCK_CHROMIUM")
        program = next(filter(None, map(shutil.which, [wanted] if wanted else BROWSERS)), None)
        if wanted and not program:
            sys.exit(f"PENSTOCK_CHROMIUM={wanted} is no program")
        if not program:
            raise Skip("no chromium here: install Debian's, or name one by PENSTOCK_CHROMIUM")
        self.home = tempfile.mkdtemp(prefix="penstock-test-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs_in, theirs_out)]
        self.out, self.inside, self.rest = ours_out, ours_in, b""
        self.log = open(os.path.join(self.home, "log"), "wb")
        self.process = subprocess.Popen([sys.executable, "-c", BEGIN.format(*high), program, *OPTIONS, f"--user-data-dir={self.home}/profile"],
                                        pass_fds=high, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, "HOME": self.home})
        for fd in (*high, theirs_in, theirs_out):
            os.close(fd)
        self.number, self.pages = 0, {}

    def receive(self):
        """One message: an answer, or an event, which goes to its page."""
        end = time.monotonic() + LIMIT
        while b"\0" not in self.rest:
            if not select.select([self.inside], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no answer from the browser in {LIMIT:.0f} s")
            data = os.read(self.inside, 1 << 20)
            if not data:
                with open(os.path.join(self.home, "log"), errors="replace") as log:
                    raise AssertionError(f"the browser ended: {log.read()[-3000:]}")
            self.rest += data
        line, self.rest = self.rest.split(b"\0", 1)
        said = json.loads(line)
        if "method" in said and said.get("sessionId") in self.pages:
            self.pages[said["sessionId"]].note(said["method"], said["params"])
        return said

    def ask(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            said = self.receive()
            if said.get("id") == self.number:
                assert "error" not in said, f"{method}: {said['error']}"
                return said["result"]

    def open(self, url, width=1280, height=900, dark=False, phone=False, before=""):
        return Page(self, url, width, height, dark, phone, before)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inside)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)


class Page:
    """A tab. `before` is a script that runs before the page's own."""

    def __init__(self, browser, url, width, height, dark, phone, before):
        self.browser, self.url, self.width = browser, url, width
        self.complaints, self.asked = [], []
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                         {"name": "prefers-reduced-motion", "value": "reduce"}])
        if before:
            self.ask("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.ask("Page.navigate", url=url)

    def ask(self, method, **parameters):
        return self.browser.ask(method, self.session, **parameters)

    def note(self, method, said):
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console: {[a.get('value', a.get('description')) for a in said['args']]}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {said['exceptionDetails']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"log: {said['entry']['level']} {said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.asked.append(said["request"]["url"])

    def value(self, script):
        """What a script comes to."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def text(self, selector="body"):
        """What one reads there."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def until(self, script, what):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.value(script):
                return
            time.sleep(0.05)
        raise AssertionError(f"waited {LIMIT:.0f} s for {what}; the page says:\n{self.text()}\n{self.complaints}")

    def reads(self, words, selector="body"):
        self.until(f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(words)})", f"“{words}” in {selector}")

    def picture(self, path):
        """The whole page, as long as it is."""
        height = self.value("document.documentElement.scrollHeight")
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def quiet(self, but=()):
        """Nothing was complained of, and nobody but the page's own host was asked."""
        # The first of a kind: what Chromium says of failed requests comes once for each.
        odd = [c for c in self.complaints if not any(part in c for part in but)]
        assert not odd, odd
        host = urlsplit(self.url).netloc
        foreign = [url for url in self.asked if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != host]
        assert not foreign, foreign

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.ask("Target.closeTarget", targetId=self.target)
        self.browser.pages.pop(self.session)
