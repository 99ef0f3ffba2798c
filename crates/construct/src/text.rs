//! Splits a text into words and punctuation, and joins them again.

/// The words and punctuation marks of a text, in order. Hyphens, apostrophes, `.`, `&` and `/` inside a word belong to
/// it. A possessive `'s` is a separate word.
pub fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for piece in text.split_whitespace() {
        split_piece(piece, &mut parts);
    }
    parts
}

/// Number of words, without punctuation.
pub fn word_count(text: &str) -> usize {
    split(text).iter().filter(|part| is_word(part)).count()
}

/// True if a part of [`split`] is a word and not punctuation.
pub fn is_word(part: &str) -> bool {
    part.chars().any(char::is_alphanumeric)
}

/// Joins words and punctuation with the usual spaces.
pub fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut opened = true;
    for part in parts {
        let closes = matches!(part, "." | "," | ";" | ":" | "!" | "?" | ")" | "]" | "'s" | "\u{2019}s" | "%");
        if !opened && !closes {
            text.push(' ');
        }
        text.push_str(part);
        opened = matches!(part, "(" | "[" | "$" | "#");
    }
    text
}

fn split_piece<'a>(piece: &'a str, parts: &mut Vec<&'a str>) {
    let mut rest = piece;
    while let Some(first) = rest.chars().next() {
        let end = match first.is_alphanumeric() {
            true => word_end(rest),
            // A possessive that some captions write as a separate word: "child 's".
            false if is_possessive(rest) => rest.len(),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        match possessive_start(word) {
            Some(at) => parts.extend([&word[..at], &word[at..]]),
            None => parts.push(word),
        }
        rest = after;
    }
}

/// Byte length of the word at the start of a text.
fn word_end(text: &str) -> usize {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let inner = matches!(c, '-' | '\'' | '\u{2019}' | '.' | '&' | '/')
            && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if !c.is_alphanumeric() && !inner {
            break;
        }
        end = at + c.len_utf8();
    }
    end
}

fn is_possessive(text: &str) -> bool {
    matches!(text, "'s" | "\u{2019}s")
}

fn possessive_start(word: &str) -> Option<usize> {
    let at = word.rfind(['\'', '\u{2019}'])?;
    (at > 0 && is_possessive(&word[at..])).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_punctuation_are_separated() {
        assert_eq!(split("A man's t-shirt, (blue)."), ["A", "man", "'s", "t-shirt", ",", "(", "blue", ")", "."]);
        assert_eq!(split("the child 's U.S. flag!"), ["the", "child", "'s", "U.S", ".", "flag", "!"]);
        assert_eq!(split(" \t\u{2014} "), ["\u{2014}"]);
        assert_eq!(word_count("A dog , runs ."), 3);
    }

    #[test]
    fn join_is_the_inverse_of_split() {
        for text in ["A man's t-shirt, (blue).", "dogs: two, running!", "a $5 bill"] {
            assert_eq!(join(split(text)), text);
        }
    }
}
