"""Checks of the explorer's map: layers that the server computes"""

from drive_map import open_map, shows


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
