"""Checks of the explorer's map: layers that the server computes, saved pages, cones in layers, and a second set."""

import json
import os
import struct

from drive_map import draw_outline, fitted, middle_of, open_map, points, shows, stage

FIRST = ".stages > .stage .marks"
SECOND = ".beside .marks"


def layers_reply(d):
    return d.page.request.get(f"{d.url}/api/map/layers").json()


def new_layers(d):
    """Computes a short projection to its end, and cancels a long one. The folder `maps` of the set must be writable."""
    open_map(d)
    before = layers_reply(d)
    d.page.click(".newlayer summary")
    options = d.page.eval_on_selector_all(".newlayer select[aria-label=Method] option", "it => it.map((o) => [o.value, o.disabled, o.textContent])")
    refused = {it["by"]: it.get("refused") for it in before["methods"]}
    d.check(f"the methods are {[name for name, off, _ in options if not off]}", [name for name, _, _ in options] == list(refused)
            and all(off == bool(refused[name]) and (not off or refused[name] in text) for name, off, text in options))
    d.shot("80_new_layer")
    method = d.page.get_by_label("Method")
    method.select_option("umap")
    d.page.click("#compute")
    d.page.wait_for_selector("#cancel-layer:visible")
    d.page.wait_for_function("() => / of [\\d,]+/.test(document.querySelector('.newlayer .progress span').textContent)")
    d.shot("81_computing")
    said = d.page.inner_text(".newlayer .progress span")
    job = layers_reply(d)["job"]
    d.check(f"the progress is shown: {said}", job["state"] == "computing" and said.startswith("umap") and d.page.locator("#compute").is_disabled())
    # The map answers meanwhile.
    d.page.locator("#map-contours").check()
    d.page.click("#cancel-layer")
    d.page.wait_for_function("() => document.querySelector('.newlayer .progress span').textContent.endsWith('cancelled')")
    d.check("it is cancelled", layers_reply(d)["job"]["state"] == "cancelled" and d.page.locator("#compute").is_enabled())
    method.select_option("tangent-pca")
    known = any(it["name"] == "tangent-pca" for it in before["layers"])
    d.expected = known  # the browser logs the refused request
    d.page.click("#compute")
    if known:
        d.page.wait_for_function("() => document.querySelector('.newlayer .progress span').textContent.includes('exists')")
        d.check("a layer of the same name is refused", True)
    else:
        shows(d, "tangent-pca")
        d.check(f"the new layer is shown: {d.page.inner_text('#status')}", "layer=tangent-pca" in d.state()
                and d.page.get_by_label("Layer", exact=True).input_value() == "tangent-pca")
    d.expected = False
    d.shot("82_new_layer_shown")


def saved_page(d):
    open_map(d, "&colour=depth")
    _, rows, x, y, _ = points(d)
    with d.page.expect_download() as saved:
        d.page.click("#save-html")
    path = os.path.abspath(os.path.join(d.shots or "/tmp", "83_saved.html"))
    saved.value.save_as(path)
    d.page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('Saved')")
    context = d.page.context.browser.new_context(viewport={"width": 1200, "height": 800}, offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda it: asked.append(it.url))
    page.on("pageerror", lambda e: d.problem(f"saved page: {e}"))
    page.goto(f"file://{path}")
    count = page.evaluate("data.x.length")
    d.check(f"the saved page of {os.path.getsize(path):,} bytes has {count:,} points", saved.value.suggested_filename == "map.html" and 0 < count <= min(60_000, len(rows)))
    d.check("it asks for no other file", asked == [f"file://{path}"])
    d.check(f"it has a legend and is coloured as the map: {page.input_value('select')}", page.input_value("select") == "depth" and page.locator("#legend .scale").count() == 1)
    places = dict(zip(rows, zip(x, y)))
    own = page.evaluate("data.ids.map((id, i) => [Number(id.slice(1)), data.x[i], data.y[i]])") if page.evaluate("/^r\\d+$/.test(data.ids[0])") else []
    d.check("the points are where they were", all(abs(px - places[row][0]) < 2e-6 and abs(py - places[row][1]) < 2e-6 for row, px, py in own))
    half = page.evaluate("Math.min(canvas.clientWidth, canvas.clientHeight) / 2 / view.scale")
    cx, cy, radius = middle_of(d)
    d.check("it shows the same part", abs(half - (radius + 14) / (radius * fitted(x, y))) < 1e-6)
    at = page.evaluate("(() => { const [x, y] = place(data.x[0], data.y[0]); const box = canvas.getBoundingClientRect(); return [box.left + x, box.top + y]; })()")
    page.mouse.move(*at)
    d.check(f"hovering shows a text: {page.inner_text('#tip')!r}", page.locator("#tip").is_visible() and page.inner_text("#tip") != "")
    before = page.evaluate("view.scale")
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(100)
    d.check("the wheel zooms", page.evaluate("view.scale") > before)
    page.mouse.down()
    page.mouse.move(at[0] + 60, at[1] + 30)
    page.mouse.up()
    if d.shots:
        page.screenshot(path=os.path.join(d.shots, "83_saved.png"))
    context.close()
    # A moved and zoomed disc, of which only some points are seen.
    d.page.evaluate("window.scrollTo(0, 0)")
    cx, cy, radius = middle_of(d)
    d.page.mouse.dblclick(cx + radius * 0.5, cy + radius * 0.2)
    d.page.wait_for_timeout(500)
    d.page.mouse.move(cx, cy)
    d.page.mouse.wheel(0, -900)
    d.page.wait_for_timeout(200)
    with d.page.expect_download() as saved, d.page.expect_request(lambda it: it.url.endswith("/api/map/page")) as asked:
        d.page.click("#save-html")
    sent = json.loads(asked.value.post_data)
    with open(saved.value.path(), encoding="utf-8") as file:
        data = json.loads(file.read().split('id="data">')[1].split("</script>")[0])
    vx, vy, half = data["view"]
    box = d.page.locator(FIRST).bounding_box()
    wide, high = [half * side / min(box["width"], box["height"]) for side in [box["width"], box["height"]]]
    inside = all(abs(px - vx) <= wide * 1.001 and abs(py - vy) <= high * 1.001 for px, py in zip(data["x"], data["y"]))
    d.check(f"of a moved map, {len(data['x']):,} seen points are saved", inside and 0 < len(data["x"]) < len(rows) and sent["center"] != [0, 0])


def cones(d):
    """Needs a layer besides the disc with all rows."""
    total = d.page.request.get(f"{d.url}/api/info").json()["rows"]
    layer = next(it["name"] for it in layers_reply(d)["layers"][1:] if it["rows"] == total)
    search = lambda row: d.page.request.post(f"{d.url}/api/search", data={"query": {"row": row}, "inside": {"row": row}, "k": 1}).json()["rows_passing"]
    # A general row has many rows in its cone.
    general = d.page.request.post(f"{d.url}/api/search", data={"query": {"row": 0}, "by": "general", "within": 1e6, "k": 20}).json()["hits"]
    row = max((it["row"] for it in general), key=lambda it: (lambda n: n if n < total else 0)(search(it)))
    open_map(d, f"&layer={layer}")
    shows(d, layer)
    before = stage(d)
    d.go(f"#view=map&layer={layer}&select={row}", ready=".marks")
    marked = "() => document.querySelector('.legend')?.textContent.includes('in the cone of the selected row')"
    d.page.wait_for_function(marked)
    d.settle()
    legend = d.page.inner_text(".legend")
    count = int(next(it for it in legend.splitlines() if "in the cone" in it).split()[0].replace(",", ""))
    inside = search(row)
    d.check(f"the rows in the cone of row {row} are marked: {legend!r}", count in (inside, inside - 1) and count > 0 and "of the full space" in legend and stage(d) != before)
    d.shot("84_cone_in_layer")
    # The deepest of some rows has a path with further rows.
    deep = max(d.page.request.post(f"{d.url}/api/rows/list", data={"rows": list(range(min(total, 200)))}).json(), key=lambda it: it["depth"])["row"]
    d.go(f"#view=map&layer={layer}&select={deep}", ready=".marks")
    d.page.wait_for_function(marked)
    d.settle()
    walk = lambda cone: {it["hit"]["row"] for it in d.page.request.post(f"{d.url}/api/traverse", data={"from": {"row": deep}, "cone": cone}).json()["stops"] if it.get("hit")}
    by_cones, nearest = walk(True) - {deep}, walk(False) - {deep}
    words = "the nearest rows along its path to the root" if not by_cones else "line: its path to the root"
    d.check(f"the path of row {deep} through {len(by_cones or nearest)} other rows is in the legend", words in d.page.inner_text(".legend") and nearest)
    d.shot("84_path_in_layer")
    with d.page.expect_download() as saved:
        d.page.click("#save-svg")
    with open(saved.value.path(), encoding="utf-8") as file:
        d.check("the legend of a saved picture names the cone", "in the cone of the selected row" in file.read())
    d.page.keyboard.press("Escape")
    d.page.wait_for_function("() => !document.querySelector('.legend').textContent.includes('in the cone')")
    d.check("without a selected row there is no cone", "select=" not in d.state())


def links_of(d):
    """Row of the second set by row of the first."""
    body = d.page.request.get(f"{d.url}/api/map/links").body()
    length = struct.unpack("<Q", body[:8])[0]
    header = json.loads(body[8:8 + length])
    take = lambda name: struct.unpack_from(f"<{header['points']}I", body, 8 + length + header["arrays"][name]["offset"])
    return dict(zip(take("row"), take("beside")))


def second(d):
    return d.page.evaluate("it => ({ ...document.querySelector(it).dataset })", SECOND)


def two_sets(d):
    """Needs a server with --beside."""
    summary = layers_reply(d)["beside"]
    ours = links_of(d)
    theirs = {there: here for here, there in ours.items()}
    open_map(d)
    d.page.wait_for_function("it => document.querySelector(it)?.dataset.layer", arg=SECOND)
    d.settle()
    said = d.page.inner_text(".beside header")
    d.check(f"the second stage says what is shared: {said!r}", f"share {summary['shared_ids']:,} ids" in said and summary["title"] in said)
    d.shot("85_two_sets")
    d.page.evaluate("window.scrollTo(0, 0)")
    _, rows, x, y, _ = points(d)
    seen = linked_on_screen(d, FIRST, zip(rows, x, y), fitted(x, y), ours)
    px, py = seen[len(seen) // 2]
    d.page.mouse.move(px, py)
    d.page.wait_for_selector(".stages > .stage .tip:not([hidden])")
    d.page.wait_for_function("it => document.querySelector(it).dataset.hovered !== ''", arg=SECOND)
    d.page.mouse.click(px, py)
    d.page.wait_for_function("it => document.querySelector(it).dataset.selected !== ''", arg=SECOND)
    chosen = int(d.state().split("select=")[1].split("&")[0])
    d.check("a row selected on the first stage is marked on the second", int(second(d)["selected"]) == ours[chosen])
    d.shot("86_two_sets_selected")
    # The other way round.
    rows2, x2, y2 = points_of_second(d)
    there = linked_on_screen(d, SECOND, zip(rows2, x2, y2), fitted(x2, y2), theirs)
    px, py = there[len(there) // 3]
    d.page.mouse.move(px, py)
    d.page.wait_for_selector(".beside .tip:not([hidden])")
    hovered = int(second(d)["hovered"])
    d.page.mouse.click(px, py)
    d.page.wait_for_function("before => !location.hash.includes(before)", arg=f"select={chosen}")
    chosen = int(d.state().split("select=")[1].split("&")[0])
    d.check("a click on the second stage selects the linked row", chosen == theirs.get(hovered))
    d.settle()
    d.page.evaluate("window.scrollTo(0, 0)")
    d.page.click("#lasso")
    box = d.page.locator(SECOND).bounding_box()
    cx, cy = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    corners = [(cx - 0.3 * box["width"], cy - 0.3 * box["height"]), (cx + 0.3 * box["width"], cy - 0.3 * box["height"]),
               (cx + 0.3 * box["width"], cy + 0.3 * box["height"]), (cx - 0.3 * box["width"], cy + 0.3 * box["height"])]
    draw_outline(d, corners)
    d.page.wait_for_selector(".found .card")
    found = int(d.page.inner_text(".found h2").split()[0].replace(",", ""))
    scale = min(box["width"], box["height"]) / 2 - 14
    scale *= fitted(x2, y2)
    half = 0.3 * box["width"], 0.3 * box["height"]
    # Without the rows within two pixels of the outline.
    surely = [row for row, a, b in zip(rows2, x2, y2) if row in theirs and abs(scale * a) < half[0] - 2 and abs(scale * b) < half[1] - 2]
    maybe = [row for row, a, b in zip(rows2, x2, y2) if row in theirs and abs(scale * a) < half[0] + 2 and abs(scale * b) < half[1] + 2]
    d.check(f"a lasso on the second stage lists {found:,} linked rows", len(surely) <= found <= len(maybe) and found > 0)
    d.shot("87_two_sets_lasso")
    listed = d.page.eval_on_selector_all(".found .card", "it => it.map((c) => Number(c.dataset.rows))")
    d.check("these are rows of the first set", all(row in ours for row in listed))
    d.page.click("#found-clear")
    d.check("the list can be closed", d.page.locator(".found").is_hidden())


def linked_on_screen(d, stage, points, scale, linked):
    """Places on the screen of the linked points of a stage, at least 20 pixels inside of it."""
    box = d.page.locator(stage).bounding_box()
    cx, cy, radius = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, min(box["width"], box["height"]) / 2 - 14
    right, bottom = box["x"] + box["width"] - 20, min(d.page.viewport_size["height"], box["y"] + box["height"]) - 20
    places = [(cx + radius * scale * x, cy - radius * scale * y) for row, x, y in points if row in linked]
    return [it for it in places if box["x"] + 20 < it[0] < right and box["y"] + 20 < it[1] < bottom]


def points_of_second(d):
    body = d.page.request.get(f"{d.url}/api/map/points?beside=true").body()
    length = struct.unpack("<Q", body[:8])[0]
    header = json.loads(body[8:8 + length])
    take = lambda name, kind: struct.unpack_from(f"<{header['points']}{kind}", body, 8 + length + header["arrays"][name]["offset"])
    return take("row", "I"), take("x", "f"), take("y", "f")
