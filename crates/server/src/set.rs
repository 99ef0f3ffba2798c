//! The served rows and what is derived from them: index, classes, factors, projection, identity.

pub(crate) mod classes;
pub(crate) mod factors;
pub(crate) mod identity;
pub(crate) mod map;
pub(crate) mod state;
pub(crate) mod tree;
