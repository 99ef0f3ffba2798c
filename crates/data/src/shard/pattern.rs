//! Expands a pattern to a list of shard files.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// Maximum number of files of a pattern, so that a mistyped range cannot exhaust memory.
const MAX_FILES: usize = 1_000_000;

/// Expands a pattern to files.
///
/// * A folder: its `*.tar` files, sorted by name.
/// * `{000..010}`: numbers, zero-padded to the width of the first number. `{a,b}`: alternatives. The order is as
///   written, and a missing file is an error.
/// * `*` and `?` in any component: the existing names that match, sorted.
///
/// # Errors
/// The pattern is malformed, a file is missing, or no file matches.
pub fn expand(pattern: &Path) -> Result<Vec<PathBuf>> {
    let bad = |found: &str, expected: &str| {
        let place = format!("shards `{}`", pattern.display());
        Err(Error::format(place, found, expected))
    };
    let Some(text) = pattern.to_str() else {
        return bad("a name that is not UTF-8", "a pattern in UTF-8");
    };
    // An existing file takes precedence, even if its name contains braces or stars.
    if pattern.is_file() {
        return Ok(vec![pattern.to_owned()]);
    }
    if pattern.is_dir() {
        let files = glob(&pattern.join("*.tar"))?;
        return if files.is_empty() { bad("a folder without `*.tar`", "at least one shard") } else { Ok(files) };
    }
    let mut files = Vec::new();
    let alternatives = match braces(text) {
        Ok(alternatives) => alternatives,
        Err(expected) => return bad("a pattern that cannot be read", &expected),
    };
    for one in alternatives {
        if one.contains(['*', '?']) {
            files.extend(glob(Path::new(&one))?);
        } else {
            let path = PathBuf::from(one);
            fs::metadata(&path).map_err(Error::io("open shard", &path))?;
            files.push(path);
        }
    }
    if files.is_empty() {
        return bad("no matching file", "at least one shard");
    }
    Ok(files)
}

/// Expands the first group of braces, then the rest recursively.
fn braces(text: &str) -> Result<Vec<String>, String> {
    let Some(open) = text.find('{') else {
        return match text.find('}') {
            None => Ok(vec![text.to_owned()]),
            Some(_) => Err("a `{` before `}`".to_owned()),
        };
    };
    let close = text[open..].find('}').map(|at| open + at).ok_or("a `}` after `{`")?;
    let (head, inner, tail) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
    let choices: Vec<String> = match inner.split_once("..") {
        Some((first, last)) => range(first, last)?,
        None => inner.split(',').map(str::to_owned).collect(),
    };
    let tails = braces(tail)?;
    if choices.len().saturating_mul(tails.len()) > MAX_FILES {
        return Err(format!("at most {MAX_FILES} files"));
    }
    Ok(choices.iter().flat_map(|choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}"))).collect())
}

fn range(first: &str, last: &str) -> Result<Vec<String>, String> {
    let expected = || format!("numbers in `{{{first}..{last}}}`, the smaller one first");
    let number = |s: &str| s.parse::<u64>().map_err(|_| expected());
    let (from, to) = (number(first)?, number(last)?);
    if from > to {
        return Err(expected());
    }
    if to - from >= MAX_FILES as u64 {
        return Err(format!("at most {MAX_FILES} files"));
    }
    let width = first.len();
    Ok((from..=to).map(|n| format!("{n:0width$}")).collect())
}

/// The matching paths, sorted. A missing folder matches nothing.
pub(super) fn glob(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let wild = match component {
            Component::Normal(name) => {
                name.to_str().filter(|name| name.contains(['*', '?'])).map(|name| name.chars().collect::<Vec<_>>())
            }
            _ => None,
        };
        let Some(wild) = wild else {
            for path in &mut found {
                path.push(component);
            }
            continue;
        };
        let mut next = Vec::new();
        for folder in &found {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let Ok(entries) = fs::read_dir(folder) else {
                continue;
            };
            for entry in entries {
                let name = entry.map_err(Error::io("list", folder))?.file_name();
                let text: Vec<_> = name.to_string_lossy().chars().collect();
                // As in a shell, wildcards do not match a leading dot.
                if matches(&wild, &text) && (wild[0] == '.' || text[0] != '.') {
                    next.push(folder.join(name));
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

/// Wildcard match: `*` matches any run of characters, and `?` matches any single character. Backtracks only to the last
/// star, so there is no exponential worst case.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, from)) = star {
            (p, t) = (at + 1, from + 1);
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn braces_expand_in_the_order_written() {
        assert_eq!(braces("a.tar").unwrap(), ["a.tar"]);
        assert_eq!(braces("{08..10}.tar").unwrap(), ["08.tar", "09.tar", "10.tar"]);
        assert_eq!(braces("{b,a}-{0..1}").unwrap(), ["b-0", "b-1", "a-0", "a-1"]);
        assert_eq!(braces("{998..1001}").unwrap(), ["998", "999", "1000", "1001"]);
        for bad in ["{0..x}", "{5..2}", "a{b", "a}b", "{0..99999999}"] {
            assert!(braces(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        let matches = |p: &str, t: &str| super::matches(&p.chars().collect::<Vec<_>>(), &t.chars().collect::<Vec<_>>());
        assert!(matches("*.tar", "0.tar") && matches("a*b*c", "aXbYbZc") && matches("??", "ab"));
        assert!(matches("*", "") && matches("a**", "a"));
        assert!(!matches("*.tar", "0.tar.gz") && !matches("?", "") && !matches("a*b", "aXc"));
    }

    #[test]
    fn files_of_a_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["x/2.tar", "x/0.tar", "x/1.txt", "y/0.tar", "x/.5.tar", "z/a{0,1}.tar"] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let expand = |pattern: &str| {
            super::expand(&root.join(pattern)).map(|files| {
                files.into_iter().map(|f| f.strip_prefix(root).unwrap().display().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(expand("x").unwrap(), ["x/0.tar", "x/2.tar"]);
        assert_eq!(expand("*/?.tar").unwrap(), ["x/0.tar", "x/2.tar", "y/0.tar"]);
        assert_eq!(expand("{y,x}/0.tar").unwrap(), ["y/0.tar", "x/0.tar"]);
        assert_eq!(expand("x/2.tar").unwrap(), ["x/2.tar"]);
        assert_eq!(expand("z/a{0,1}.tar").unwrap(), ["z/a{0,1}.tar"]);

        let message = |pattern: &str| expand(pattern).unwrap_err().to_string();
        assert!(message("x/{0..2}.tar").contains("cannot open shard `"));
        assert!(message("none/*.tar").ends_with("no matching file; expected at least one shard"));
        assert!(message("z/{0..b}").ends_with("expected numbers in `{0..b}`, the smaller one first"));
        fs::create_dir(root.join("empty")).unwrap();
        assert!(message("empty").ends_with("a folder without `*.tar`; expected at least one shard"));
    }
}
