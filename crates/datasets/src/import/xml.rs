//! A reader of small XML annotation files: elements, text, comments and the five predefined entities. Attributes are
//! skipped. Anything else (document types, CDATA, other entities) is an error, because annotation files have none.

/// An element with its text and its children, in the order of the file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct XmlElement {
    pub(super) name: String,
    /// The text between the children, joined.
    text: String,
    children: Vec<XmlElement>,
}

/// Deeper elements are an error, so that a hostile file cannot exhaust the stack when the tree is dropped.
const MAX_DEPTH: usize = 32;

impl XmlElement {
    /// Parses a document with one root element. The error contains the fault and its byte offset.
    pub(super) fn parse(document: &str) -> Result<Self, String> {
        let document = document.trim_start_matches('\u{feff}');
        // `open`: the elements that are not closed yet, the root first. `root`: the root element, once it is closed.
        let (mut open, mut root): (Vec<Self>, Option<Self>) = (Vec::new(), None);
        let mut rest = document;
        while !rest.is_empty() {
            let at = document.len() - rest.len();
            let fault = |what: String| Err(format!("{what} at byte {at}"));
            let Some(markup) = rest.strip_prefix('<') else {
                let end = rest.find('<').unwrap_or(rest.len());
                match open.last_mut() {
                    Some(element) => {
                        element.text += &unescaped(&rest[..end]).map_err(|it| format!("{it} at byte {at}"))?
                    }
                    None if rest[..end].trim().is_empty() => {}
                    None => return fault("text outside of the root element".to_owned()),
                }
                rest = &rest[end..];
                continue;
            };
            if let Some(comment) = markup.strip_prefix("!--") {
                let Some(end) = comment.find("-->") else { return fault("a comment without its end".to_owned()) };
                rest = &comment[end + 3..];
                continue;
            }
            let Some((tag, after)) = markup.split_once('>') else { return fault("a tag without `>`".to_owned()) };
            rest = after;
            if tag.starts_with('?') && tag.ends_with('?') {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                let name = name.trim_end();
                let Some(closed) = open.pop_if(|it| it.name == name) else {
                    let expected = open.last().map_or("no end tag".to_owned(), |it| format!("`</{}>`", it.name));
                    return fault(format!("`</{name}>`, expected {expected},"));
                };
                place(closed, &mut open, &mut root);
                continue;
            }
            let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let name = tag.split_ascii_whitespace().next().unwrap_or_default();
            let is_name = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
            if tag.starts_with(|c: char| !is_name(c)) || name.is_empty() || !name.chars().all(is_name) {
                return fault(format!("unsupported tag `<{}>`", tag.chars().take(40).collect::<String>()));
            }
            if open.is_empty() && root.is_some() {
                return fault(format!("a second root element `{name}`"));
            }
            if open.len() == MAX_DEPTH {
                return fault(format!("more than {MAX_DEPTH} nested elements"));
            }
            let element = Self { name: name.to_owned(), ..Self::default() };
            if is_empty {
                place(element, &mut open, &mut root);
            } else {
                open.push(element);
            }
        }
        match open.last() {
            Some(element) => Err(format!("`<{}>` is not closed", element.name)),
            None => root.ok_or_else(|| "no element".to_owned()),
        }
    }

    /// The children with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |it| it.name == name)
    }

    /// The only child with this name. The error contains the name.
    pub(super) fn one<'a>(&'a self, name: &'a str) -> Result<&'a Self, String> {
        let mut children = self.all(name);
        match (children.next(), children.next()) {
            (Some(child), None) => Ok(child),
            (None, _) => Err(format!("no <{name}> in <{}>", self.name)),
            _ => Err(format!("several <{name}> in <{}>", self.name)),
        }
    }

    /// The text without surrounding white space.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The finite number in the only child with this name.
    pub(super) fn number(&self, name: &str) -> Result<f32, String> {
        let text = self.one(name)?.text();
        text.parse::<f32>()
            .ok()
            .filter(|it| it.is_finite())
            .ok_or_else(|| format!("<{name}> is {text:?}, not a number"))
    }
}

fn place(closed: XmlElement, open: &mut [XmlElement], root: &mut Option<XmlElement>) {
    match open.last_mut() {
        Some(parent) => parent.children.push(closed),
        None => *root = Some(closed),
    }
}

/// Replaces the predefined entities.
fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        let (name, after) = after.split_once(';').ok_or("an entity without `;`")?;
        plain += before;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => return Err(format!("unsupported entity `&{};`", name.chars().take(20).collect::<String>())),
        });
        rest = after;
    }
    Ok(plain + rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn elements_text_and_entities() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<!-- <x> -->\n<a b=\"1\">\n <n>1.5</n><e/>\
                    <t> R&amp;B &lt;<!-- no -->3 </t><n> x </n></a>\n";
        let root = XmlElement::parse(text).unwrap();
        assert_eq!((root.name.as_str(), root.children.len()), ("a", 4));
        assert_eq!((root.one("t").unwrap().text(), root.one("e").unwrap().text()), ("R&B <3", ""));
        assert_eq!(root.all("n").map(XmlElement::text).collect::<Vec<_>>(), ["1.5", "x"]);
        assert_eq!(root.one("n").unwrap_err(), "several <n> in <a>");
        assert_eq!(root.one("z").unwrap_err(), "no <z> in <a>");
        assert_eq!(root.number("t").unwrap_err(), "<t> is \"R&B <3\", not a number");
    }

    #[test]
    fn malformed_documents() {
        for (document, error) in [
            ("", "no element"),
            ("<a>", "`<a>` is not closed"),
            ("<a></b>", "`</b>`, expected `</a>`, at byte 3"),
            ("</a>", "`</a>`, expected no end tag, at byte 0"),
            ("<a/><b/>", "a second root element `b` at byte 4"),
            ("x<a/>", "text outside of the root element at byte 0"),
            ("<a", "a tag without `>` at byte 0"),
            ("<a><!-- </a>", "a comment without its end at byte 3"),
            ("<!DOCTYPE a><a/>", "unsupported tag `<!DOCTYPE a>` at byte 0"),
            ("<a>&x;</a>", "unsupported entity `&x;` at byte 3"),
            ("<a>&amp</a>", "an entity without `;` at byte 3"),
            ("<>", "unsupported tag `<>` at byte 0"),
        ] {
            assert_eq!(XmlElement::parse(document).unwrap_err(), error, "{document}");
        }
        let deep = format!("{}{}", "<a>".repeat(33), "</a>".repeat(33));
        assert_eq!(XmlElement::parse(&deep).unwrap_err(), "more than 32 nested elements at byte 96");
        assert!(XmlElement::parse(&format!("{}{}", "<a>".repeat(32), "</a>".repeat(32))).is_ok());
    }
}
