//! The leaf classes of the is-a tree: names from general to specific, habitat, and drawing.
//!
//! To add a class, add a drawing and a line in the table of its branch. A living class also needs a line in
//! [`super::taxonomy`].

use std::fmt;
use std::sync::LazyLock;

use super::backdrop::Background;
use super::figure::ToyFigure;
use super::shape::Sketch;

mod birds;
mod buildings;
mod creatures;
mod food;
mod household;
mod mammals;
mod plants;
mod vehicles;

/// Name of the root of the is-a tree.
pub const ROOT: &str = "thing";

/// A leaf class of the is-a tree ("parrot").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToyClass(u8);

/// An entry of a class table.
pub(crate) struct ClassSpec {
    name: &'static str,
    /// Ancestors from general to specific, without the root and the class itself.
    path: [&'static str; 3],
    habitat: Habitat,
    small: bool,
    draw: fn(&mut Sketch),
}

/// The backgrounds on which a class can occur (see `Background::hosts`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habitat {
    /// Stands on the ground, also indoors.
    Land,
    /// Stands on the ground, never indoors.
    Outdoors,
    /// Stands on the ground or floats.
    Pond,
    /// Floats or lies on the shore; a model of it may stand in a room.
    Harbour,
    /// In the water, at the surface or below.
    Deep,
    /// Always flies.
    Air,
}

const TABLES: [&[ClassSpec]; 8] = [
    birds::BIRDS,
    mammals::MAMMALS,
    creatures::CREATURES,
    plants::PLANTS,
    vehicles::VEHICLES,
    buildings::BUILDINGS,
    food::FOOD,
    household::HOUSEHOLD,
];

/// All drawings, measured once. `None` is a drawing without a shape; a test ensures that every drawing has a shape.
static FIGURES: LazyLock<Vec<Option<ToyFigure>>> =
    LazyLock::new(|| SPECS.iter().map(|spec| ToyFigure::new(spec.draw)).collect());

/// The entries of all tables in order.
static SPECS: [&ClassSpec; ToyClass::COUNT] = {
    let mut specs = [&TABLES[0][0]; ToyClass::COUNT];
    let (mut next, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            specs[next] = &TABLES[table][row];
            next += 1;
            row += 1;
        }
        table += 1;
    }
    specs
};

const fn class(name: &'static str, path: [&'static str; 3], habitat: Habitat, draw: fn(&mut Sketch)) -> ClassSpec {
    ClassSpec { name, path, habitat, small: false, draw }
}

impl ClassSpec {
    /// Marks the class as able to sit on a larger object.
    const fn small(self) -> Self {
        Self { small: true, ..self }
    }
}

impl ToyClass {
    /// Number of leaf classes.
    pub const COUNT: usize = {
        let (mut count, mut table) = (0, 0);
        while table < TABLES.len() {
            count += TABLES[table].len();
            table += 1;
        }
        count
    };

    /// Every class, in the order of the is-a tree.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        (0..Self::COUNT as u8).map(Self)
    }

    /// The class with this name; `None` if there is no such class.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|class| class.name() == name)
    }

    /// Position of the class in [`ToyClass::all`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Name of the class, such as "parrot".
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Names below the root from general to specific, ending with the class itself: animal, bird, land bird, parrot.
    pub fn path(self) -> [&'static str; 4] {
        let ClassSpec { path: [a, b, c], name, .. } = self.spec();
        [a, b, c, name]
    }

    /// Returns whether `name` is the class or one of its ancestors.
    pub fn is_a(self, name: &str) -> bool {
        name == ROOT || self.path().contains(&name)
    }

    pub(crate) fn habitat(self) -> Habitat {
        self.spec().habitat
    }

    /// Returns whether the class can sit on a larger object.
    pub(crate) fn is_small(self) -> bool {
        self.spec().small
    }

    /// Returns whether the class can occur on this background.
    pub fn lives_in(self, background: Background) -> bool {
        background.hosts(self.habitat())
    }

    pub(crate) fn figure(self) -> Option<&'static ToyFigure> {
        FIGURES.get(self.index())?.as_ref()
    }

    fn spec(self) -> &'static ClassSpec {
        SPECS[self.index()]
    }
}

impl fmt::Debug for ToyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
