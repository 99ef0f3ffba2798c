//! [`ManifoldKind`]: the kind of a space.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a space. Files, configs and messages contain its [name](ManifoldKind::name).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ManifoldKind {
    /// `sphere`: the unit sphere.
    Sphere,
    /// `euclidean`: flat space.
    Euclidean,
    /// `lorentz`: one hyperboloid.
    Lorentz,
    /// `product_l1`: hyperboloids; the distance is the mean of the factor distances.
    ProductL1,
    /// `product_l2`: hyperboloids; the distance is the root mean square of the factor distances.
    ProductL2,
    /// Any other name: a space that another crate registers in [`SPACES`](crate::SPACES), or an unknown name, which
    /// [`ManifoldSpec::check`](crate::ManifoldSpec::check) rejects.
    Other(ExternalKind),
}

/// A name that no variant of [`ManifoldKind`] has. [`ManifoldKind::from`] creates it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalKind(String);

impl ManifoldKind {
    const BUILT_IN: [ManifoldKind; 5] = [
        ManifoldKind::Sphere,
        ManifoldKind::Euclidean,
        ManifoldKind::Lorentz,
        ManifoldKind::ProductL1,
        ManifoldKind::ProductL2,
    ];

    /// The name in [`SpaceEntry::kind`](crate::SpaceEntry::kind).
    pub fn name(&self) -> &str {
        match self {
            ManifoldKind::Sphere => "sphere",
            ManifoldKind::Euclidean => "euclidean",
            ManifoldKind::Lorentz => "lorentz",
            ManifoldKind::ProductL1 => "product_l1",
            ManifoldKind::ProductL2 => "product_l2",
            ManifoldKind::Other(ExternalKind(name)) => name,
        }
    }
}

impl From<String> for ManifoldKind {
    fn from(name: String) -> Self {
        let built_in = Self::BUILT_IN.into_iter().find(|kind| kind.name() == name);
        built_in.unwrap_or(ManifoldKind::Other(ExternalKind(name)))
    }
}

impl From<&str> for ManifoldKind {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<ManifoldKind> for String {
    fn from(kind: ManifoldKind) -> Self {
        kind.name().to_owned()
    }
}

impl fmt::Display for ManifoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::space::SPACES;

    /// Built-in registry entries and variants have the same names, also in files. Any other name is stored unchanged.
    #[test]
    fn names_are_those_of_the_registry() {
        let names: Vec<&str> = SPACES.iter().map(|entry| entry.kind).collect();
        assert_eq!(names, ManifoldKind::BUILT_IN.each_ref().map(ManifoldKind::name));
        for name in names.into_iter().chain(["torus", ""]) {
            let kind = ManifoldKind::from(name);
            assert_eq!((kind.name(), kind.to_string().as_str()), (name, name));
            assert_eq!(matches!(kind, ManifoldKind::Other(_)), SPACES.find(name).is_none());
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<ManifoldKind>(&json).unwrap(), kind);
        }
        assert!(serde_json::from_str::<ManifoldKind>("3").is_err());
    }
}
