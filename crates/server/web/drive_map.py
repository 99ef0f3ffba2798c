"""Checks of the explorer's map: layers, lasso, depth range, labels, saved pictures and speed."""

import csv
import io
import json
import math
import os
import struct
import xml.dom.minidom as xml

PHONE = {"width": 390, "height": 780}


def marks(d):
    """What the map says about its last frame, hover and lasso."""
    return d.page.evaluate("({ ...document.querySelector('.marks').dataset })")


def stage(d):
    """The map as the bytes of a picture. A WebGL canvas cannot be read by the page after its frame."""
    d.page.wait_for_timeout(100)
    return d.page.locator(".stage").first.screenshot()


def open_map(d, more=""):
    d.go(f"#view=map{more}", ready=".marks")
    d.page.wait_for_function("() => document.querySelector('.marks')?.dataset.ms")
    d.settle()
    return marks(d)


def shows(d, layer):
    """Waits until the map shows a layer."""
    d.page.wait_for_function("name => document.querySelector('.marks')?.dataset.layer === name && !document.querySelector('.map .busy')", arg=layer)
    d.settle()


def middle_of(d):
    box = d.page.locator(".marks").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, min(box["width"], box["height"]) / 2 - 14


def points(d, layer="disc"):
    """The points of a layer and the zoom of `fit`, computed apart from the page's code: (row, x, y, depth), as the page places them."""
    body = d.page.request.get(f"{d.url}/api/map/points?layer={layer}").body()
    length = struct.unpack("<Q", body[:8])[0]
    header = json.loads(body[8:8 + length])
    count = header["points"]
    take = lambda name, kind: struct.unpack_from(f"<{count}{kind}", body, 8 + length + header["arrays"][name]["offset"])
    return header, take("row", "I"), take("x", "f"), take("y", "f"), take("depth", "f")


def fitted(x, y):
    step = math.ceil(len(x) / 100_000)  # the page reads at most 100,000 points, too
    far = sorted(math.hypot(a, b) for a, b in zip(x[::step], y[::step]))
    return min(60, max(1, 0.95 / far[min(len(far) - 1, int(0.995 * len(far)))]))


def disc(d):
    d.go("#q=t:a+red+car&view=map", ready=".marks")
    d.page.wait_for_function("() => document.querySelector('.marks')?.dataset.ms")
    d.settle()
    d.shot("14_map")
    # Compute the screen position of a row from the map of the server, as `fit` does.
    found = d.page.evaluate("""async () => {
        const { quantile } = await import("/assets/disc.js");
        const map = await (await fetch("/api/map?limit=100000")).json();
        const stage = document.querySelector(".marks").getBoundingClientRect();
        const far = quantile(map.x.map((x, i) => Math.hypot(x, map.y[i])), 0.995);
        const zoom = Math.min(60, Math.max(1, 0.95 / far)) * (Math.min(stage.width, stage.height) / 2 - 14);
        let best = 0, lone = -1;
        for (let i = 0; i < map.x.length; i += Math.ceil(map.x.length / 700)) {
            let near = Infinity;
            for (let j = 0; j < map.x.length; j++) if (j !== i) near = Math.min(near, Math.hypot(map.x[i] - map.x[j], map.y[i] - map.y[j]));
            if (Math.hypot(map.x[i], map.y[i]) * zoom < Math.min(stage.width, stage.height) / 2 - 30 && near > lone) [lone, best] = [near, i];
        }
        return { row: map.rows[best], rows: map.rows.length, x: stage.left + stage.width / 2 + zoom * map.x[best], y: stage.top + stage.height / 2 - zoom * map.y[best] };
    }""")
    d.page.mouse.move(found["x"], found["y"])
    d.page.wait_for_selector(".tip:not([hidden])")
    d.check("the row under the pointer is named", d.page.inner_text(".tip") != "")
    d.shot("15_hover")
    d.page.mouse.click(found["x"], found["y"])
    d.page.wait_for_selector("#details dl")
    d.check("a click on the map selects the row", f"select={found['row']}" in d.state())
    d.settle()
    d.shot("16_cone")
    d.page.get_by_label("Colour by").select_option("depth")
    d.shot("17_map_depth")
    box = d.page.locator(".stage").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    before = stage(d)
    d.page.mouse.move(*middle)
    d.page.mouse.wheel(0, -900)
    d.page.mouse.dblclick(middle[0] + 90, middle[1] + 60)
    d.page.wait_for_timeout(500)
    d.check("the wheel zooms", stage(d) != before)
    d.shot("18_map_zoom")
    return found["rows"]


def frames(d):
    """Measures frames while the map is dragged: the script time of a frame and the time between frames."""
    opened = open_map(d)
    box = d.page.locator(".stage").bounding_box()
    d.page.evaluate("""() => {
        window.times = { gaps: [], work: [] };
        let last = performance.now();
        const step = (now) => {
            if (!window.times) return;
            window.times.gaps.push(now - last);
            window.times.work.push(Number(document.querySelector(".marks").dataset.ms));
            last = now;
            requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
    }""")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    d.page.mouse.move(x, y)
    d.page.mouse.down()
    for i in range(180):
        d.page.mouse.move(x + 150 * (i % 60) / 60, y + 90 * (i % 45) / 45)
    d.page.mouse.up()
    times = d.page.evaluate("() => { const it = window.times; window.times = null; return it; }")
    middle = lambda values, share: sorted(values)[int(share * (len(values) - 1))]
    gaps, work = times["gaps"][2:], times["work"][2:]
    most = 4 if opened["renderer"] == "webgl" else 50
    print(f"    {d.page.inner_text('#status')} {opened['renderer']}; map while dragged: {len(gaps)} frames, interval median {middle(gaps, .5):.1f} ms, "
          f"95 % {middle(gaps, .95):.1f} ms; script median {middle(work, .5):.2f} ms, 95 % {middle(work, .95):.2f} ms; prepared in {opened['loadMs']} ms")
    d.check(f"the script of a frame of the map takes at most {most} ms (95 %)", middle(work, .95) <= most)
    # Hovering, over the whole stage.
    hovers = []
    for i in range(60):
        d.page.mouse.move(box["x"] + (i * 37 % 100) / 100 * box["width"], box["y"] + (i * 61 % 100) / 100 * box["height"])
        hovers.append(float(marks(d)["hoverMs"]))
    print(f"    hover: median {middle(hovers, .5):.2f} ms, maximum {max(hovers):.2f} ms")
    d.check("hovering takes at most 100 ms", max(hovers) <= 100)


def geometry(d):
    """Checks the arithmetic of the map in the browser against its mathematical properties."""
    d.go()
    wrong = d.page.evaluate("""async () => {
        const { cone, Grid, moveAll, moved } = await import("/assets/disc.js");
        const wrong = [];
        const close = (a, b, what) => Math.abs(a - b) < 1e-9 || wrong.push(`${what}: ${a} and ${b}`);
        const length = (p, q) => Math.acosh(1 + 2 * ((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2) / ((1 - p[0] ** 2 - p[1] ** 2) * (1 - q[0] ** 2 - q[1] ** 2)));
        let seed = 1;
        const random = () => { seed = seed * 48271 % 2147483647; return seed / 2147483647; };
        const point = () => { const [r, t] = [0.95 * Math.sqrt(random()), 7 * random()]; return [r * Math.cos(t), r * Math.sin(t)]; };
        for (let i = 0; i < 200; i++) {
            const [p, q, a] = [point(), point(), point()];
            close(length(moved(...p, ...a), moved(...q, ...a)), length(p, q), "the isometry keeps distances");
            close(Math.hypot(...moved(...a, ...a)), 0, "the isometry moves its point to the centre");
            const back = moved(...moved(...p, ...a), -a[0], -a[1]);
            close(back[0], p[0], "the isometry has an inverse");
            const outline = cone(...p, 0.4);
            const edge = outline[1].map((v, k) => v - p[k]);
            const turn = Math.abs(Math.atan2(p[0] * edge[1] - p[1] * edge[0], p[0] * edge[0] + p[1] * edge[1]));
            if (Math.abs(turn - 0.4) > 0.15) wrong.push(`a cone of 0.4 begins at ${turn}`);
        }
        const [x, y] = [0, 1].map((k) => Float64Array.from({ length: 3000 }, () => point()[k]));
        const [mx, my] = [new Float64Array(3000), new Float64Array(3000)];
        moveAll(x, y, 0.3, -0.2, mx, my);
        for (let i = 0; i < 3000; i += 97) close(mx[i], moved(x[i], y[i], 0.3, -0.2)[0], "moveAll equals moved");
        const grid = new Grid(x, y, 16);
        for (let i = 0; i < 300; i++) {
            const [px, py] = point();
            let best = -1, least = 0.03 ** 2;
            for (let j = 0; j < 3000; j++) { const far = (x[j] - px) ** 2 + (y[j] - py) ** 2; if (far <= least) [best, least] = [j, far]; }
            const found = grid.nearest(px, py, 0.03);
            if (found !== best) wrong.push(`nearest to ${px}, ${py}: ${found}, not ${best}`);
        }
        return wrong.slice(0, 3);
    }""")
    d.check(f"the geometry of the map holds {wrong or ''}", not wrong)


def layers(d):
    listed = d.page.request.get(f"{d.url}/api/map/layers").json()["layers"]
    d.check(f"the server lists {[it['name'] for it in listed]}", listed[0]["name"] == "disc" and listed[0]["disc"])
    open_map(d)
    d.check("the layers can be chosen if there are several", d.page.get_by_label("Layer").is_visible() == (len(listed) > 1))
    for layer in listed[1:]:
        before = stage(d)
        with d.page.expect_response(lambda it: "/api/map/points" in it.url) as got:
            d.page.get_by_label("Layer").select_option(layer["name"])
        shows(d, layer["name"])
        d.check(f"the layer {layer['name']} is shown: {d.page.inner_text('#status')}", got.value.ok and f"layer={layer['name']}" in d.state()
                and stage(d) != before and d.page.inner_text("#status").startswith(f"All {layer['rows']:,} rows"))
        d.shot(f"60_layer_{layer['name']}")
    if listed[1:]:
        d.page.go_back()
        shows(d, listed[-2]["name"])
        d.check("back returns to the previous layer", d.page.get_by_label("Layer").input_value() == listed[-2]["name"])
    open_map(d, "&layer=absent")
    d.check("an unknown layer in a link opens the disc", d.page.get_by_label("Layer").input_value() == "disc" or len(listed) == 1)
    columns = [it["name"] for it in d.page.request.get(f"{d.url}/api/info").json()["columns"] if it["distinct"] > 1]
    for column in columns[:3]:
        before = stage(d)
        with d.page.expect_response(lambda it: "only=codes" in it.url) as got:
            d.page.get_by_label("Colour by").select_option(f"column:{column}")
        d.settle()
        legend = d.page.inner_text(".legend")
        d.check(f"the points are coloured by {column}: {legend[:60]!r}", got.value.ok and legend != "" and stage(d) != before)
        d.shot(f"61_colour_{column}")
    before = stage(d)
    d.page.locator("#map-contours").check()
    d.check("the density is drawn", stage(d) != before and "contours=1" in d.state())
    d.shot("62_density")


def draw_outline(d, corners):
    d.page.mouse.move(*corners[0])
    d.page.mouse.down()
    for corner in corners[1:]:
        d.page.mouse.move(*corner)
    d.page.mouse.up()


def inside(corners, x, y):
    """Even-odd rule."""
    odd = False
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1]):
        if (ay > y) != (by > y) and x < ax + (y - ay) / (by - ay) * (bx - ax):
            odd = not odd
    return odd


def lasso(d):
    open_map(d)
    d.page.evaluate("window.scrollTo(0, 0)")
    _, rows, x, y, depth = points(d)
    cx, cy, radius = middle_of(d)
    scale = radius * fitted(x, y)
    corners = [(cx + radius * share * math.cos(turn), cy + radius * share * math.sin(turn))
               for turn, share in [(0.1, 0.15), (0.3, 0.95), (0.9, 1.0), (1.4, 0.9), (1.5, 0.2)]]
    d.page.click("#lasso")
    d.check("the lasso is armed", d.page.get_attribute("#lasso", "aria-pressed") == "true")
    with d.page.expect_response(lambda it: "/api/rows/list" in it.url) as got:
        draw_outline(d, corners)
    d.settle()
    # Points near the outline may fall on either side of a pixel.
    near = lambda px, py: min(math.hypot(px - ax - t * (bx - ax), py - ay - t * (by - ay)) for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1])
                              for t in [max(0, min(1, ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)))])
    surely, maybe = [], 0
    left, right, top, low = [f(c[k] for c in corners) for k, f in [(0, min), (0, max), (1, min), (1, max)]]
    for row, px, py, deep in zip(rows, (cx + scale * v for v in x), (cy - scale * v for v in y), depth):
        if not (left - 2 <= px <= right + 2 and top - 2 <= py <= low + 2):
            continue
        if near(px, py) <= 1.6:
            maybe += 1
        elif inside(corners, px, py):
            surely.append((deep, row))
    title = d.page.inner_text(".found h2")
    count = int(title.split()[0].replace(",", ""))
    d.check(f"the lasso finds the points inside: {title}, {len(surely)} surely and {maybe} at the outline", 0 < len(surely) <= count <= len(surely) + maybe)
    took = float(marks(d)["lassoMs"])
    print(f"    lasso of {count:,} of {len(rows):,} points: {took:.1f} ms")
    d.check("the lasso takes at most 100 ms", took <= 100)
    shown = d.page.eval_on_selector_all(".found .card", "it => it.map((c) => Number(c.dataset.rows))")
    depths = {row: deep for row, deep in zip(rows, depth)}
    listed = [depths[row] for row in shown]
    d.check(f"the list shows {len(shown)} rows, most general first", listed == sorted(listed) and len(shown) == min(60, count)
            and [it["row"] for it in got.value.json()] == shown)
    d.check("the lasso is put away", d.page.get_attribute("#lasso", "aria-pressed") == "false")
    d.shot("63_lasso", full=True)
    if count > 60:
        with d.page.expect_response(lambda it: "/api/rows/list" in it.url):
            d.page.locator(".found button.wide").click()
        d.settle()
        d.check("more rows can be shown", d.page.locator(".found .card").count() == min(120, count))
    with d.page.expect_download() as saved:
        d.page.click("#found-csv")
    with open(saved.value.path(), newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(io.StringIO(file.read())))
    d.check("all rows are exported as CSV", len(lines) == count and {row for _, row in surely} <= {int(it["row"]) for it in lines})
    d.page.click("#found-select")
    d.page.wait_for_selector("#selection:not([hidden])")
    d.check("the rows can be selected", f"{min(count, 1000)} selected" in d.page.inner_text("#selection"))
    d.page.click("#select-none")
    d.page.click("#found-clear")
    d.check("the list can be closed", d.page.locator(".found").is_hidden())
    d.page.click("#in-view")
    d.page.wait_for_selector(".found .card")
    took = float(marks(d)["lassoMs"])
    print(f"    list of all points in view: {d.page.inner_text('.found h2')}, {took:.1f} ms")
    d.check("listing all points in view takes at most 100 ms", took <= 100)
    d.page.click("#found-clear")
    # In a moved disc the same pixels show other points.
    d.page.evaluate("window.scrollTo(0, 0)")
    d.page.mouse.dblclick(cx + radius * 0.5, cy + radius * 0.2)
    d.page.wait_for_timeout(600)
    d.page.click("#lasso")
    d.page.evaluate("window.scrollTo(0, 0)")
    cx, cy, radius = middle_of(d)
    with d.page.expect_response(lambda it: "/api/rows/list" in it.url):
        draw_outline(d, [(cx + 0.6 * radius * math.cos(t / 3), cy + 0.6 * radius * math.sin(t / 3)) for t in range(19)])
    d.settle()
    d.check(f"the lasso works in a moved disc: {d.page.inner_text('.found h2')}", not d.page.inner_text(".found h2").startswith("0"))
    d.shot("64_lasso_moved")


def depth_range(d):
    info = d.page.request.get(f"{d.url}/api/info").json()
    low, high = info["depth"]["deciles"][3], info["depth"]["deciles"][7]
    open_map(d)
    _, rows, _, _, depth = points(d)
    before = stage(d)
    slider = d.page.locator(".deep input")
    set_to = lambda at, value: slider.nth(at).evaluate("(it, value) => { it.value = value; it.dispatchEvent(new Event('input', { bubbles: true })); }", value)
    set_to(0, low)
    set_to(1, high)
    d.page.wait_for_function("() => location.hash.includes('depth=')")
    d.settle()
    a, b = [float(slider.nth(at).evaluate("it => it.value")) for at in [0, 1]]
    inside = sum(a <= it <= b for it in depth)
    said = d.page.inner_text("#status")
    count = int(said.split(";")[1].split()[0].replace(",", ""))
    d.check(f"the depth range hides points: {said}", count == inside and 0 < count < len(rows) and stage(d) != before)
    bar = d.page.locator(".filters .slider.two output").first.inner_text()
    d.check(f"the side bar has the same range: {bar}", bar == d.page.locator(".deep output").inner_text())
    d.shot("65_depth_range")
    d.page.click("#in-view")
    d.page.wait_for_selector(".found .card")
    found = int(d.page.inner_text(".found h2").split()[0].replace(",", ""))
    d.check("hidden points are not listed", found <= count)
    # A drag draws every step at once.
    spent = d.page.evaluate("""async () => {
        const input = document.querySelector(".deep input");
        const times = [];
        for (let i = 0; i < 40; i++) {
            input.value = Number(input.min) + (input.max - input.min) * i / 100;
            const begun = performance.now();
            input.dispatchEvent(new Event("input", { bubbles: true }));
            times.push(performance.now() - begun);
            await new Promise(requestAnimationFrame);
        }
        return times.sort((a, b) => a - b);
    }""")
    print(f"    a step of the depth slider: median {spent[20]:.2f} ms, maximum {spent[-1]:.2f} ms")
    d.check("a step of the depth slider takes at most 100 ms", spent[-1] <= 100)


def labels(d):
    open_map(d)
    words = d.page.request.get(f"{d.url}/api/map/labels").json()["labels"]
    d.check(f"the map has {len(words)} words", len(words) > 0)
    # The words on the stage, by the page's own code, at three zooms at the place of the last and most specific word.
    seen = d.page.evaluate("""async () => {
        const { Eye } = await import("/assets/eye.js");
        const { placeLabels, withDistances } = await import("/assets/labels.js");
        const { textMeasure } = await import("/assets/marks.js");
        const { labels } = await (await fetch("/api/map/labels")).json();
        const [prepared, measure] = [withDistances(labels), textMeasure()];
        const target = labels.filter((it) => it.level === Math.max(...labels.map((one) => one.level)))[0];
        const out = [];
        for (const zoom of [1, 8, 64]) {
            const eye = new Eye();
            eye.resize(1000, 700, 1);
            eye.zoomBy(zoom);
            const [x, y] = eye.screen(target.x, target.y);
            eye.pan(500 - x, 350 - y);
            const begun = performance.now();
            const shown = placeLabels(prepared, eye, [-1e30, 1e30], measure);
            const clash = shown.some((a, i) => shown.some((b, j) => j > i && Math.abs(a.x - b.x) < a.half + b.half && Math.abs(a.y - b.y) < (a.size + b.size) / 2));
            out.push({ zoom, ms: performance.now() - begun, count: shown.length, clash, level: shown.reduce((sum, it) => sum + it.label.level, 0) / Math.max(1, shown.length), words: shown.map((it) => it.label.short) });
        }
        return { out, target: target.text };
    }""")
    for it in seen["out"]:
        print(f"    zoom {it['zoom']}: {it['count']} words of mean level {it['level']:.1f} in {it['ms']:.1f} ms: {', '.join(it['words'][:6])}")
    d.check("no words overlap", not any(it["clash"] for it in seen["out"]))
    if len({it["level"] for it in words}) > 1:
        d.check("far words are more general than near ones", seen["out"][0]["level"] < seen["out"][-1]["level"])
    before = stage(d)
    d.page.locator("#map-labels").uncheck()
    d.check("the words can be hidden", stage(d) != before and "labels=0" in d.state())
    d.page.locator("#map-labels").check()
    cx, cy, radius = middle_of(d)
    d.page.mouse.move(cx + radius * 0.75, cy)
    for _ in range(6):
        d.page.mouse.wheel(0, -300)
        d.page.wait_for_timeout(60)
    d.shot("66_words_near")


def pictures(d):
    open_map(d, "&contours=1&select=0")
    with d.page.expect_download() as saved:
        d.page.click("#save-png")
    with open(saved.value.path(), "rb") as file:
        head = file.read(24)
    box = d.page.locator(".stage").evaluate("it => [it.clientWidth, it.clientHeight]")
    size = struct.unpack(">II", head[16:24])
    d.check(f"the map is saved as PNG of {size}", saved.value.suggested_filename == "map.png" and head[:8] == b"\x89PNG\r\n\x1a\n"
            and abs(size[0] - 2 * box[0]) <= 2 and abs(size[1] - 2 * (box[1] + 40)) <= 2)
    if d.shots:
        saved.value.save_as(os.path.join(d.shots, "67_saved.png"))
    with d.page.expect_download() as saved:
        d.page.click("#save-svg")
    with open(saved.value.path(), encoding="utf-8") as file:
        text = file.read()
    document = xml.parseString(text)
    names = {it.tagName for it in document.getElementsByTagName("*")}
    d.check(f"the map is saved as SVG of {len(text):,} bytes with {sorted(names)}", document.documentElement.tagName == "svg" and {"path", "circle", "text"} <= names)
    if d.shots:
        with open(os.path.join(d.shots, "68_saved.svg"), "w", encoding="utf-8") as file:
            file.write(text)
        page = d.page.context.new_page()
        page.goto(f"file://{os.path.abspath(os.path.join(d.shots, '68_saved.svg'))}")
        page.screenshot(path=os.path.join(d.shots, "68_saved_svg.png"))
        page.close()
    before = stage(d)
    d.page.click("#save-png")
    d.check("saving does not change the map", stage(d) == before)


def on_a_phone(d, browser):
    for theme in ["light", "dark"]:
        phone = browser.new_context(viewport=PHONE, device_scale_factor=2, has_touch=True, color_scheme=theme)
        s = type(d)(phone.new_page(), d.url, d.shots, d.web)
        open_map(s)
        s.check(f"the map fits on a phone ({theme})", s.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])
        s.shot(f"69_phone_{theme}")
        s.page.locator("#lasso").tap()
        s.page.locator(".stage").scroll_into_view_if_needed()
        cx, cy, radius = middle_of(s)
        corners = [(cx + radius * math.cos(t / 3), cy + 0.9 * radius * math.sin(t / 3)) for t in range(19)]
        with s.page.expect_response(lambda it: "/api/rows/list" in it.url):
            touch(s.page, corners)
        s.settle()
        s.check(f"a finger draws an outline ({theme}): {s.page.inner_text('.found h2')}", s.page.locator(".found .card").count() > 0)
        s.check(f"the list fits on a phone ({theme})", s.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])
        s.shot(f"70_phone_{theme}_lasso", full=True)
        d.problems += s.problems
        phone.close()


def touch(page, corners):
    """One finger along the corners, as the browser receives it from a screen."""
    screen = page.context.new_cdp_session(page)
    send = lambda kind, places: screen.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in places]})
    send("touchStart", corners[:1])
    for corner in corners[1:]:
        send("touchMove", [corner])
    send("touchEnd", [])


def without_webgl(d, launch):
    """The same map in a browser that has no WebGL."""
    browser = launch("--disable-gpu", "--disable-3d-apis")
    s = type(d)(browser.new_context(viewport={"width": 1360, "height": 860}, color_scheme="light").new_page(), d.url, d.shots, d.web)
    opened = open_map(s, "&contours=1")
    s.check(f"without WebGL the map is drawn in 2D: {s.page.inner_text('#status')}", opened["renderer"] == "2d")
    s.shot("71_without_webgl")
    before = stage(s)
    cx, cy, radius = middle_of(s)
    s.page.mouse.dblclick(cx + radius * 0.5, cy)
    s.page.wait_for_timeout(600)
    s.check("it moves", stage(s) != before)
    frames(s)
    with s.page.expect_download():
        s.page.click("#save-png")
    d.problems += s.problems
    browser.close()
