//! The layers of the explorer's map: the built-in disc, and projections that the server was given.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use conifer_viz::evenly_spaced;

use crate::content::ServedMap;
use crate::error::{HttpError, HttpResult};
use crate::set::explorer::Explorer;
use crate::set::state::ServedSet;
use crate::start_error::{Error, Result};

/// Name of the built-in layer.
pub(crate) const DISC: &str = "disc";

/// The layers of a server. Row numbers are those of the served rows.
pub(crate) struct MapLayers {
    /// Number of served rows.
    rows: usize,
    /// Layers are added while the server runs.
    projected: RwLock<Vec<Arc<ServedMap>>>,
}

/// A layer of the map.
#[derive(Clone)]
pub(crate) enum MapLayer {
    /// The projection of all rows with [`conifer_viz::PoincareDisc`].
    Disc,
    Projected(Arc<ServedMap>),
}

impl MapLayers {
    /// Checks the maps of a set of `rows` rows. For a shard, keeps only its rows and renumbers them from 0.
    ///
    /// # Errors
    /// Two maps have the same name, or a map has row numbers or positions that are not valid.
    pub(crate) fn new(maps: Vec<ServedMap>, rows: usize, shard: Option<(usize, usize)>) -> Result<Self> {
        let (part, of) = shard.unwrap_or((0, 1));
        let mut projected: Vec<Arc<ServedMap>> = Vec::new();
        for mut map in maps {
            map.check(rows)?;
            if projected.iter().any(|it| it.name == map.name) {
                return Err(Error::invalid(format!("map `{}`", map.name), "two maps of this name", "different names"));
            }
            let kept = |row: &u32| *row as usize % of == part;
            let mut here = map.rows.iter().map(kept);
            map.positions.retain(|_| here.next().unwrap_or(false));
            map.rows.retain(kept);
            // A row of the set fits into `u32`, and so does its number in the shard.
            map.rows.iter_mut().for_each(|row| *row = (*row as usize / of) as u32);
            projected.push(Arc::new(map));
        }
        let rows = (rows + of - 1 - part) / of;
        Ok(MapLayers { rows, projected: RwLock::new(projected) })
    }

    /// Adds a map of the served rows.
    ///
    /// # Errors
    /// The map is not valid, or its name is taken.
    pub(crate) fn add(&self, map: ServedMap) -> Result<()> {
        map.check(self.rows)?;
        let mut projected = self.projected.write().unwrap_or_else(PoisonError::into_inner);
        if projected.iter().any(|it| it.name == map.name) {
            return Err(Error::invalid(format!("map `{}`", map.name), "two maps of this name", "different names"));
        }
        projected.push(Arc::new(map));
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<MapLayer> {
        let projected = self.read();
        std::iter::once(MapLayer::Disc).chain(projected.iter().cloned().map(MapLayer::Projected)).collect()
    }

    /// The layer of this name; the built-in disc without a name.
    ///
    /// # Errors
    /// 422: there is no such layer.
    pub(crate) fn find(&self, name: Option<&str>) -> HttpResult<MapLayer> {
        let name = name.unwrap_or(DISC);
        let all = self.all();
        all.iter().find(|it| it.name() == name).cloned().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|it| format!("`{}`", it.name())).collect();
            HttpError::invalid(format!("`layer` is `{name}`; expected one of {}", names.join(", ")))
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<ServedMap>>> {
        self.projected.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MapLayer {
    pub(crate) fn name(&self) -> &str {
        match self {
            MapLayer::Disc => DISC,
            MapLayer::Projected(map) => &map.name,
        }
    }

    pub(crate) fn title(&self) -> &str {
        match self {
            MapLayer::Disc => "Disc by depth",
            MapLayer::Projected(map) => &map.title,
        }
    }

    pub(crate) fn is_disc(&self) -> bool {
        match self {
            MapLayer::Disc => true,
            MapLayer::Projected(map) => map.is_disc,
        }
    }

    pub(crate) fn root(&self) -> Option<[f64; 2]> {
        match self {
            MapLayer::Disc => Some([0.0; 2]),
            MapLayer::Projected(map) => map.root,
        }
    }

    /// Number of rows that the layer shows.
    pub(crate) fn len(&self, rows: &ServedSet) -> usize {
        match self {
            MapLayer::Disc => rows.len(),
            MapLayer::Projected(map) => map.rows.len(),
        }
    }

    /// Up to `limit` row numbers of the layer, evenly spaced and ascending.
    pub(crate) fn rows(&self, rows: &ServedSet, limit: usize) -> Vec<usize> {
        let some = evenly_spaced(self.len(rows), limit);
        match self {
            MapLayer::Disc => some,
            MapLayer::Projected(map) => some.into_iter().map(|at| map.rows[at] as usize).collect(),
        }
    }

    /// The positions of the rows that [`MapLayer::rows`] returns.
    ///
    /// # Errors
    /// 500: the space of the set is not valid.
    pub(crate) fn positions(&self, rows: &ServedSet, explorer: &Explorer, limit: usize) -> HttpResult<Vec<[f32; 2]>> {
        Ok(match self {
            MapLayer::Disc => {
                let map = explorer.disc(rows)?.map(rows.len(), |row| rows.flat.row(row), limit);
                map.x.into_iter().zip(map.y).map(|(x, y)| [toward_zero(x), toward_zero(y)]).collect()
            }
            MapLayer::Projected(map) => {
                let some = evenly_spaced(map.rows.len(), limit);
                some.into_iter().map(|at| map.positions[at].map(toward_zero)).collect()
            }
        })
    }
}

/// Rounds towards zero, because rounding to the nearest `f32` could move a point onto the boundary of the disc.
fn toward_zero(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near).abs() > value.abs() { f32::from_bits(near.to_bits() - 1) } else { near }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(name: &str, rows: &[u32], positions: &[[f64; 2]]) -> ServedMap {
        ServedMap {
            name: name.to_owned(),
            title: name.to_owned(),
            rows: rows.to_vec(),
            positions: positions.to_vec(),
            is_disc: true,
            root: None,
        }
    }

    #[test]
    fn points_stay_inside_the_disc() {
        for value in [1.0 - 1e-12, -1.0 + 1e-12, 0.1, -0.1, 1e-50, 0.0] {
            let short = f64::from(toward_zero(value));
            assert!(short.abs() <= value.abs() && (short - value).abs() < 1e-7, "{value}: {short}");
        }
    }

    #[test]
    fn shards_keep_their_rows() {
        let all = map("a", &[0, 1, 3, 4], &[[0.0, 0.1], [0.1, 0.1], [0.3, 0.1], [0.4, 0.1]]);
        let layers = MapLayers::new(vec![all.clone()], 5, Some((1, 2))).unwrap();
        // Rows 1 and 3 are rows 0 and 1 of the second of two shards.
        assert_eq!(*layers.read()[0], map("a", &[0, 1], &[[0.1, 0.1], [0.3, 0.1]]));
        assert_eq!(layers.rows, 2);
        assert_eq!(*MapLayers::new(vec![all.clone()], 5, None).unwrap().read()[0], all);
    }

    #[test]
    fn added_maps_are_checked() {
        let layers = MapLayers::new(vec![map("a", &[0], &[[0.0; 2]])], 3, None).unwrap();
        layers.add(map("b", &[2], &[[0.0; 2]])).unwrap();
        assert_eq!(layers.all().iter().map(|it| it.name().to_owned()).collect::<Vec<_>>(), ["disc", "a", "b"]);
        let error = |it: ServedMap| layers.add(it).unwrap_err().to_string();
        assert!(error(map("a", &[0], &[[0.0; 2]])).contains("two maps of this name"));
        assert!(error(map("disc", &[0], &[[0.0; 2]])).contains("taken by the built-in map"));
        assert!(error(map("c", &[3], &[[0.0; 2]])).contains("row 3"));
        assert_eq!(layers.all().len(), 3);
    }

    #[test]
    fn wrong_maps_are_refused() {
        let error = |maps: Vec<ServedMap>| MapLayers::new(maps, 3, None).err().unwrap().to_string();
        let good = || map("a", &[0], &[[0.0; 2]]);
        assert!(error(vec![good(), good()]).contains("map `a`: two maps of this name"));
        assert!(error(vec![map("disc", &[0], &[[0.0; 2]])]).contains("map `disc`: a name that is empty or taken"));
        assert!(error(vec![map("a", &[0, 1], &[[0.0; 2]])]).contains("1 positions; expected 2"));
        assert!(error(vec![map("a", &[1, 1], &[[0.0; 2]; 2])]).contains("row 1 after row 1"));
        assert!(error(vec![map("a", &[3], &[[0.0; 2]])]).contains("row 3; expected a number below 3"));
        assert!(error(vec![map("a", &[2], &[[0.8, 0.6000001]])]).contains("of row 2; expected a point inside"));
        let plane = ServedMap { is_disc: false, ..map("a", &[2], &[[8.0, f64::NAN]]) };
        assert!(error(vec![plane]).contains("finite numbers"));
        let far = ServedMap { is_disc: false, ..map("a", &[2], &[[1e39, 0.0]]) };
        assert!(error(vec![far]).contains("finite numbers"));
        let layers = MapLayers::new(vec![good()], 3, None).unwrap();
        assert!(layers.find(Some("b")).err().unwrap().message.contains("expected one of `disc`, `a`"));
    }
}
