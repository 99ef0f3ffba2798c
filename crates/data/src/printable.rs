//! Escapes text for output on terminals. Ids, captions and file names come from untrusted files, and a terminal
//! executes control sequences in them: they change colours and titles, move the cursor, or hide earlier text.

use std::borrow::Cow;

/// Replaces control characters with escapes such as `\u{1b}` and `\n`. The result is always a single line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, acts_on_terminal)
}

/// Like [`one_line`], but does not escape line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts_on_terminal(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escape) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if escape(c) { c.escape_default().collect() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Control characters, line separators, and characters that change the text direction, which can make a name look like
/// another.
fn acts_on_terminal(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_characters_are_escaped() {
        assert_eq!(one_line("\u{1b}[31mred\n\u{9b}2J\tx\u{7f}"), "\\u{1b}[31mred\\n\\u{9b}2J\\tx\\u{7f}");
        assert_eq!(lines("a\n\tb\u{1b}\rc"), "a\n\tb\\u{1b}\\rc");
        assert_eq!(one_line("exe\u{202e}gpj"), "exe\\u{202e}gpj");
        let plain = "\u{e4}\u{2603} \\n \"a\" \u{5d0}\u{200d}";
        assert!(matches!(one_line(plain), Cow::Borrowed(it) if it == plain));
    }
}
