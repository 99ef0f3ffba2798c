//! Earlier spellings of commands, which still work.

use std::ffi::OsString;

use crate::invocation::quoted;

/// The command line in today's spelling, and a note if it was an earlier one: `eval MODEL ...`,
/// `eval MODEL --suite NAME ...` and `eval --compare A B` are now `eval run`, `eval suite` and `eval compare`.
pub(crate) fn translate(words: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let Some(eval) = command_at(&words).filter(|&at| words[at] == "eval") else { return (words, None) };
    let (before, after) = words.split_at(eval + 1);
    match after.first().and_then(|word| word.to_str()) {
        None | Some("run" | "suite" | "compare" | "help" | "-h" | "--help") => return (words, None),
        Some(_) => {}
    }
    let mut rest = after.to_vec();
    let option = |rest: &[OsString], name: &str| {
        rest.iter().position(|word| word.to_str().is_some_and(|it| it == name || it.starts_with(&format!("{name}="))))
    };
    let verb = if let Some(at) = option(&rest, "--compare") {
        rest.remove(at);
        "compare"
    } else if let Some(at) = option(&rest, "--suite") {
        let word = rest.remove(at);
        match word.to_str().and_then(|it| it.split_once('=')) {
            Some((_, name)) => rest.push(name.into()),
            None if at < rest.len() => {
                let name = rest.remove(at);
                rest.push(name);
            }
            None => {}
        }
        "suite"
    } else {
        "run"
    };
    let shown: Vec<_> = rest.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let note = format!("this command is now: conifer eval {verb} {}", shown.join(" "));
    (before.iter().cloned().chain([verb.into()]).chain(rest).collect(), Some(note))
}

/// Position of the command: the first word after the program and the global options.
fn command_at(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at)?.to_str() {
        match word {
            "--device" => at += 2,
            _ if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn translated(line: &str) -> (String, bool) {
        let (words, note) = translate(line.split(' ').map(OsString::from).collect());
        let words: Vec<_> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        (words.join(" "), note.is_some())
    }

    #[test]
    fn earlier_spellings_of_eval_are_translated() {
        for (old, new) in [
            ("conifer eval m --data d --benchmark b", "conifer eval run m --data d --benchmark b"),
            ("conifer eval --data d m", "conifer eval run --data d m"),
            ("conifer --json --device cpu eval m", "conifer --json --device cpu eval run m"),
            ("conifer eval m --suite s --root r", "conifer eval suite m --root r s"),
            ("conifer eval --suite=s m --root r", "conifer eval suite m --root r s"),
            ("conifer eval m --suite", "conifer eval suite m"),
            ("conifer eval --compare a b --seed 1", "conifer eval compare a b --seed 1"),
        ] {
            assert_eq!(translated(old), (new.to_owned(), true), "{old}");
        }
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in [
            "conifer",
            "conifer eval",
            "conifer eval --help",
            "conifer eval run m --data d",
            "conifer eval suite m s --root r",
            "conifer search eval --suite s",
            "conifer --device",
        ] {
            assert_eq!(translated(line), (line.to_owned(), false), "{line}");
        }
    }
}
