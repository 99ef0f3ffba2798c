//! `map.json`: what [`crate::commands::place`] needs to place further points in a map.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use conifer_geometry::ManifoldSpec;
use conifer_index::Snapshot;
use conifer_viz::projection::{PointMap, UmapTarget};
use serde::{Deserialize, Serialize};

/// How further points are placed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Placement {
    Tangent {
        axes: Vec<Vec<f64>>,
    },
    TangentHyperboloid {
        center: Vec<f64>,
        axes: Vec<Vec<f64>>,
    },
    Horospherical {
        center: Vec<f64>,
        directions: Vec<Vec<f64>>,
    },
    Disc {
        mean: Vec<f64>,
        axes: Vec<Vec<f64>>,
        deepest: f64,
    },
    /// Between the nearest rows of the map.
    Neighbours {
        count: usize,
        surface: MapSurface,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MapSurface {
    Plane,
    Disc,
}

/// The content of `map.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredMap {
    pub(crate) version: u32,
    /// Name of the projection.
    pub(crate) by: String,
    pub(crate) space: ManifoldSpec,
    pub(crate) factor: Option<usize>,
    /// [`Snapshot::fingerprint`] of the set.
    pub(crate) set: String,
    /// Number of coordinates of a point.
    pub(crate) dim: usize,
    pub(crate) placement: Placement,
}

impl StoredMap {
    pub(crate) const VERSION: u32 = 1;
    pub(crate) const FILE: &str = "map.json";

    /// Reads the map of a folder that `conifer project` wrote, and checks that it is a map of this set.
    pub(crate) fn open(dir: &Path, set: &Snapshot) -> anyhow::Result<Self> {
        let path = dir.join(Self::FILE);
        let place = || path.display();
        let bytes = fs::read(&path).with_context(|| {
            format!("reading {}; expected a folder that `conifer project` wrote (with {})", place(), Self::FILE)
        })?;
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).with_context(|| format!("{}: not JSON", place()))?;
        // The version is checked first, because another version may have other fields.
        let version = value.get("version").cloned().unwrap_or_default();
        let expected = Self::VERSION;
        ensure!(version == expected, "{}: version {version}; expected {expected}, which this build reads", place());
        let found: StoredMap =
            serde_json::from_value(value).with_context(|| format!("{}: not the map of a projection", place()))?;
        let (theirs, ours) = (&found.space, &set.spec);
        ensure!(theirs == ours, "{}: a map of the space {theirs}; expected {ours}, the space of the set", place());
        ensure!(
            found.set == set.fingerprint()?,
            "{}: a map of another set, or of this set before it was changed; expected a map that `conifer project` made from this set",
            place()
        );
        Ok(found)
    }
}

impl From<PointMap> for Placement {
    fn from(map: PointMap) -> Self {
        match map {
            PointMap::Tangent { axes } => Placement::Tangent { axes },
            PointMap::TangentHyperboloid { center, axes } => Placement::TangentHyperboloid { center, axes },
            PointMap::Horospherical { center, directions } => Placement::Horospherical { center, directions },
            PointMap::Disc { mean, axes, deepest } => Placement::Disc { mean, axes, deepest },
        }
    }
}

impl Placement {
    /// The formula of the map, or the number of neighbours between which points are placed and the surface.
    pub(crate) fn formula(self) -> Result<PointMap, (usize, MapSurface)> {
        Ok(match self {
            Placement::Tangent { axes } => PointMap::Tangent { axes },
            Placement::TangentHyperboloid { center, axes } => PointMap::TangentHyperboloid { center, axes },
            Placement::Horospherical { center, directions } => PointMap::Horospherical { center, directions },
            Placement::Disc { mean, axes, deepest } => PointMap::Disc { mean, axes, deepest },
            Placement::Neighbours { count, surface } => return Err((count, surface)),
        })
    }
}

impl From<MapSurface> for UmapTarget {
    fn from(surface: MapSurface) -> Self {
        match surface {
            MapSurface::Plane => UmapTarget::Plane,
            MapSurface::Disc => UmapTarget::Disc,
        }
    }
}
