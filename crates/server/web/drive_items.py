"""Checks of `drive.py` for single features: kinds, boxes, paths, limits, selection, titles, narrow screens."""

import csv
import io
import json

PHONE = {"width": 390, "height": 780}


def info(d):
    return d.page.evaluate("async () => (await fetch('/api/info')).json()")


def post(d, path, body):
    return d.page.evaluate("async ([path, body]) => (await fetch(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })).json()", [path, body])


def kinds_shown(d, grid):
    return d.page.eval_on_selector_all(f".pane.results .grid{grid} .card", "it => it.map((c) => ['image', 'text', 'box_image', 'box_text'].find((k) => c.classList.contains(k)))")


def photos_first(d):
    d.go()
    answer = d.search("a red car")
    d.check("a query by text shows photos and boxes first", {hit["modality"] for hit in answer["hits"]} <= {"image", "box_image"})
    d.page.wait_for_selector(".grid.texts .card")
    d.check("texts are shown in a second list", set(kinds_shown(d, ".texts")) <= {"text", "box_text"} and set(kinds_shown(d, ".best")) <= {"image", "box_image"})
    below = d.page.evaluate("document.querySelector('.grid.texts').getBoundingClientRect().top >= document.querySelector('.grid.best').getBoundingClientRect().bottom")
    d.check("texts are below the photos", below)
    d.check("the status names both lists", "first, then texts" in d.page.inner_text("#status"))
    d.shot("40_photos_first", full=True)
    answer = d.answer(lambda: d.page.click("#only-texts"))
    d.check("one button shows only texts", {hit["modality"] for hit in answer["hits"]} <= {"text", "box_text"} and "modality=text" in d.state())
    answer = d.answer(lambda: d.page.locator("input[value=broader] + span").click())
    d.go("#q=t:a+red+car&mode=broader")
    d.check("broader rows of a text are not limited to photos", d.page.locator(".grid.texts").count() == 0)
    with d.page.expect_request(d.main) as asked:
        d.go("#q=r:0")
    d.check("a photo finds rows of all kinds", "modality" not in asked.value.post_data_json)


def one_card_for_a_box(d):
    d.go("#q=t:a+red+car&modality=box_image")
    answer = post(d, "/api/search", {"query": {"text": "a red car"}, "modality": ["box_image"], "k": 60})
    keys = [(hit["columns"]["sample"], tuple(hit["box"])) for hit in answer["hits"]]
    cards = d.page.locator(".grid.best .card")
    d.check(f"60 rows of boxes are {len(set(keys))} cards", cards.count() == len(set(keys)))
    several = next((key for key in keys if keys.count(key) > 1), None)
    if several is None:
        d.check("none of these boxes has several phrases", True)
        return
    texts = [hit["columns"]["text"] for hit, key in zip(answer["hits"], keys) if key == several]
    row = next(hit["row"] for hit, key in zip(answer["hits"], keys) if key == several)
    said = d.page.locator(f".grid.best .card[data-row='{row}'] .phrases li").all_inner_texts()
    d.check(f"a card names all phrases of its box {said}", sorted(said) == sorted(set(texts)))
    d.shot("41_one_card")


def paths(d):
    d.go("#q=t:a+red+car&modality=image")
    row = d.rows()[0]
    with d.page.expect_request(lambda it: "/api/traverse" in it.url) as asked:
        d.go(f"#view=path&from=r:{row}&modality=image&col=label=none&depth=0,0.001", ready=".walk .stop")
    d.settle()
    body = asked.value.post_data_json
    d.check("a path requests texts and ignores the filters", body["modality"] == ["text", "box_text"] and "columns" not in body and "depth" not in body)
    d.check("it shows texts and the root", d.page.locator(".walk .card:not(.root)").count() > 0 and d.page.locator(".walk .card.root").count() == 1)
    d.shot("42_path_filtered")
    with d.page.expect_request(lambda it: "/api/traverse" in it.url) as asked:
        d.page.select_option("#along", "pictures")
    d.check("it can show photos instead", asked.value.post_data_json["modality"] == ["image", "box_image"] and "along=pictures" in d.state())
    with d.page.expect_request(lambda it: "/api/hierarchy" in it.url) as asked:
        d.page.select_option("#along", "chain")
    d.settle()
    d.check("it can show the chain of texts by radius", "modality" not in asked.value.post_data_json and d.page.locator(".walk .card.root").count() == 0)
    d.go(f"#view=path&select={row}", ready="#from-open")
    d.page.wait_for_function("() => document.querySelector('#details dl')")
    d.check("a path without a start offers the open photo", "Start from the open photo" in d.page.inner_text("#from-open"))
    d.shot("43_path_offer")
    d.page.click("#from-open")
    d.page.wait_for_selector(".walk .stop")
    d.check("the path starts there", f"from=r%3A{row}" in d.state() and d.page.locator("#from-open").count() == 0)
    d.go(f"#q=t:a+dog&view=path&select={row}", ready=".walk .stop")
    d.check("it also offers the open photo if there is a query", d.page.locator("#from-open").count() == 1)
    lines = d.page.evaluate("new Set([...document.querySelectorAll('.walk .stop')].map((it) => Math.round(it.getBoundingClientRect().left))).size")
    stops = d.page.locator(".walk .stop").count()
    d.check("stops wrap into lines and nothing scrolls sideways", lines <= stops
            and d.page.evaluate("document.querySelector('.walk').scrollWidth <= document.querySelector('.walk').clientWidth"))


def wrapping(d, browser):
    """Checks a long caption on wide and narrow pages."""
    words = "a very long caption of a busy street with cars, buses, a dog and someone who carries an umbrella " * 2

    def longer(route):
        answer = route.fetch()
        body = answer.json()
        for hit in body["hits"][:4]:
            hit["columns"] = {**hit["columns"], "text": words}
        route.fulfill(response=answer, json=body)
    for width in [1360, 390, 320]:
        d.page.set_viewport_size({"width": width, "height": 860})
        d.page.route("**/api/search", longer)
        d.go("#q=t:a+dog")
        d.settle()
        shown = d.page.eval_on_selector_all(".grid.best .caption", "it => it.slice(0, 2).map((c) => [c.getBoundingClientRect().height, parseFloat(getComputedStyle(c).lineHeight), c.scrollWidth - c.clientWidth])")
        d.check(f"long captions wrap at {width}", all(height > 2.5 * line and wide <= 0 for height, line, wide in shown))
        columns = d.page.evaluate("getComputedStyle(document.querySelector('.grid.best')).gridTemplateColumns.split(' ').length")
        d.check(f"cards fit a page of {width}: {columns} in a line", d.page.evaluate("document.documentElement.scrollWidth <= innerWidth") and (columns >= 5 if width > 1000 else 2 <= columns <= 3))
        d.shot(f"44_wrap_{width}")
        d.page.unroute("**/api/search")
    d.page.set_viewport_size({"width": 1360, "height": 860})
    for theme in ["light", "dark"]:
        phone = browser.new_context(viewport=PHONE, device_scale_factor=2, has_touch=True, color_scheme=theme)
        s = type(d)(phone.new_page(), d.url, d.shots, d.web)
        fits = lambda what: s.check(f"{what} fits on a phone ({theme})", s.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])
        s.go("#q=t:a+red+car&mode=general")
        fits("general to specific")
        s.page.click("#open-filters")
        s.page.wait_for_selector("#limit-said:not([hidden])")
        fits("the list of filters")
        s.shot(f"45_phone_{theme}_filters")
        s.page.click("#open-filters")
        # A card of a box stands for a row per phrase, and a tap selects all of them.
        rows = s.page.eval_on_selector_all(".grid.best .card", "it => it.slice(0, 2).map((c) => c.dataset.rows.split(',').length)")
        s.page.locator(".grid.best .card .pick").nth(0).tap()
        s.page.locator(".grid.best .card .pick").nth(1).tap()
        s.check(f"a tap selects ({theme})", s.page.inner_text("#selection").startswith(f"{sum(rows)} selected"))
        fits("the selection")
        s.shot(f"46_phone_{theme}_selection")
        s.page.click("#select-none")
        s.go("#q=t:a+red+car&modality=image")
        s.page.locator(".grid.best .card .face").first.tap()
        s.page.wait_for_selector("#details dl")
        fits("a row")
        s.check(f"the details do not scroll sideways ({theme})", s.page.evaluate("(it => it.scrollWidth <= it.clientWidth)(document.querySelector('#details'))"))
        s.shot(f"47_phone_{theme}_row")
        s.page.locator("#details .does button", has_text="Path to the root").tap()
        s.page.wait_for_selector(".walk .stop")
        s.page.keyboard.press("Escape")
        fits("a path")
        s.shot(f"48_phone_{theme}_path", full=True)
        d.problems += s.problems
        phone.close()


def first_limit(d):
    d.go("#q=t:an+animal")
    answer = d.answer(lambda: d.page.locator("input[value=general] + span").click())
    d.page.wait_for_selector("#limit-said:not([hidden])")
    d.settle()
    passing = answer["rows_passing"]
    kept = min(passing, max(30, min(2000, round(0.1 * passing))))
    said = d.page.inner_text("#limit-said")
    d.check(f"general to specific starts at an angle from the data: {said}", f"keeps {kept:,} rows" in said and "angle=" not in d.state())
    shown = float(d.page.inner_text("output[for=angle]").rstrip("°"))
    every = post(d, "/api/search", {"query": {"text": "an animal"}, "by": "narrower", "k": 1000, "modality": ["image", "box_image"]})
    inside = sum(hit["score"] * 180 / 3.141592653589793 <= shown + 0.06 for hit in every["hits"])
    d.check(f"the angle filters: {inside} of {passing} rows lie within {shown} degrees", 0 < inside < passing and kept - 3 <= inside)
    d.check("the status says how many", "chosen from the data" in d.page.inner_text("#status"))
    d.shot("49_first_limit")
    d.answer(lambda: d.page.locator("#angle").evaluate("it => { it.value = Number(it.value) + 10; it.dispatchEvent(new Event('input')); }"))
    d.check("a moved angle is kept", "angle=" in d.state() and "again" in d.page.inner_text("#limit-said"))
    d.answer(lambda: d.page.click("#auto-limit"))
    d.check("the limit can be chosen from the data again", "angle=" not in d.state())
    answer = d.answer(lambda: d.page.locator("input[name=limit][value=distance] + span").click())
    d.check("the distance is chosen from the data too", 0 < len(answer["hits"]) <= kept + 1 and "within=" not in d.state())
    d.go("#q=t:an+animal&mode=narrower")
    with d.page.expect_request(d.main) as asked:
        d.answer(lambda: d.page.locator("#gate").check())
    d.check("the angle of a gate is chosen from the data too", 0 < asked.value.post_data_json["angle"] < 3.1416)


def boxes_on_photo(d):
    d.go("#q=t:a+red+car&modality=image")
    row = d.rows()[0]
    listed = d.page.evaluate(f"async () => (await fetch('/api/rows/{row}/boxes')).json()")["boxes"]
    d.page.locator(".grid.best .face").first.click()
    d.page.wait_for_selector("#details .boxed img")
    d.settle()
    marks = d.page.locator("#details .mark-box")
    d.check(f"a photo shows its {len(listed)} boxes", marks.count() == len(listed) > 0)
    places = d.page.evaluate("""() => {
        const photo = document.querySelector("#details .boxed img").getBoundingClientRect();
        return [...document.querySelectorAll("#details .mark-box")].map((it) => {
            const box = it.getBoundingClientRect();
            return [(box.left - photo.left) / photo.width, (box.top - photo.top) / photo.height, box.width / photo.width, box.height / photo.height];
        });
    }""")
    # The border has a fixed width, so small boxes are drawn slightly larger.
    near = lambda a, b: all(abs(x - y) < 0.03 for x, y in zip(a, b))
    d.check("each box is at its place", all(any(near(it["box"], place) for place in places) for it in listed))
    d.shot("50_boxes")
    d.page.click(".boxes-off")
    d.check("boxes can be hidden", not marks.first.is_visible())
    d.page.click(".boxes-off")
    marks.last.focus()
    d.page.keyboard.press("Enter")
    chosen = {r for it in listed for r in it["rows"]}
    d.page.wait_for_function("() => document.querySelector('#details .mark-box.own')")
    selected = int(dict(pair.split("=") for pair in d.state().lstrip("#").split("&"))["select"])
    d.check("a click on a box opens its row", selected in chosen and d.page.locator("#details .mark-box.own").count() == 1)
    d.settle()
    d.check("a row of a box shows the whole photo", d.page.locator("#details .mark-box").count() == len(listed))
    d.shot("51_box_row")


def selection(d):
    d.go("#q=t:a+red+car&modality=image,text")
    d.check("nothing is selected at first", d.page.locator("#selection").is_hidden())
    cards = d.page.locator(".grid.best .card:visible")
    cards.nth(0).hover()
    cards.nth(0).locator(".pick").click()
    cards.nth(2).locator(".face").focus()
    d.page.keyboard.press("x")
    wanted = [int(cards.nth(i).get_attribute("data-row")) for i in (0, 2)]
    d.check("a click and a key select rows", "2 selected" in d.page.inner_text("#selection") and d.page.locator(".card.picked").count() == 2)
    d.shot("52_selection")
    hits = [d.page.evaluate(f"async () => (await fetch('/api/rows/{row}')).json()") for row in wanted]
    with d.page.expect_download() as got:
        d.page.click("#export-csv")
    with open(got.value.path(), newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(io.StringIO(file.read())))
    d.check("the selection is exported as CSV", got.value.suggested_filename == "selection.csv"
            and [(int(it["row"]), it["id"]) for it in lines] == [(hit["row"], hit["id"]) for hit in hits])
    with d.page.expect_download() as got:
        d.page.click("#export-json")
    with open(got.value.path(), encoding="utf-8") as file:
        exported = json.load(file)
    d.check("the selection is exported as JSON", [(it["row"], it["id"]) for it in exported] == [(hit["row"], hit["id"]) for hit in hits])
    quoted = d.page.evaluate("""async () => {
        const { toCsv } = await import("/assets/selection.js");
        return toCsv([{ row: 1, id: 'a,"b"\\nc', modality: "image", columns: { text: "x", sample: "s" } }]);
    }""")
    d.check("CSV is quoted", list(csv.reader(io.StringIO(quoted, newline="")))[1] == ["1", 'a,"b"\nc', "photo", "x", "", "s"])
    d.search("a dog")
    d.check("a search keeps the selection", "2 selected" in d.page.inner_text("#selection"))
    d.page.click("#select-shown")
    d.check("all shown rows can be selected", int(d.page.inner_text("#selection b").split()[0]) >= 60)
    d.page.click("#select-none")
    d.check("the selection can be cleared", d.page.locator("#selection").is_hidden() and d.page.locator(".card.picked").count() == 0)


def titles(d):
    d.go()
    found = d.page.evaluate("""async () => {
        const { caption, origin } = await import("/assets/rows.js");
        const of = (modality, id, columns) => [caption({ modality, id, columns }), origin({ modality, id, columns })];
        return [
            of("image", "bird1", { text: "Sula sula, red-footed booby", label: "Sula sula" }),
            of("image", "train/3.jpg", { text: "/data/photos/3.jpg", label: "dog" }),
            of("image", "x7", { text: "photos/3.JPG", label: "", common_name: "Blue jay" }),
            of("image", "3.jpg", { text: "3.jpg" }),
            of("image", "7", {}),
            of("text", "a#caption0", { text: "see 3.jpg" }),
        ];
    }""")
    d.check(f"the title of a photo is its caption, its class or its file {found}", found == [
        ["Sula sula, red-footed booby", "bird1"], ["dog", "3.jpg"], ["Blue jay", "3.JPG"], ["3.jpg", ""], ["7", ""], ["see 3.jpg", "a#caption0"]])
    d.go("#q=t:a+red+car&modality=image")
    shown = d.page.locator(".grid.best .card").first
    row = int(shown.get_attribute("data-row"))
    hit = d.page.evaluate(f"async () => (await fetch('/api/rows/{row}')).json()")
    d.check("a card has the caption first, then the id", shown.locator(".caption").inner_text() == hit["columns"]["text"]
            and hit["id"] in shown.locator(".origin").inner_text())


def flat_ranking(d):
    def flat(route):
        answer = route.fetch()
        route.fulfill(json={**answer.json(), "flat": "the ranking is flat: a test"})
    d.go("#q=t:a+red+car&modality=image")
    d.check("a ranking with contrast has no warning", d.page.locator(".pane.results .flat").count() == 0)
    d.page.route("**/api/search", flat)
    d.go("#q=t:a+red+car&modality=image")
    d.check("a flat ranking has a warning", d.page.inner_text(".pane.results .flat") == "The ranking is flat: a test.")
    d.shot("49_flat")
    d.page.unroute("**/api/search")


def prediction(d):
    d.go("#q=t:a+red+car&modality=image")
    d.page.locator(".pane.results .card .face").first.click()
    d.page.wait_for_selector("#details dl")
    terms = d.page.locator("#details dt").all_inner_texts()
    if not info(d)["can"]["predict"]:
        d.check("a server without a threshold predicts nothing", "predicted class" not in terms)
        return
    d.check("a photo has a predicted class with its guarantee", "predicted class" in terms and "guarantee" in terms)
    d.shot("50_prediction")
    d.go("#q=t:a+red+car&modality=text")
    d.page.locator(".pane.results .card .face").first.click()
    d.page.wait_for_selector("#details dl")
    d.check("a text has no predicted class", "predicted class" not in d.page.locator("#details dt").all_inner_texts())
