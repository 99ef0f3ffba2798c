"""Checks of `drive.py` for edge cases of the explorer: late responses, hostile links, long texts, the keyboard."""

import json

from playwright.sync_api import Error


class Held:
    """Holds requests whose URL contains `part` (and whose JSON body passes `which`) until `release` is called."""

    def __init__(self, d, part, which=None):
        self.d, self.part, self.which, self.routes, self.opened = d, part, which, [], False
        d.page.route(f"**{part}*", self.hold)

    def hold(self, route):
        if not self.opened and (self.which is None or self.which(json.loads(route.request.post_data or "{}"))):
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self, number=1):
        for _ in range(300):
            if len(self.routes) >= number:
                return
            self.d.page.wait_for_timeout(50)
        raise SystemExit(f"failed: expected {number} requests of {self.part}, found {len(self.routes)}")

    def release(self):
        """Forwards the requests in order of arrival, like a slow server. Aborted requests are skipped."""
        self.opened = True
        for route in self.routes:
            try:
                route.continue_()
            except Error as error:
                # The browser has aborted the request.
                if "already handled" not in str(error):
                    raise
        self.d.page.unroute(f"**{self.part}*", self.hold)
        self.d.page.wait_for_timeout(700)
        self.d.settle()


def show(d, address):
    """Opens another URL fragment on the open page, like a link."""
    d.page.evaluate("it => { history.pushState(null, '', it); dispatchEvent(new PopStateEvent('popstate')); }", address)


def late_answers(d):
    page = d.page
    narrower = lambda: page.locator("input[value=narrower] + span").click()
    rows = lambda: len(d.rows())

    d.go("#q=t:a+dog")
    held = Held(d, "/api/search", lambda body: body.get("offset"))
    page.click("#more")
    held.wait()
    d.answer(narrower)
    held.release()
    d.check("more rows of an old query are not added to a new one", rows() == 60)
    with page.expect_request(d.main) as asked:
        page.click("#more")
    d.wait_rows(120)
    body = asked.value.post_data_json
    best = page.evaluate("async (body) => (await (await fetch('/api/search', { method: 'POST', body: JSON.stringify(body),"
                         " headers: { 'Content-Type': 'application/json' } })).json()).hits.map((it) => it.row)",
                         {**body, "offset": 0, "k": 120})
    d.check("more rows continue after the rows shown", body["offset"] == 60 and sorted(d.rows()) == sorted(best) and d.rows()[0] == best[0])
    held = Held(d, "/api/search", lambda body: "offset" not in body)
    page.locator("input[value=near] + span").click()
    held.wait()
    page.click("#more")
    held.release()
    d.check("\"Show more\" of an old query does not abort a new one", rows() == 60)

    d.go("#q=t:a+dog")
    held = Held(d, "/api/search")
    press = lambda at, name: page.evaluate("([at, name]) => [...document.querySelectorAll('.pane.results .card .actions')].at(at)"
                                           ".querySelectorAll('button').forEach((it) => it.textContent === name && it.click())", [at, name])
    press(3, "not")
    press(4, "not")
    press(4, "not")
    press(5, "and")
    press(6, "and")
    d.check("all actions before a response take effect", d.state().count("not=r") == 2 and d.state().count("q=r") == 2)
    d.check("the page is marked as busy", page.locator(".pane.results[aria-busy=true]").count() == 1)
    held.release()
    d.check("the page is no longer busy", page.locator("[aria-busy]").count() == 0)

    d.go("#q=t:a+dog")
    page.locator(".pane.results .card .face:visible").nth(2).click()
    page.wait_for_selector("#details dl")
    d.settle()
    held = Held(d, "/api/rows/")
    show(d, d.state() + "&not=r:1")
    page.locator("#details .does button", has_text="not").click()
    d.check("the details add to the current exclusions", d.state().count("not=r") == 2)
    held.release()

    d.go("#q=t:a+dog&mode=narrower&gate=1&angle=0", ready=None)
    held = Held(d, "/api/search", lambda body: body.get("k") == 1)
    show(d, "#q=t:a+cat&mode=narrower&gate=1&angle=0")
    held.wait()
    d.answer(lambda: page.locator("input[value=near] + span").click())
    held.release()
    d.check("a late notice for empty results is not shown", rows() == 60)

    d.go("#q=t:a+dog&view=path", ready=".walk .stop")
    held = Held(d, "/api/traverse")
    show(d, "#q=t:a+cat&view=path")
    held.wait()
    show(d, "#view=path")
    page.wait_for_selector(".pane.path .notice")
    held.release()
    d.check("a late path does not replace the notice without a start", "needs a start" in page.inner_text(".pane.path"))

    if page.locator("#tab-factors").count():
        d.go("#q=t:a+dog&view=factors", ready=".factor")
        held = Held(d, "/api/factors/0")
        page.locator(".factor").first.click()
        held.wait()
        page.locator(".factor").first.click()
        held.release()
        d.check("rows of a factor that is no longer chosen are not shown", page.locator(".pane.factors .card").count() == 0)

    def other_root(route):
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "root": "mean"})
    page.route("**/api/info", other_root)
    d.go("#q=t:a+dog")
    held = Held(d, "/api/search")
    narrower()
    held.wait()
    page.click("#home")
    page.wait_for_selector(".grid[aria-label='Some rows'] .card")
    held.release()
    d.check("a late response does not replace the start page", page.locator(".grid[aria-label='Some rows']").count() == 1)
    page.unroute("**/api/info")


def late_photo(d, photo):
    page = d.page
    words = lambda: page.locator("#chips .chip").all_inner_texts()
    d.go("#q=t:a+dog")
    held = Held(d, "/api/photos")
    page.set_input_files("#file", photo)
    held.wait()
    d.check("the status shows that a photo is uploaded", "Embedding" in page.inner_text("#status"))
    page.fill("#text", "a cat")
    d.answer(lambda: page.press("#text", "Enter"))
    held.release()
    d.check(f"a late photo does not replace a newer search {words()}", len(words()) == 1 and "a cat" in words()[0])
    held = Held(d, "/api/photos")
    page.set_input_files("#file", photo)
    held.wait()
    d.answer(lambda: page.locator("input[value=narrower] + span").click())
    d.answer(held.release)
    d.check("another ranking does not abort the upload", words() == ["photo"])


def late_map(d):
    page = d.page
    asked = []
    count = lambda it: "/api/map/points" in it.url and asked.append(it.url)
    page.on("request", count)
    d.go("#q=r:0&view=map", ready=".marks")
    d.settle()
    page.remove_listener("request", count)
    d.check(f"the map is requested once ({len(asked)})", len(asked) == 1)
    marks = lambda: page.evaluate("document.querySelector('.marks').toDataURL()")
    before = marks()
    held = Held(d, "/api/map/row/")
    show(d, "#q=r:0&view=map&select=5")
    held.wait()
    page.keyboard.press("Escape")
    held.release()
    d.check("the cone of a row that is no longer selected is not drawn", page.locator("#details").is_hidden() and marks() == before)


def hostile_links(d):
    page = d.page
    errors = []
    note = lambda it: errors.append(str(it))
    page.on("pageerror", note)
    d.expected = True
    for column in ["__proto__", "constructor", "toString"]:
        d.go(f"#q=r:0&col={column}=x", ready=".pane.results .trouble")
        d.check(f"an unknown column shows an error: {column}", column in page.inner_text(".pane.results .trouble") and f"col={column}" in d.state())
        page.click("#clear")
        page.wait_for_selector(".pane.results .card")
    d.expected = False
    d.go("#q=r:0&modality=toString,image,image,__proto__")
    d.check("unknown kinds are ignored", page.locator(".kinds input:checked").count() == 1)
    again = page.evaluate("""async () => {
        const { parse, toFilter, write } = await import("/assets/state.js");
        const state = parse("col=__proto__=x&col=__proto__=y&col=constructor=z&modality=image,image&q=r:99999999999999999999&q=r:7");
        return [write(parse(write(state))), JSON.stringify(toFilter(state)), state.terms.length];
    }""")
    d.check("every column name survives a round trip through a link", again == [
        "q=r%3A7&modality=image&col=__proto__%3Dx&col=__proto__%3Dy&col=constructor%3Dz",
        '{"modality":["image"],"columns":{"__proto__":["x","y"],"constructor":["z"]}}', 1])

    def own_column(route):
        answer = route.fetch()
        info = answer.json()
        column = {"name": "constructor", "distinct": 2, "values": [["__proto__", 30], ["valueOf", 20]]}
        route.fulfill(response=answer, json={**info, "columns": [column, *info["columns"]]})
    page.route("**/api/info", own_column)
    d.go()
    page.locator("details:has(.facet)", has_text="constructor").locator("summary").click()
    d.expected = True
    with page.expect_request(lambda it: "/api/search" in it.url) as asked:
        page.locator(".facet input").first.check()
    d.check("a column may be called constructor", asked.value.post_data_json["columns"] == {"constructor": ["__proto__"]})
    d.settle()
    page.unroute("**/api/info")
    page.remove_listener("pageerror", note)
    d.expected = False
    d.check(f"no link causes a script error {errors or ''}", not errors)


def long_texts(d):
    """Checks words of 200,000 letters that kern (A) or join (Arabic), which would block a tab if laid out whole."""
    page = d.page
    for name, text in [("kerning", "\u202eevil\0" + "A" * 200_000), ("joining", "\u0628" * 200_000), ("pairs", "\U0001f600" * 100_000)]:
        def longer(route):
            answer = route.fetch()
            body = answer.json()
            for hit in [body["row"], *body["near"][:1]] if "row" in body else body["hits"][:2]:
                hit["id"] = text
                hit["columns"] = {**hit["columns"], "text": text, text: text}
            route.fulfill(response=answer, body=json.dumps(body, ensure_ascii=False))
        page.route("**/api/search", longer)
        page.route("**/neighbours?*", longer)
        d.go("#q=t:a+dog")
        page.locator(".pane.results .card .face:visible").first.click()
        page.wait_for_selector("#details dl")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        longest = page.evaluate("""() => {
            const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
            let most = 0;
            for (let it = walk.nextNode(); it; it = walk.nextNode()) {
                for (const text of [it.data ?? "", ...[...(it.attributes ?? [])].map((one) => one.value)]) most = Math.max(most, text.length);
            }
            return most;
        }""")
        d.check(f"only the beginning of a long text is shown ({name}: {longest})", 300 <= longest <= 1000)
        d.check(f"it fits its container ({name})", page.evaluate(
            "() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('#details').scrollWidth <= document.querySelector('#details').clientWidth"))
        d.shot(f"30_long_{name}")
        page.locator("#details .title .all").click()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        d.check(f"the button shows the full text ({name})", page.evaluate("document.querySelector('#details .title').textContent") == text)
        page.unroute("**/api/search")
        page.unroute("**/neighbours?*")
    desktop = page.viewport_size
    d.expected = True
    for width in [desktop["width"], 390]:
        page.set_viewport_size({"width": width, "height": 780})
        d.go(f"#q=t:{'A' * 3000}&not=i:{'B' * 3000}&inside=i:{'C' * 3000}", ready=".pane.results .trouble")
        d.check(f"long terms fit a page of {width}", page.evaluate("document.documentElement.scrollWidth") <= width)
    page.set_viewport_size(desktop)
    d.settle()
    d.expected = False


def reach(d):
    """Checks that the keyboard reaches all factors and all points of the map."""
    page, press = d.page, d.page.keyboard.press
    if page.locator("#tab-factors").count():
        d.go("#q=t:a+dog&view=factors", ready=".factor")
        d.check("one factor is a Tab stop", page.locator(".factor[tabindex='0']").count() == 1)
        last = page.locator(".factor").count() - 1
        page.locator(".factor").first.focus()
        at = lambda: page.evaluate("[...document.querySelectorAll('.factor')].indexOf(document.activeElement)")
        for key, to in [("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("End", last), ("ArrowRight", 0), ("ArrowUp", last), ("Home", 0)]:
            press(key)
            d.check(f"factors: {key} goes to {to}", at() == to and page.locator(".factor[aria-checked=true][tabindex='0']").count() == 1
                    and page.locator(".factor").nth(to).get_attribute("aria-checked") == "true")
        d.settle()
        d.check("the factor keeps the focus when its rows are loaded", at() == 0 and page.locator(".pane.factors .card").count() > 0)
        press("Tab")
        d.check("Tab leaves the factors", at() == -1)

    d.go("#q=t:a+dog&view=map", ready=".marks")
    d.settle()
    told = lambda: page.text_content(".stage .unseen")
    wait = lambda: page.wait_for_function("() => document.querySelector('.stage .unseen').textContent.includes('depth')")
    page.locator(".marks").focus()
    named = []
    for key in ["ArrowRight", "ArrowRight", "ArrowUp"]:
        with page.expect_response(lambda it: "/api/rows/" in it.url and "thumbnail" not in it.url) as got:
            press(key)
        wait()
        named.append(got.value.json())
        d.check(f"map: {key} names a row", f"{named[-1]['depth']:.3f}" in told() and page.locator(".tip").is_visible())
    d.check("each key names another row", len({it["row"] for it in named}) == 3)
    d.shot("31_map_keys")
    press("Enter")
    page.wait_for_selector("#details dl")
    d.check("Enter selects the row", f"select={named[-1]['row']}" in d.state())
    d.settle()
    d.shot("32_map_chosen")
    dots = lambda: page.locator(".stage").screenshot()
    before = dots()
    press("Shift+ArrowLeft")
    d.settle()
    d.check("Shift and an arrow move the map", dots() != before)
    press("Tab")
    d.check("the name disappears with the focus", told() == "" and page.locator(".tip").is_hidden())
    wrong = page.evaluate("""async () => {
        const { towards } = await import("/assets/disc.js");
        const side = 5, twins = 3, all = [];
        for (let i = 0; i < side * side; i++) for (let k = 0; k < twins; k++) all.push([i % side, Math.floor(i / side)]);
        const [x, y] = [0, 1].map((k) => Float64Array.from(all, (it) => it[k]));
        const ways = [["x", true], ["x", false], ["y", true], ["y", false]];
        const met = new Set([37]);
        for (const at of met) for (const [axis, forward] of ways) {
            const next = towards(x, y, at, axis, forward);
            if (next < 0) continue;
            met.add(next);
            const there = axis === "x" ? x[next] - x[at] : y[next] - y[at];
            if (forward ? there < 0 : there > 0) return `from ${at} to ${next}`;
        }
        if (towards(x, y, all.length - 1, "x", true) !== -1) return "a point beyond the last one";
        return met.size === all.length ? "" : `${met.size} of ${all.length} points`;
    }""")
    d.check(f"arrows reach every point, including points at the same place {wrong}", not wrong)
