//! The files of the explorer web page, compiled into the binary.
//!
//! The sources are in `crates/server/web`. There is no build step, and the page loads nothing from other hosts.

/// A static file of the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asset {
    /// File name below `/assets/`; the page itself is `index.html`.
    pub(crate) name: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) content: &'static str,
}

/// All files of the explorer. A new file of the page in `crates/server/web` needs an entry here.
pub(crate) const ASSETS: &[Asset] = &[
    html("index.html", include_str!("../../web/index.html")),
    css("base.css", include_str!("../../web/base.css")),
    css("parts.css", include_str!("../../web/parts.css")),
    Asset { name: "icon.svg", media_type: "image/svg+xml", content: include_str!("../../web/icon.svg") },
    js("api.js", include_str!("../../web/api.js")),
    js("beside.js", include_str!("../../web/beside.js")),
    js("colours.js", include_str!("../../web/colours.js")),
    js("contours.js", include_str!("../../web/contours.js")),
    js("depth.js", include_str!("../../web/depth.js")),
    js("details.js", include_str!("../../web/details.js")),
    js("disc.js", include_str!("../../web/disc.js")),
    js("dom.js", include_str!("../../web/dom.js")),
    js("eye.js", include_str!("../../web/eye.js")),
    js("boxes.js", include_str!("../../web/boxes.js")),
    js("factors.js", include_str!("../../web/factors.js")),
    js("filters.js", include_str!("../../web/filters.js")),
    js("found.js", include_str!("../../web/found.js")),
    js("gallery.js", include_str!("../../web/gallery.js")),
    js("gate.js", include_str!("../../web/gate.js")),
    js("keys.js", include_str!("../../web/keys.js")),
    js("labels.js", include_str!("../../web/labels.js")),
    js("lasso.js", include_str!("../../web/lasso.js")),
    js("long.js", include_str!("../../web/long.js")),
    js("main.js", include_str!("../../web/main.js")),
    js("map.js", include_str!("../../web/map.js")),
    js("marks.js", include_str!("../../web/marks.js")),
    js("moving.js", include_str!("../../web/moving.js")),
    js("newlayer.js", include_str!("../../web/newlayer.js")),
    js("paint.js", include_str!("../../web/paint.js")),
    js("path.js", include_str!("../../web/path.js")),
    js("picture.js", include_str!("../../web/picture.js")),
    js("pointer.js", include_str!("../../web/pointer.js")),
    js("points.js", include_str!("../../web/points.js")),
    js("rows.js", include_str!("../../web/rows.js")),
    js("savedpage.js", include_str!("../../web/savedpage.js")),
    js("scene.js", include_str!("../../web/scene.js")),
    js("search.js", include_str!("../../web/search.js")),
    js("selection.js", include_str!("../../web/selection.js")),
    js("state.js", include_str!("../../web/state.js")),
    js("theme.js", include_str!("../../web/theme.js")),
    js("tip.js", include_str!("../../web/tip.js")),
    js("tree.js", include_str!("../../web/tree.js")),
    js("way.js", include_str!("../../web/way.js")),
    js("webgl.js", include_str!("../../web/webgl.js")),
];

pub(crate) fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|it| it.name == name)
}

const fn html(name: &'static str, content: &'static str) -> Asset {
    Asset { name, media_type: "text/html; charset=utf-8", content }
}

const fn css(name: &'static str, content: &'static str) -> Asset {
    Asset { name, media_type: "text/css; charset=utf-8", content }
}

const fn js(name: &'static str, content: &'static str) -> Asset {
    Asset { name, media_type: "text/javascript; charset=utf-8", content }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the text between each occurrence of `before` and the next quotation mark.
    fn after<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn page_uses_exactly_the_listed_assets() {
        let page = asset("index.html").unwrap().content;
        let mut wanted: BTreeSet<&str> = BTreeSet::from(["index.html"]);
        wanted.extend(after(page, "=\"/assets/"));
        for file in ASSETS.iter().filter(|it| it.name.ends_with(".js")) {
            wanted.extend(after(file.content, "from \"./"));
        }
        assert_eq!(wanted, ASSETS.iter().map(|it| it.name).collect());
    }

    /// The page must work offline and under the content security policy `default-src 'self'`.
    #[test]
    fn page_has_no_external_or_inline_code() {
        for file in ASSETS {
            let outside = file.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http://") && !outside.contains("https://"), "{}", file.name);
            assert!(!file.content.contains("innerHTML") && !file.content.contains("eval("), "{}", file.name);
            assert!(file.content.lines().count() < 600, "{}", file.name);
        }
        let page = asset("index.html").unwrap().content;
        for inline in ["<script>", "<style", " style=", " onclick=", " onload=", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }
}
