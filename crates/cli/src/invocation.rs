//! How the user called this program, so that suggested commands can be copied and run.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use clap::CommandFactory as _;

use crate::arguments::Cli;

/// The first word of the command line. It is not always that of the process, which may be a Python interpreter.
static PROGRAM: OnceLock<OsString> = OnceLock::new();

/// Sets the word by which the program was called; later calls have no effect.
pub(crate) fn set_program(word: &OsStr) {
    _ = PROGRAM.set(word.to_owned());
}

/// The program name for suggested commands: the path it was called by if that contains a slash, else `conifer`.
pub(crate) fn program() -> String {
    called_as(PROGRAM.get().map(OsString::as_os_str))
}

/// Replaces `conifer` by [`program`] wherever a subcommand follows. The library crates write `conifer embed` because
/// they do not know the path of the program.
pub(crate) fn with_program(text: &str) -> String {
    match program() {
        program if program == NAME => text.to_owned(),
        program => replace_commands(text, &program),
    }
}

const NAME: &str = "conifer";

fn called_as(first: Option<&OsStr>) -> String {
    match first.map(OsStr::to_string_lossy) {
        Some(path) if path.contains('/') => quoted(&path),
        _ => NAME.to_owned(),
    }
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn replace_commands(text: &str, program: &str) -> String {
    let cli = Cli::command();
    let verbs: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(NAME) {
        let (before, after) = (&rest[..at], &rest[at + NAME.len()..]);
        let starts = before.chars().next_back().or(out.chars().next_back()).is_none_or(|c| " `\n(\"".contains(c));
        let verb = after.strip_prefix(' ').and_then(|it| it.split(|c: char| !c.is_ascii_lowercase()).next());
        out.push_str(before);
        out.push_str(if starts && verb.is_some_and(|verb| verbs.contains(&verb)) { program } else { NAME });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_keeps_a_path_but_not_a_bare_name() {
        assert_eq!(called_as(Some(OsStr::new("./target/release/conifer"))), "./target/release/conifer");
        assert_eq!(called_as(Some(OsStr::new("/my programs/conifer"))), "'/my programs/conifer'");
        assert_eq!(called_as(Some(OsStr::new("conifer"))), "conifer");
        assert_eq!(called_as(None), "conifer");
    }

    #[test]
    fn only_commands_are_replaced() {
        let replaced = |text: &str| replace_commands(text, "./bin/conifer");
        assert_eq!(replaced("go on: conifer train --resume runs/a"), "go on: ./bin/conifer train --resume runs/a");
        assert_eq!(replaced("`conifer data list`, conifer search"), "`./bin/conifer data list`, ./bin/conifer search");
        for text in ["another conifer run is writing", "data/conifer search.txt", "conifer", "a conifer\nserve"] {
            assert_eq!(replaced(text), text);
        }
    }
}
