//! The served rows and what is derived from them: index, classes, views of the explorer, identity.

pub(crate) mod beside;
pub(crate) mod classes;
pub(crate) mod explorer;
pub(crate) mod identity;
pub(crate) mod layers;
pub(crate) mod state;
pub(crate) mod tree;
