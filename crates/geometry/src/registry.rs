//! [`Registry`]: built-in and registered implementations, looked up by name.
//!
//! Configs and files name a space, a method or a benchmark by a string. A crate outside this workspace adds its own
//! entries with [`Registry::register`], usually at the start of `main`. Registered entries are then found and listed
//! like built-in ones.

use std::sync::{PoisonError, RwLock};

use crate::error::{Error, Result};

/// Entries of one kind (spaces, methods, ...), looked up by name.
pub struct Registry<E: Sync + 'static> {
    what: &'static str,
    name: fn(&E) -> &'static str,
    built_in: &'static [E],
    registered: RwLock<Vec<&'static E>>,
}

impl<E: Sync + 'static> Registry<E> {
    /// A registry of `built_in` entries. `what` is the word for an entry in messages, and `name` returns the name of an
    /// entry.
    pub const fn new(what: &'static str, name: fn(&E) -> &'static str, built_in: &'static [E]) -> Self {
        Self { what, name, built_in, registered: RwLock::new(Vec::new()) }
    }

    /// All entries: the built-in entries in their order, then the registered entries.
    pub fn iter(&self) -> std::vec::IntoIter<&'static E> {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        let entries: Vec<&'static E> = self.built_in.iter().chain(registered.iter().copied()).collect();
        entries.into_iter()
    }

    /// The entry with this name; `None` if there is no such entry.
    pub fn find(&self, name: &str) -> Option<&'static E> {
        self.iter().find(|entry| (self.name)(entry) == name)
    }

    /// All names, separated by commas, for messages.
    pub fn names(&self) -> String {
        self.iter().map(self.name).collect::<Vec<_>>().join(", ")
    }

    /// Adds an entry for the rest of the process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an entry with this name exists.
    pub fn register(&self, entry: &'static E) -> Result<()> {
        let name = (self.name)(entry);
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        if self.built_in.iter().chain(registered.iter().copied()).any(|known| (self.name)(known) == name) {
            return Err(Error::invalid(format!("the name of a new {}", self.what), name, "a name that is not taken"));
        }
        registered.push(entry);
        Ok(())
    }
}

impl<E: Sync + 'static> IntoIterator for &Registry<E> {
    type Item = &'static E;
    type IntoIter = std::vec::IntoIter<&'static E>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    static WORDS: Registry<&str> = Registry::new("word", |word| word, &["one", "two"]);

    #[test]
    fn registered_entries_follow_the_built_in_ones() {
        assert!(WORDS.find("three").is_none());
        WORDS.register(&"three").unwrap();
        assert_eq!(WORDS.find("three"), Some(&"three"));
        assert_eq!(WORDS.names(), "one, two, three");
        for taken in [&"two", &"three"] {
            let message = WORDS.register(taken).unwrap_err().to_string();
            assert_eq!(message, format!("the name of a new word is {taken}; expected a name that is not taken"));
        }
        assert_eq!((&WORDS).into_iter().count(), 3);
    }
}
