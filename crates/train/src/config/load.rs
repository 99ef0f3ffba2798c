//! Loads a [`Config`] from files and command-line overrides.

use std::fs;
use std::path::{Path, PathBuf};

use conifer_data::SourceSpec;
use conifer_data::sources::shows_in_path;
use conifer_model::checkpoint::run_folder::{CONFIG, latest_checkpoint};
use toml::{Table, Value};

use super::{Config, OptimConfig, key_list};
use crate::error::{Error, Result};

/// Key that names the file to extend.
const EXTENDS: &str = "extends";

impl Config {
    /// Reads `path`, the files it extends, and the overrides `sets` (`"optim.lr=1e-3"`). Fills in the defaults and
    /// checks the result.
    ///
    /// # Errors
    /// If a file cannot be read or parsed, a key is unknown (the message names the nearest known one), or a value has
    /// the wrong type or is out of range.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self> {
        Self::finish(read_chain(path, &mut Vec::new())?, &path.display().to_string(), sets)
    }

    /// Like [`Config::load`], from a text without `extends`. Messages call the text `name`.
    ///
    /// # Errors
    /// The errors of [`Config::load`].
    pub fn parse(name: &str, text: &str, sets: &[String]) -> Result<Self> {
        let table = parse_table(Path::new(name), text)?;
        key_list::check(&table).map_err(|detail| Error::format(name, detail))?;
        Self::finish(table, name, sets)
    }

    /// The config of the run in folder `run`, as its newest checkpoint stores it.
    ///
    /// # Errors
    /// If there is no checkpoint; the errors of [`Config::load`].
    pub fn of_run(run: &Path) -> Result<Self> {
        Self::load(&latest_checkpoint(run)?.join(CONFIG), &[])
    }

    /// All values as TOML. [`Config::parse`] of the TOML of a resolved config returns the same config.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a config is made of tables, numbers and texts")
    }

    fn finish(mut table: Table, name: &str, sets: &[String]) -> Result<Self> {
        let mut over = Table::new();
        for set in sets {
            overlay(&mut over, parse_set(set)?);
        }
        kind_from_path(&Table::new(), &mut table);
        kind_from_path(&table, &mut over);
        merge(&mut table, over, "");
        move_inits(&mut table);
        spread_reference(&mut table);
        fit_warmup(&mut table);
        let config: Self = table.try_into().map_err(|error: toml::de::Error| Error::format(name, one_line(&error)))?;
        let config = config.resolve()?;
        config.check()?;
        Ok(config)
    }
}

/// Infers `data.kind` for a table that sets `data.path` without `data.kind`, as `--data` does: `data.path =
/// "captions.csv"` also sets `data.kind = "csv_pairs"`, and `data.path = "taxon_table:birds.csv"` sets both. `base` is
/// the table that `table` will override. If `data.path` names no kind, a kind of `base` that is not recognised by paths
/// is kept (taxon_table also reads .csv), except `toy`, the default.
fn kind_from_path(base: &Table, table: &mut Table) {
    let text = |table: &Table, key: &str| Some(table.get("data")?.get(key)?.as_str()?.to_owned());
    let (Some(path), None) = (text(table, "path"), text(table, "kind")) else { return };
    let Some(SourceSpec { kind, path: Some(bare), .. }) = conifer_datasets::spec_of_text(&path) else { return };
    let named = bare.as_os_str() != path.as_str();
    let stays = text(base, "kind").is_some_and(|known| known != "toy" && !shows_in_path(&known));
    if let Some(Value::Table(data)) = table.get_mut("data").filter(|_| named || !stays) {
        data.insert("kind".to_owned(), Value::String(kind));
        data.insert("path".to_owned(), Value::String(bare.display().to_string()));
    }
}

/// Reads `path` and merges its table over the tables that it extends. `chain` lists the files being read, to detect
/// cycles.
fn read_chain(path: &Path, chain: &mut Vec<PathBuf>) -> Result<Table> {
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    let here = fs::canonicalize(path).map_err(Error::io(path))?;
    if chain.contains(&here) {
        return Err(Error::format(path, "`extends` leads back to this file; expected no cycle"));
    }
    chain.push(here);
    let mut table = parse_table(path, &text)?;
    let base = table.remove(EXTENDS);
    key_list::check(&table).map_err(|detail| Error::format(path, detail))?;
    match base {
        None => Ok(table),
        Some(Value::String(base)) => {
            let base = path.parent().unwrap_or(Path::new(".")).join(base);
            let mut merged = read_chain(&base, chain)?;
            merge(&mut merged, table, "");
            Ok(merged)
        }
        Some(other) => Err(Error::format(path, format!("`extends` is {other}; expected the path of a config"))),
    }
}

fn parse_table(path: &Path, text: &str) -> Result<Table> {
    toml::from_str(text)
        .map_err(|error| Error::format(path, format!("not valid TOML: {}", error.to_string().trim_end())))
}

/// Parses `a.b=value` as a table. A value that is not valid TOML is a string, so paths and names need no quotes.
fn parse_set(set: &str) -> Result<Table> {
    let wrong = |detail: &str| Error::invalid("--set", set, detail.to_owned());
    let (key, text) = set.split_once('=').ok_or_else(|| wrong("`key=value`, with dots in the key: `optim.lr=1e-3`"))?;
    let value = match toml::from_str::<Table>(&format!("value = {text}")) {
        Ok(mut table) if table.len() == 1 => table.remove("value"),
        _ => None,
    };
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    let mut parts = key.trim().rsplit('.');
    let mut table = Table::from_iter([(parts.next().unwrap_or_default().to_owned(), value)]);
    for part in parts {
        table = Table::from_iter([(part.to_owned(), Value::Table(table))]);
    }
    key_list::check(&table).map_err(|detail| wrong(&format!("a known key: {detail}")))?;
    Ok(table)
}

/// Merges `over` into `base`, key by key. A table whose `kind` or `preset` changes is replaced as a whole, because its
/// other keys belong to the old kind. In `data` and `eval` a new `kind` removes only `path`, `split` and `options`.
fn merge(base: &mut Table, over: Table, path: &str) {
    let changes = |key: &str| over.get(key).is_some_and(|new| base.get(key) != Some(new));
    if path == "data" || path == "eval" {
        if changes("kind") {
            for key in ["path", "split", "options"] {
                base.remove(key);
            }
        }
    } else if changes("kind") || changes("preset") {
        base.clear();
    }
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                merge(base, over, &path);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Merges `over` into `base` recursively; keys that `over` does not set keep their values. For a repeated key the last
/// override wins.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Moves `model.visual.init` to `model.init_visual`, and likewise for texts. A tower that has no other key keeps its
/// default architecture, which the architecture in the loaded file replaces. An `image_size` without an architecture
/// (`kind` or `preset`) moves to `model.init_image_size`.
fn move_inits(table: &mut Table) {
    let Some(Value::Table(model)) = table.get_mut("model") else { return };
    for tower in ["visual", "textual"] {
        let Some(Value::Table(section)) = model.get_mut(tower) else { continue };
        if let Some(init) = section.remove("init") {
            let size = match section.contains_key("kind") || section.contains_key("preset") {
                false if tower == "visual" => section.remove("image_size"),
                _ => None,
            };
            let is_bare = section.is_empty();
            if is_bare {
                model.remove(tower);
            }
            model.insert(format!("init_{tower}"), init);
            if let Some(size) = size {
                model.insert("init_image_size".into(), size);
            }
        }
    }
}

/// Makes a top-level `reference` the default of the three sections that have this key.
fn spread_reference(table: &mut Table) {
    let Some(reference @ Value::Boolean(_)) = table.get("reference").cloned() else {
        return;
    };
    for section in ["method", "head", "optim"] {
        let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(section) = section {
            section.entry("reference").or_insert(reference.clone());
        }
    }
}

/// If a run is shorter than the default warm-up and sets no warm-up, the warm-up is a tenth of the run.
fn fit_warmup(table: &mut Table) {
    let number = |section: &str, key: &str| u64::try_from(table.get(section)?.get(key)?.as_integer()?).ok();
    let (steps, set) = (number("train", "steps"), number("optim", "warmup_steps"));
    let default = OptimConfig::default().warmup_steps;
    if let (Some(steps), None) = (steps.filter(|it| *it < default), set)
        && let Value::Table(optim) = table.entry("optim").or_insert_with(|| Value::Table(Table::new()))
    {
        optim.entry("warmup_steps").or_insert(Value::Integer(steps as i64 / 10));
    }
}

/// Puts a TOML error on one line. The message names the key.
fn one_line(error: &toml::de::Error) -> String {
    error.to_string().trim().replace('\n', " ")
}
