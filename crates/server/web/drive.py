"""Drives the explorer in a real Chromium, like a user, and asserts what it shows.

    python3 -m venv venv && venv/bin/pip install playwright      # no `playwright install`: the system's Chromium is used
    conifer serve SET --checkpoint RUN --data toy --split test --data-option size=200
    venv/bin/python crates/server/web/drive.py http://127.0.0.1:7878 [--shots FOLDER] [--photo FILE] [--pid PID] [--web crates/server/web]

The script does not start a server. Only the parts layers, lasso, depths, words, pictures, mapphone, plain, frames, page and cones work with any
set; `drive_set.py` writes one for them. The part newlayer writes a layer into the folder `maps` of the set, cones needs a layer of all rows, and beside a
server with --beside and a set of the same rows; these three run only if they are named with --only. For the other parts the set must have photos, texts, boxes and a column `label`. The server must have the
model that made the set. With --pid the script stops the server at the end, to check the error on the page. With --web the
files of the page come from that folder instead of the program, so that a change needs no build.
Exits with 1 and the name of the first failed check.
"""

import argparse
import os
import signal
import struct
import sys
import time
import zlib

from playwright.sync_api import sync_playwright

import drive_edges as edges
import drive_items as items
import drive_layers as layers
import drive_map as maps

TIMEOUT = 15_000
# Without network access, so that the browser does not look for updates.
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
# WebGL on the processor, for machines without a graphics card. Drawing is slow, but script times are those of any machine.
SOFTWARE_GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


class Driver:
    """A page in the browser, with helpers for the checks."""

    def __init__(self, page, url, shots, web=None):
        self.page, self.url, self.shots, self.web = page, url.rstrip("/"), shots, web
        self.problems, self.done = [], []
        # The browser logs a rejected request as a console error. True while a check provokes such errors.
        self.expected = False
        page.set_default_timeout(TIMEOUT)
        if web:
            kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
            name = lambda it: it.request.url.rsplit("/", 1)[1]
            page.route("**/assets/*", lambda it: it.fulfill(path=os.path.join(web, name(it)), content_type=kinds[name(it).rsplit(".", 1)[1]]))
        page.on("console", lambda m: m.type in ("error", "warning") and self.problem(f"console: {m.text}"))
        page.on("pageerror", lambda e: self.problem(f"script: {e}"))

    def problem(self, text):
        if not self.expected:
            self.problems.append(text)

    def go(self, address="", ready=".pane:not([hidden]) .card"):
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{address}")
        if ready:
            self.page.wait_for_selector(ready)

    def settle(self):
        """Waits until no request is in progress and the pictures are loaded."""
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_function("() => [...document.images].every((it) => it.complete || it.loading === 'lazy')")
        self.page.wait_for_timeout(150)

    def shot(self, name, full=False):
        if self.shots:
            self.settle()
            self.page.screenshot(path=os.path.join(self.shots, f"{name}.png"), full_page=full)

    def check(self, what, holds):
        if not holds:
            if self.shots:
                self.page.screenshot(path=os.path.join(self.shots, "failed.png"))
            sys.exit(f"failed: {what}")
        self.done.append(what)
        print(f"ok  {what}", flush=True)

    # --- what the page shows

    def captions(self):
        return self.page.eval_on_selector_all(".pane.results .card .face", "it => it.map((f) => f.getAttribute('aria-label'))")

    def rows(self, pane="results"):
        """Rows of the cards, including all rows of a box; without the texts below the pictures."""
        return self.page.eval_on_selector_all(f".pane.{pane} .grid:not(.texts) .card", "it => it.flatMap((f) => f.dataset.rows.split(',').map(Number))")

    def wait_rows(self, number):
        self.page.wait_for_function("number => [...document.querySelectorAll('.pane.results .grid:not(.texts) .card')]"
                                    ".flatMap((it) => it.dataset.rows.split(',')).length === number", arg=number)

    @staticmethod
    def firsts(hits):
        """The rows that have a separate card: of the rows of one box only the first."""
        seen, firsts = set(), []
        for hit in hits:
            key = (hit["columns"].get("sample"), tuple(hit["box"])) if hit["modality"] == "box_image" and hit.get("box") else hit["row"]
            if key not in seen:
                firsts.append(hit["row"])
            seen.add(key)
        return firsts

    @staticmethod
    def main(request, path="/api/search"):
        """True for the request of the results, but not for the requests of the texts below them and of the limit."""
        return path in request.url and (path != "/api/search" or request.post_data_json.get("k") == 60)

    def facts(self):
        return self.page.eval_on_selector_all(".pane.results .card .facts", "it => it.map((f) => f.textContent)")

    def answer(self, act, path="/api/search", shown=True):
        """Calls `act`, waits until the page shows the response to the resulting request, and returns the response."""
        with self.page.expect_response(lambda it: self.main(it.request, path)) as got:
            act()
        answer = got.value.json()
        if shown and path == "/api/search" and answer.get("hits"):
            self.page.wait_for_function(
                "rows => rows.every((row, i) => Number(document.querySelectorAll('.pane.results .grid:not(.texts) .face')[i]?.dataset.row) === row)",
                arg=self.firsts(answer["hits"])[:3])
        elif shown and path == "/api/search":
            self.page.wait_for_timeout(500)  # the page sends a second request, for an angle that has results
        return answer

    def state(self):
        return self.page.evaluate("location.hash")

    def search(self, text):
        self.page.fill("#text", text)
        return self.answer(lambda: self.page.press("#text", "Enter"))


def picture(path):
    """Writes a small PNG of two colours, for uploads without --photo."""
    side = 96
    line = lambda y: b"\0" + b"".join(bytes((200, 40, 40) if (x - 48) ** 2 + (y - 48) ** 2 < 900 else (90, 160, 230)) for x in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(line(y) for y in range(side)))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


def text_search(d):
    d.go()
    d.check("the page opens with some rows", len(d.rows()) > 5)
    d.shot("01_start")
    answer = d.search("a red car")
    d.check("a search by text works", answer["hits"] and "text=a+red+car" not in d.state() and "q=t%3Aa+red+car" in d.state())
    scores = [hit["score"] for hit in answer["hits"]]
    d.check("nearest rows come first", scores == sorted(scores))
    d.check("the status says how many rows pass", "rows" in d.page.inner_text("#status") and "ms" in d.page.inner_text("#status"))
    d.shot("02_text")
    answer = d.answer(lambda: d.page.click("#more"), shown=False)
    d.wait_rows(120)
    d.check("\"Show more\" adds rows", len(set(d.rows())) == 120)


def composition(d):
    d.go("#q=t:a+dog")
    d.page.fill("#text", "a car")
    answer = d.answer(lambda: d.page.click("#and"))
    d.check("two texts are combined", d.page.locator(".chip").count() == 2 and answer["hits"])
    before = answer["rows_passing"]
    d.page.fill("#text", "a car")
    answer = d.answer(lambda: d.page.click("#not"))
    d.check("a cone is excluded", d.page.locator(".chip.out").count() == 1 and answer["rows_passing"] <= before)
    d.shot("03_composed")
    d.answer(lambda: d.page.click(".chip.out button"))
    d.check("the cross of a chip removes it", d.page.locator(".chip.out").count() == 0)


def photo_search(d, photo):
    d.go()
    with d.page.expect_response(lambda it: "/api/photos" in it.url) as sent:
        answer = d.answer(lambda: d.page.set_input_files("#file", photo))
    d.check("a photo is uploaded and used as the query", sent.value.ok and answer["hits"])
    d.check("the chip shows the photo", d.page.locator(".chip canvas").count() == 1)
    d.shot("04_photo")
    d.page.fill("#text", "a car")
    answer = d.answer(lambda: d.page.click("#and"))
    d.check("a photo and a text are combined", len(answer["hits"]) > 0)
    # The same file through a drop event.
    d.go()
    with open(photo, "rb") as file:
        data = list(file.read())
    answer = d.answer(lambda: d.page.evaluate("""data => {
        const moved = new DataTransfer();
        moved.items.add(new File([new Uint8Array(data)], "dropped.png", { type: "image/png" }));
        window.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
    }""", data))
    d.check("a dropped photo is used as the query", answer["hits"])
    answer = d.answer(lambda: d.page.evaluate("""data => {
        const held = new DataTransfer();
        held.items.add(new File([new Uint8Array(data)], "pasted.png", { type: "image/png" }));
        window.dispatchEvent(new ClipboardEvent("paste", { clipboardData: held, bubbles: true, cancelable: true }));
    }""", data))
    d.check("a pasted photo is used as the query", answer["hits"])
    d.expected = True
    d.go("#q=p:forgotten-photo", ready=".trouble")
    d.check("an expired photo shows advice", "add the photo again" in d.page.inner_text(".trouble"))
    d.shot("05_photo_gone")
    d.expected = False


def click_through(d):
    d.go("#q=t:a+red+car")
    third = d.page.locator(".pane.results .card .face:visible").nth(2)
    row = int(third.get_attribute("data-row"))
    third.click()
    d.page.wait_for_selector("#details dl")
    panel = d.page.inner_text("#details")
    d.check("a click opens the details", f"select={row}" in d.state() and "half aperture" in panel and "Broader" in panel)
    d.settle()
    d.check("its neighbours are shown", d.page.locator("#details .strip .card").count() > 6)
    d.shot("06_details")
    answer = d.answer(lambda: d.page.click("#details button.solid"))
    d.check("a search starts from a row", answer["hits"][0]["row"] == row and f"q=r%3A{row}" in d.state())
    d.check("the chip has the name of the row", "“" in d.page.inner_text(".chip"))
    card = d.page.locator(".pane.results .card:visible").nth(3)
    card.hover()
    target = card.get_attribute("data-row")
    answer = d.answer(lambda: card.get_by_text("search", exact=True).click())
    d.check("a search starts from a card", answer["hits"] and f"q=r%3A{target}" in d.state())


def switches(d):
    d.go("#q=t:a+dog")
    for mode, name in [("narrower", "narrower"), ("broader", "broader")]:
        answer = d.answer(lambda: d.page.locator(f"input[value={mode}] + span").click())
        scores = [hit["score"] for hit in answer["hits"]]
        key = "angle_down" if mode == "narrower" else "angle_up"
        d.check(f"{name}: by angle", scores == sorted(scores) and all(abs(hit["score"] - hit[key]) < 1e-3 for hit in answer["hits"]))
        d.shot(f"07_{mode}")
    with d.page.expect_request(d.main) as asked:
        answer = d.answer(lambda: d.page.locator("#gate").check())
    d.check("the gate requests a gated ranking", asked.value.post_data_json["by"] == "gated_broader")
    answer = d.answer(lambda: d.page.locator("input[value=general] + span").click())
    depths = [hit["depth"] for hit in answer["hits"]]
    d.check("general to specific: by depth", depths == sorted(depths))
    d.shot("08_general")
    d.answer(lambda: d.page.locator("input[value=image]").locator("..").click())
    answer = d.answer(lambda: d.page.locator("input[value=text]").locator("..").click())
    d.check("the kind filter works", {hit["modality"] for hit in answer["hits"]} <= {"image", "text"})
    d.check("both kinds are in the URL", "modality=image%2Ctext" in d.state())
    d.answer(lambda: d.page.locator("input[value=near] + span").click())
    labels = d.page.locator("details:has(.facet)", has_text="label")
    if labels.count():
        labels.locator("summary").click()
        box = labels.locator("label").first
        value = box.locator("span").get_attribute("title")
        answer = d.answer(lambda: box.locator("input").check())
        d.check(f"the column filter works: label {value}", {hit["columns"]["label"] for hit in answer["hits"]} == {value})
    d.answer(lambda: d.page.click("#clear"))
    d.check("one button clears all filters", "col=" not in d.state() and "modality" not in d.state())


def sliders(d):
    d.go("#q=t:a+dog&mode=general&angle=2.2")
    slider = d.page.locator("#angle")
    wide = d.answer(lambda: slider.evaluate("it => { it.value = 130; it.dispatchEvent(new Event('input')); }"))
    asked = []
    note = lambda it: d.main(it) and asked.append(it.post_data_json["angle"])
    d.page.on("request", note)
    # A drag sends many events, of which the last one counts.
    slider.evaluate("""async it => {
        for (let v = 128; v >= 80; v -= 2) {
            it.value = v;
            it.dispatchEvent(new Event("input"));
            await new Promise((done) => setTimeout(done, 8));
        }
    }""")
    d.page.wait_for_function("() => new URLSearchParams(location.hash.slice(1)).get('angle') === '1.3963'")
    d.settle()
    d.page.remove_listener("request", note)
    d.check("a drag of the angle requests its end, and not every step", abs(asked[-1] - 1.3963) < 1e-3 and len(asked) < 12)
    d.check("a smaller angle has fewer rows", len(d.rows()) <= len(wide["hits"]))
    d.shot("09_angle")
    answer = d.answer(lambda: slider.evaluate("it => { it.value = 0; it.dispatchEvent(new Event('input')); }"))
    if not answer["hits"] and not d.page.locator(".grid.texts").count():
        d.page.wait_for_selector(".notice button.solid")
        d.check("empty results offer a wider angle", "Widen the angle" in d.page.inner_text(".notice"))
        d.shot("10_empty")
        answer = d.answer(lambda: d.page.locator(".notice button.solid").first.click())
        d.check("the wider angle has results", len(answer["hits"]) > 0)
    d.go("#q=r:0")
    most = d.page.locator(".track input").nth(1)
    answer = d.answer(lambda: most.evaluate("it => { it.value = (Number(it.min) + Number(it.max)) / 2; it.dispatchEvent(new Event('input', { bubbles: true })); }"))
    limit = float(most.evaluate("it => it.value"))
    d.check("the depth slider filters rows", answer["hits"] and max(hit["depth"] for hit in answer["hits"]) <= limit + 1e-4)
    d.page.locator("details.section:has(.facet) + .active #clear, #clear").first.click()


def traversal(d):
    d.go("#q=t:a+red+car")
    d.page.evaluate("document.activeElement.blur()")
    # If no cone contains the path, the page sends a second request, for the nearest rows.
    last = lambda it: "/api/traverse" in it.url and ("cone" in it.request.post_data_json or any("hit" in stop for stop in it.json()["stops"]))
    with d.page.expect_response(last) as got:
        d.page.keyboard.press("t")
    d.page.wait_for_selector(".walk .stop")
    stops = got.value.json()["stops"]
    d.check("t shows the path to the root", stops[-1].get("root") is True and "view=path" in d.state())
    shown = d.page.locator(".walk .stop .at").all_inner_texts()
    d.check("stops are in order along the ruler", shown == [f"{it['at']:.2f}" for it in stops] and d.page.locator(".rule circle").count() == len(stops))
    d.shot("11_path")
    d.go("#q=t:a+red+car&modality=image")
    first, last = d.rows()[0], d.rows()[9]
    d.go(f"#view=path&from=r:{first}&to=r:{last}&steps=100", ready=".walk .stop")
    d.check("a path between two photos is shown", d.page.locator(".walk .card").count() >= 2)
    d.shot("12_between")
    d.go("#view=path", ready=".notice")
    d.check("a path without a start shows advice", "needs a start" in d.page.inner_text(".pane.path"))


def tree(d):
    d.go("#q=r:0")
    if d.page.evaluate("async () => (await fetch('/api/info')).json().then((it) => !it.can.tree && !it.columns.some((c) => c.name === 'label' && c.distinct > 1))"):
        d.check("a set without classes has no tree", d.page.locator(".tree").count() == 0)
        return
    item = lambda: d.page.locator("[role=treeitem]:visible")
    d.page.wait_for_function("() => document.querySelectorAll('[role=treeitem]').length > 1")
    d.check("the classes are listed with row counts", all(d.page.locator("[role=treeitem] small").all_inner_texts()[:5]))
    closed = d.page.locator("[role=treeitem][aria-expanded=false]:visible")
    if closed.count():
        before = item().count()
        closed.first.locator("> .node .twist").click()
        d.page.wait_for_function("before => [...document.querySelectorAll('[role=treeitem]')].filter((it) => it.offsetParent).length > before", arg=before)
        d.check("a class opens", item().count() > before)
    node = item().nth(2)
    name, rows = node.get_attribute("data-name"), int(node.locator("> .node small").inner_text().replace(",", ""))
    answer = d.answer(lambda: node.locator("> .node .name").click())
    d.check("a class limits the search to its subtree", answer["rows_passing"] == rows and ("subtree=" in d.state() or "col=" in d.state()))
    d.shot("13_tree")
    d.check("the class is marked", d.page.locator("[role=treeitem][aria-selected=true]").get_attribute("data-name") == name)
    node.focus()
    d.page.keyboard.press("ArrowDown")
    d.check("arrows move in the tree", d.page.evaluate("document.activeElement.dataset.name") != name)


def factors(d):
    info = d.page.evaluate("async () => (await fetch('/api/info')).json()")
    if info["space"]["factors"] < 2:
        d.go("#q=t:a+dog")
        d.check("a space of one factor has no factors tab", d.page.locator("#tab-factors").count() == 0)
        return
    d.go("#q=t:a+dog&view=factors", ready=".factor")
    d.settle()
    d.check("every factor has a bar", d.page.locator(".factor").count() == info["space"]["factors"])
    values = d.page.eval_on_selector_all(".factor", "it => it.map((f) => parseFloat(f.style.getPropertyValue('--value')))")
    d.check("bars show the query", max(values) > 0 and max(values) <= 100 and len(set(values)) > 1)
    answer = d.answer(lambda: d.page.locator(".factor").nth(1).click(), "/api/factors/1")
    d.page.wait_for_selector(".pane.factors .card")
    scores = [hit["score"] for hit in answer["hits"]]
    d.check("a factor shows its deepest photos", scores == sorted(scores, reverse=True) and all(hit["modality"] == "image" for hit in answer["hits"]))
    d.shot("19_factors")


def keyboard(d):
    d.go()
    press = d.page.keyboard.press
    focus = lambda: d.page.evaluate("document.activeElement?.dataset?.row ?? document.activeElement?.id")
    press("/")
    d.check("/ focuses the search", focus() == "text")
    d.page.keyboard.type("a dog")
    d.answer(lambda: press("Enter"))
    rows = d.rows()
    press("Escape")
    rows = [row for row in rows if d.page.locator(f".pane.results .card .face[data-row='{row}']").is_visible()]
    press("ArrowRight")
    d.check("an arrow goes to the first result", focus() == str(rows[0]))
    press("ArrowRight")
    d.check("the next arrow to the second", focus() == str(rows[1]))
    press("ArrowDown")
    below = focus()
    d.check("down goes to the next line", below not in (str(rows[0]), str(rows[1])) and int(below) in rows)
    d.shot("20_keyboard")
    press("ArrowUp")
    d.check("up returns", focus() == str(rows[1]))
    d.answer(lambda: press("Enter"))
    d.check("Enter searches from the result", f"q=r%3A{rows[1]}" in d.state())
    press("m")
    d.page.wait_for_selector(".marks")
    d.check("m shows the map", "view=map" in d.state())
    press("Escape")
    d.check("Esc goes back to the results", "view=" not in d.state())
    press("?")
    d.check("? shows the help", d.page.locator("#helper[open]").count() == 1)
    d.shot("21_help")
    press("Escape")
    d.check("Esc closes it", d.page.locator("#helper[open]").count() == 0)
    press("t")
    d.page.wait_for_selector(".walk .stop")
    d.check("t shows the path", "view=path" in d.state())


def links(d):
    d.go("#q=t:a+dog&mode=narrower&modality=image&gate=1&angle=1.5")
    d.check("a link opens with its ranking and filters", d.page.locator("input[value=narrower]").is_checked()
            and d.page.locator("#gate").is_checked() and d.page.locator("input[value=image]").is_checked()
            and "dog" in d.page.inner_text(".chip") and d.page.inner_text("output[for=angle]").startswith("85.9"))
    first = d.rows()
    d.answer(lambda: d.page.locator("input[value=near] + span").click())
    d.answer(lambda: d.page.go_back())
    d.check("back restores the previous state", d.page.locator("input[value=narrower]").is_checked() and d.rows() == first)
    d.answer(lambda: d.page.go_forward())
    d.check("forward restores the next state", d.page.locator("input[value=near]").is_checked())
    d.go("#q=zz&mode=sideways&angle=99&modality=smell&depth=a,b&select=-3&view=nowhere")
    d.check("an invalid link opens the start", len(d.rows()) > 5)


def dark_and_small(d, browser):
    d.go("#q=t:a+red+car")
    background = lambda: d.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = background()
    d.page.click("#theme")
    d.check("the button switches to dark", background() != light)
    d.shot("22_dark")
    d.go("#q=t:a+red+car&view=map", ready=".marks")
    d.check("dark is remembered", background() != light)
    d.shot("23_dark_map")
    d.page.click("#theme")
    small = browser.new_context(viewport={"width": 390, "height": 780}, device_scale_factor=2, has_touch=True, color_scheme="dark")
    s = Driver(small.new_page(), d.url, d.shots, d.web)
    s.go("#q=t:a+red+car")
    s.check("nothing is wider than a phone", s.page.evaluate("document.documentElement.scrollWidth") <= 390)
    s.check("dark follows the system", s.page.evaluate("getComputedStyle(document.body).backgroundColor") != light)
    s.shot("24_phone")
    s.page.click("#open-filters")
    s.check("filters open on a phone", s.page.locator("#filters").is_visible())
    s.shot("25_phone_filters")
    s.page.click("#open-filters")
    s.page.locator(".pane.results .card .face").first.click()
    s.page.wait_for_selector("#details dl")
    s.shot("26_phone_details")
    for view in ["path", "map"]:
        s.go(f"#q=t:a+red+car&view={view}", ready=".walk .stop" if view == "path" else ".marks")
        s.check(f"{view} fits on a phone", s.page.evaluate("document.documentElement.scrollWidth") <= 390)
        s.shot(f"27_phone_{view}")
    d.problems += s.problems
    small.close()


def trouble(d, pid):
    d.go("#q=t:a+dog")
    d.expected = True
    d.page.route("**/api/search", lambda route: route.abort())
    d.page.locator("input[value=narrower] + span").click()
    d.page.wait_for_selector(".trouble")
    d.check("an unreachable server shows an error", "does not answer" in d.page.inner_text(".trouble") and "conifer serve" in d.page.inner_text(".trouble"))
    d.shot("28_gone")
    d.page.unroute("**/api/search")
    answer = d.answer(lambda: d.page.locator(".trouble button").click())
    d.check("\"Try again\" repeats the request", len(answer["hits"]) > 0)
    d.go("#q=r:999999999", ready=".trouble")
    d.check("a missing row shows an error", "999999999" in d.page.inner_text(".trouble"))
    d.shot("29_no_row")
    if pid:
        d.go("#q=t:a+dog")
        os.kill(pid, signal.SIGTERM)
        time.sleep(1.5)
        d.page.locator("input[value=broader] + span").click()
        d.page.wait_for_selector(".trouble")
        d.check("a stopped server shows an error", "does not answer" in d.page.inner_text(".trouble"))
    d.expected = False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--shots", help="folder for screenshots")
    parser.add_argument("--photo", help="a JPEG, PNG or WebP to search with")
    parser.add_argument("--pid", type=int, help="process id of the server, which is stopped at the end")
    parser.add_argument("--web", help="folder with the files of the page, used instead of those in the program")
    parser.add_argument("--only", help="names of parts, separated by commas")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    args = parser.parse_args()
    if args.shots:
        os.makedirs(args.shots, exist_ok=True)
    photo = args.photo
    if not photo:
        photo = os.path.join(args.shots or "/tmp", "drive.png")
        picture(photo)
    with sync_playwright() as play:
        launch = lambda *flags: play.chromium.launch(executable_path=args.browser, args=[*FLAGS, *flags])
        browser = launch(*SOFTWARE_GL)
        d = Driver(browser.new_context(viewport={"width": 1360, "height": 860}, color_scheme="light").new_page(), args.url, args.shots, args.web)
        parts = {
            "text": lambda: text_search(d), "compose": lambda: composition(d), "photo": lambda: photo_search(d, photo),
            "click": lambda: click_through(d), "switches": lambda: switches(d), "sliders": lambda: sliders(d),
            "path": lambda: traversal(d), "geometry": lambda: maps.geometry(d), "tree": lambda: tree(d), "map": lambda: maps.disc(d), "frames": lambda: maps.frames(d),
            "layers": lambda: maps.layers(d), "lasso": lambda: maps.lasso(d), "depths": lambda: maps.depth_range(d), "words": lambda: maps.labels(d),
            "pictures": lambda: maps.pictures(d), "mapphone": lambda: maps.on_a_phone(d, browser), "plain": lambda: maps.without_webgl(d, launch),
            "newlayer": lambda: layers.new_layers(d), "page": lambda: layers.saved_page(d), "cones": lambda: layers.cones(d), "beside": lambda: layers.two_sets(d),
            "factors": lambda: factors(d), "keys": lambda: keyboard(d), "links": lambda: links(d),
            "late": lambda: edges.late_answers(d), "latephoto": lambda: edges.late_photo(d, photo), "latemap": lambda: edges.late_map(d), "hostile": lambda: edges.hostile_links(d),
            "long": lambda: edges.long_texts(d), "reach": lambda: edges.reach(d),
            "kinds": lambda: items.photos_first(d), "onebox": lambda: items.one_card_for_a_box(d), "walks": lambda: items.paths(d), "wrap": lambda: items.wrapping(d, browser),
            "limit": lambda: items.first_limit(d), "boxes": lambda: items.boxes_on_photo(d), "export": lambda: items.selection(d), "names": lambda: items.titles(d), "flat": lambda: items.flat_ranking(d), "predict": lambda: items.prediction(d),
            "looks": lambda: dark_and_small(d, browser), "trouble": lambda: trouble(d, args.pid),
        }
        # These need a set that can be written, a further layer, or a second set.
        special = ["newlayer", "cones", "beside"]
        wanted = args.only.split(",") if args.only else [it for it in parts if it not in special]
        d.go()
        for name in wanted:
            parts[name]()
        d.check("no error on the console", not d.problems) if not d.problems else sys.exit("\n".join(d.problems))
        browser.close()
    print(f"{len(d.done)} checks passed")


if __name__ == "__main__":
    main()
