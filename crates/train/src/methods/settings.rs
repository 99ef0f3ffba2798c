//! Parses a `[method]` table into a checked settings struct, and fills in its defaults.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::{Error, Result};

/// Settings of one method. The settings struct denies unknown fields and has no serde defaults: [`parse`] fills absent
/// keys from [`MethodSettings::defaults`], which depend on `reference`.
pub(super) trait MethodSettings: Serialize + DeserializeOwned {
    /// Name of the method, for messages.
    const METHOD: &'static str;
    /// The paper's values, or with `reference` the values of the released code.
    fn defaults(reference: bool) -> Self;
    /// Returns an error for an invalid value.
    fn check(&self) -> Result<()>;
}

/// The `[method.terms]` table: one switch per term, keyed by the names in
/// [`MethodEntry::terms`](super::MethodEntry::terms).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TermSwitches(BTreeMap<String, bool>);

impl TermSwitches {
    /// All terms switched on.
    pub fn all(names: &[&str]) -> Self {
        Self(names.iter().map(|name| ((*name).to_owned(), true)).collect())
    }

    /// True if the term is switched on. An unknown name counts as off.
    pub fn on(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Checks that every term is known and that at least one is on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is not in `known`, or if every term is switched off.
    pub fn check(&self, known: &[&str]) -> Result<()> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(Error::invalid(format!("method.terms.{name}"), "unknown", format!("one of {}", known.join(", "))))
            }
            None if !known.iter().any(|name| self.on(name)) => {
                Err(Error::invalid("method.terms", "all false", format!("at least one term of {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }
}

/// Parses the settings of a `[method]` table (without `kind`).
///
/// # Errors
/// [`Error::Invalid`] for an unknown key, a value of the wrong type, or a value that [`MethodSettings::check`] rejects.
pub(super) fn parse<S: MethodSettings>(table: &Table) -> Result<S> {
    let reference = match table.get("reference") {
        None => false,
        Some(Value::Boolean(on)) => *on,
        Some(other) => return Err(Error::invalid("method.reference", other, "true or false")),
    };
    let mut complete = to_table(&S::defaults(reference))?;
    overlay(&mut complete, table);
    let settings: S = complete.try_into().map_err(|error: toml::de::Error| invalid_settings::<S>(&error))?;
    settings.check()?;
    Ok(settings)
}

/// Completes `table` with the defaults.
///
/// # Errors
/// The errors of [`parse`].
pub(super) fn resolve<S: MethodSettings>(table: &Table) -> Result<Table> {
    to_table(&parse::<S>(table)?)
}

/// Checks that `found` is a finite number for which `accept` holds.
///
/// # Errors
/// [`Error::Invalid`] naming `method.<key>`.
pub(super) fn number(key: &str, found: f64, accept: impl Fn(f64) -> bool, expected: &str) -> Result<()> {
    if found.is_finite() && accept(found) {
        return Ok(());
    }
    Err(Error::invalid(format!("method.{key}"), found, expected))
}

fn to_table<S: MethodSettings>(settings: &S) -> Result<Table> {
    Table::try_from(settings).map_err(|error| invalid_settings::<S>(&error))
}

fn invalid_settings<S: MethodSettings>(error: &dyn std::fmt::Display) -> Error {
    let error = error.to_string();
    Error::invalid("method", format!("not understood ({})", error.trim()), format!("settings of {}", S::METHOD))
}

/// Merges `user` into `base`, table by table.
fn overlay(base: &mut Table, user: &Table) {
    for (key, value) in user {
        match (base.get_mut(key), value) {
            (Some(Value::Table(base)), Value::Table(user)) => overlay(base, user),
            // Accept an integer where a float is expected: `weight = 1` means `weight = 1.0`.
            (Some(Value::Float(base)), Value::Integer(user)) => *base = *user as f64,
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}
