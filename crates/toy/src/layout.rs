//! Generates scenes: draws classes, colours and sizes, arranges the objects in columns of one or two objects, then
//! positions them.

use conifer_data::BBox;

use super::backdrop::{Background, Ground};
use super::choice::ClassChoice;
use super::classes::{Habitat, ToyClass};
use super::held_out::{backgrounds_of, held_out_background, held_out_colour};
use super::palette::Colour;
use super::rng::ToyRng;
use super::scene::{MAX_NEIGHBOUR_GAP, ObjectSize, Relation, RelationKind, Scene, SceneObject, overlap};

/// Constraints on a scene.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SceneConstraints {
    /// The class of the main object; `None` for a random class.
    pub(crate) main: Option<ToyClass>,
    /// True if the scene has a single object.
    pub(crate) alone: bool,
    /// True if the main object shows a held-out pair. If false, no object shows a held-out pair.
    pub(crate) held_out: bool,
    pub(crate) classes: ClassChoice,
}

/// Number of failed layouts after which a scene is reduced to the main object.
const MAX_FAILURES: usize = 40;

/// Minimum distance of objects from the border of the picture, as a fraction of the picture.
const MARGIN: f32 = 0.015;

/// Maximum fraction of the rear box that an object in front may hide.
const MAX_HIDDEN_SHARE: f32 = 0.3;

pub(crate) fn compose(rng: &mut ToyRng, constraints: SceneConstraints) -> Scene {
    let main = constraints.main.unwrap_or_else(|| any_class(rng, constraints.classes));
    let mut failures = 0;
    loop {
        // A single object always fits, so the loop terminates.
        let draft = SceneDraft::draw(rng, main, constraints, constraints.alone || failures >= MAX_FAILURES);
        match draft.arrange(rng) {
            Some(scene) if is_valid(&scene) => return scene,
            _ => failures += 1,
        }
    }
}

/// A column of the picture: one object, or two objects of which one is on, above or in front of the other.
#[derive(Clone, Copy, Debug)]
enum SceneColumn {
    Single(usize),
    /// `upper` is On, Above or InFrontOf `lower`.
    Stack {
        kind: RelationKind,
        upper: usize,
        lower: usize,
    },
}

/// A scene whose objects have no positions yet.
struct SceneDraft {
    background: Background,
    /// Objects with empty boxes; the main object is the first.
    objects: Vec<SceneObject>,
    /// Columns, from left to right.
    columns: Vec<SceneColumn>,
    /// The classes of objects that may be added.
    classes: ClassChoice,
}

impl SceneDraft {
    fn draw(rng: &mut ToyRng, main: ToyClass, constraints: SceneConstraints, alone: bool) -> Self {
        let (background, colour) = draw_setting(rng, main, constraints.held_out);
        let mut draft =
            Self { background, objects: vec![object(main, colour)], columns: Vec::new(), classes: constraints.classes };
        // One to four objects with probabilities 5/20, 8/20, 5/20 and 2/20.
        let count = match rng.below(20) {
            _ if alone => 1,
            0..5 => 1,
            5..13 => 2,
            13..18 => 3,
            _ => 4,
        };
        let stacks = match count {
            1 => 0,
            2 => usize::from(rng.chance(0.5)),
            3 => usize::from(rng.chance(0.6)),
            _ => 1 + usize::from(rng.chance(0.4)),
        };
        for stack in 0..stacks {
            let leader = if stack == 0 { Some(0) } else { draft.add_object(rng, |_| true) };
            let Some(leader) = leader else { break };
            let column = draft.add_partner(rng, leader);
            draft.columns.push(column.unwrap_or(SceneColumn::Single(leader)));
        }
        if draft.columns.is_empty() {
            draft.columns.push(SceneColumn::Single(0));
        }
        while draft.objects.len() < count {
            let Some(next) = draft.add_object(rng, |_| true) else {
                break;
            };
            draft.columns.push(SceneColumn::Single(next));
        }
        draft.shuffle(rng);
        draft.size(rng);
        draft
    }

    /// Adds an object with a new class and a new colour that may occur on this background. Returns its index; `None` if
    /// no class or colour is left.
    fn add_object(&mut self, rng: &mut ToyRng, fits: impl Fn(ToyClass) -> bool) -> Option<usize> {
        let classes: Vec<ToyClass> = ToyClass::all()
            .filter(|class| self.classes.admits(*class))
            .filter(|class| class.lives_in(self.background) && fits(*class))
            .filter(|class| held_out_background(*class) != self.background)
            .filter(|class| self.objects.iter().all(|o| o.class != *class))
            .collect();
        let class = rng.choose(&classes)?;
        let colours: Vec<Colour> = Colour::ALL
            .iter()
            .copied()
            .filter(|colour| held_out_colour(class) != *colour)
            .filter(|colour| self.objects.iter().all(|o| o.colour != *colour))
            .collect();
        self.objects.push(object(class, rng.choose(&colours)?));
        Some(self.objects.len() - 1)
    }

    /// Adds a partner that forms a stack with `leader`; `None` if there is none.
    fn add_partner(&mut self, rng: &mut ToyRng, leader: usize) -> Option<SceneColumn> {
        let ground = self.background.ground();
        let class = self.objects[leader].class;
        let flies = move |c: ToyClass| ground == Ground::Nowhere || c.habitat() == Habitat::Air;
        let stands = move |c: ToyClass| ground == Ground::Nowhere || c.habitat() != Habitat::Air;
        let carries = |c: ToyClass| c.figure().is_some_and(|figure| figure.perch.is_some());
        let firm = matches!(ground, Ground::Firm(_));
        type ClassFilter<'a> = &'a dyn Fn(ToyClass) -> bool;
        let roles: [(RelationKind, bool, ClassFilter<'_>, ClassFilter<'_>); 3] = [
            (RelationKind::On, ground != Ground::Nowhere, &|c| c.is_small(), &|c| carries(c)),
            (RelationKind::Above, true, &|c| flies(c), &|c| stands(c)),
            (RelationKind::InFrontOf, firm, &|c| stands(c), &|c| stands(c)),
        ];
        let mut open: Vec<(RelationKind, bool, ClassFilter<'_>)> = Vec::new();
        for (kind, possible, upper, lower) in roles {
            if possible && upper(class) {
                open.push((kind, true, lower));
            }
            if possible && lower(class) {
                open.push((kind, false, upper));
            }
        }
        let (kind, leads, fits) = rng.choose(&open)?;
        let partner = self.add_object(rng, fits)?;
        let (upper, lower) = if leads { (leader, partner) } else { (partner, leader) };
        Some(SceneColumn::Stack { kind, upper, lower })
    }

    fn shuffle(&mut self, rng: &mut ToyRng) {
        for last in (1..self.columns.len()).rev() {
            self.columns.swap(last, rng.below(last + 1));
        }
    }

    /// Chooses sizes and creates boxes with the bottom edge at y = 0 and the left edge at x = 0. With more columns,
    /// fewer objects are large.
    fn size(&mut self, rng: &mut ToyRng) {
        let columns = self.columns.len();
        let (large, longest) = [(0.6, 0.62), (0.5, 0.47), (0.3, 0.42)][columns.clamp(1, 3) - 1];
        let mut sizes = vec![ObjectSize::Small; self.objects.len()];
        for column in &self.columns {
            match *column {
                SceneColumn::Single(index) => {
                    if rng.chance(large) {
                        sizes[index] = ObjectSize::Large;
                    }
                }
                SceneColumn::Stack { kind, upper, lower } => {
                    let apart = kind == RelationKind::Above;
                    let of_lower = !apart || rng.chance(0.4);
                    sizes[lower] = if of_lower { ObjectSize::Large } else { ObjectSize::Small };
                    if apart && !of_lower && rng.chance(0.4) {
                        sizes[upper] = ObjectSize::Large;
                    }
                }
            }
        }
        for (object, size) in self.objects.iter_mut().zip(sizes) {
            let (shortest, limit) = size.range();
            let side = rng.between(shortest, limit.min(longest));
            let aspect = object.class.figure().map_or(1.0, |figure| figure.aspect);
            object.size = size;
            object.flip = rng.chance(0.5);
            object.bounds = BBox { x1: 0.0, y1: -side / aspect.max(1.0), x2: side * aspect.min(1.0), y2: 0.0 };
        }
    }

    /// Positions all objects; `None` if they do not fit.
    fn arrange(mut self, rng: &mut ToyRng) -> Option<Scene> {
        for column in self.columns.clone() {
            self.arrange_stack(rng, column);
        }
        let widths: Vec<f32> = self.columns.iter().map(|c| self.extent(*c)[2]).collect();
        let lefts = spread(rng, &widths)?;
        let row = self.row(rng)?;
        for (column, left) in self.columns.clone().into_iter().zip(lefts) {
            let foot = self.foot(rng, column, row);
            for index in members(column) {
                shift(&mut self.objects[index], left, foot);
            }
        }
        let relations = self.relations(rng)?;
        Some(Scene {
            background: self.background,
            objects: self.objects,
            relations,
            classes: self.classes,
            variant: rng.word(),
        })
    }

    /// Positions the upper object of a stack relative to the lower object, and shifts both so that the left edge of the
    /// column is at x = 0.
    fn arrange_stack(&mut self, rng: &mut ToyRng, column: SceneColumn) {
        let SceneColumn::Stack { kind, upper, lower } = column else {
            return;
        };
        let (over, under) = (self.objects[upper], self.objects[lower]);
        let (width, room) = (over.bounds.x2, under.bounds.x2 - over.bounds.x2);
        let (x, y) = match kind {
            RelationKind::On => {
                let (x, y) = under.perch().unwrap_or((0.0, 0.0));
                (x - width / 2.0 + rng.between(-0.01, 0.01), y + 0.012)
            }
            RelationKind::Above => (rng.between(0.0, 1.0) * room, under.bounds.y1 - rng.between(0.015, 0.09)),
            _ => (rng.pick([-0.35 * width, under.bounds.x2 - 0.65 * width]), rng.between(0.07, 0.13)),
        };
        shift(&mut self.objects[upper], x, y);
        let [left, _, _, _] = self.extent(column);
        for index in [upper, lower] {
            shift(&mut self.objects[index], -left, 0.0);
        }
    }

    fn extent(&self, column: SceneColumn) -> [f32; 4] {
        members(column)
            .map(|index| self.objects[index].bounds)
            .map(|b| [b.x1, b.y1, b.x2, b.y2])
            .reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])])
            .unwrap_or_default()
    }

    /// A random y coordinate for the feet of all columns: on the ground, and low enough for the tallest column to fit
    /// into the picture. `None` if no coordinate satisfies both.
    fn row(&self, rng: &mut ToyRng) -> Option<f32> {
        let extents = self.columns.iter().map(|column| self.extent(*column));
        let [tallest, deepest] =
            extents.fold([0.0_f32; 2], |[tall, deep], [_, top, _, bottom]| [tall.max(-top), deep.max(bottom)]);
        let ground = match self.background.ground() {
            Ground::Firm(top) | Ground::Water(top) => top + 0.05,
            Ground::Nowhere => 0.0,
        };
        let (highest, lowest) = (ground.max(tallest + MARGIN), 1.0 - MARGIN - deepest);
        (highest <= lowest).then(|| rng.between(highest, lowest))
    }

    /// The y coordinate of the foot of one column: near `row`, or above it for a single flying object.
    fn foot(&self, rng: &mut ToyRng, column: SceneColumn, row: f32) -> f32 {
        let [_, top, _, bottom] = self.extent(column);
        let height = bottom - top;
        let target = match (column, self.background.ground()) {
            (_, Ground::Nowhere) => row + rng.between(-0.4, 0.4) * height,
            (SceneColumn::Single(index), _) if self.objects[index].class.habitat() == Habitat::Air => {
                let alone = self.columns.len() == 1;
                let lift = if alone { (0.1, 0.5) } else { (0.03, 0.2) };
                row - rng.between(lift.0, lift.1)
            }
            (_, Ground::Firm(ground) | Ground::Water(ground)) => (row + rng.between(-0.05, 0.05)).max(ground + 0.05),
        };
        target.max(MARGIN - top).min(1.0 - MARGIN - bottom)
    }

    /// The relations that captions may state: one for each stack, and one for each pair of adjacent columns. `None` if
    /// the relation chosen for a pair of columns does not hold.
    fn relations(&self, rng: &mut ToyRng) -> Option<Vec<Relation>> {
        let mut relations = Vec::new();
        for column in &self.columns {
            if let SceneColumn::Stack { kind, upper, lower } = *column {
                relations.push(maybe_inverted(rng, kind, upper, lower));
            }
        }
        for pair in self.columns.windows(2) {
            let (subject, object) = (foremost(pair[0]), foremost(pair[1]));
            let gap = self.objects[object].bounds.x1 - self.objects[subject].bounds.x2;
            let near = gap < MAX_NEIGHBOUR_GAP - 0.01 && rng.chance(0.7);
            let kind = if near { RelationKind::NextTo } else { RelationKind::LeftOf };
            let (a, b) = (&self.objects[subject], &self.objects[object]);
            if !a.relates(kind, b) {
                return None;
            }
            relations.push(maybe_inverted(rng, kind, subject, object));
        }
        // Move a relation of the main object to the front, and make the main object its subject.
        if let Some(first) = relations.iter().position(|r| r.subject == 0 || r.object == 0) {
            relations.swap(0, first);
            let r = &mut relations[0];
            if r.object == 0 {
                *r = Relation { kind: r.kind.inverse(), subject: r.object, object: r.subject };
            }
        }
        Some(relations)
    }
}

/// Inverts the relation with probability 0.35.
fn maybe_inverted(rng: &mut ToyRng, kind: RelationKind, subject: usize, object: usize) -> Relation {
    if rng.chance(0.35) {
        return Relation { kind: kind.inverse(), subject: object, object: subject };
    }
    Relation { kind, subject, object }
}

fn members(column: SceneColumn) -> impl Iterator<Item = usize> {
    let (first, second) = match column {
        SceneColumn::Single(index) => (index, None),
        SceneColumn::Stack { upper, lower, .. } => (lower, Some(upper)),
    };
    std::iter::once(first).chain(second)
}

/// The object that represents a column in relations to neighbouring columns. In a stack, it is the lower object.
fn foremost(column: SceneColumn) -> usize {
    match column {
        SceneColumn::Single(index) => index,
        SceneColumn::Stack { lower, .. } => lower,
    }
}

/// Left borders of columns of the given widths, with random gaps; `None` if they do not fit.
fn spread(rng: &mut ToyRng, widths: &[f32]) -> Option<Vec<f32>> {
    let room = 1.0 - 2.0 * MARGIN - widths.iter().sum::<f32>();
    let gaps = widths.len() - 1;
    let least = 0.008 * gaps as f32;
    if room < least {
        return None;
    }
    // In half of the scenes each gap is limited to about 0.05, even if there is room for more.
    let close = rng.chance(0.5);
    let widest = if close { 0.05 } else { room };
    let mut left_over = room - least;
    let mut gap_widths = Vec::with_capacity(gaps);
    for gap in 0..gaps {
        let share = left_over / (gaps - gap) as f32;
        let extra = rng.between(0.0, share.min(widest));
        left_over -= extra;
        gap_widths.push(0.008 + extra);
    }
    let mut x = MARGIN + rng.between(0.0, left_over);
    let mut lefts = Vec::with_capacity(widths.len());
    for (i, width) in widths.iter().enumerate() {
        lefts.push(x);
        x += width + gap_widths.get(i).copied().unwrap_or(0.0);
    }
    Some(lefts)
}

/// Returns whether all objects are inside the picture, no object hides too much of another object, and all relations
/// hold.
fn is_valid(scene: &Scene) -> bool {
    let inside = |b: &BBox| b.x1 >= 0.0 && b.y1 >= 0.0 && b.x2 <= 1.0 && b.y2 <= 1.0;
    let readable = |i: usize, j: usize| {
        let (a, b) = (scene.objects[i], scene.objects[j]);
        let across = overlap(a.bounds.x1, a.bounds.x2, b.bounds.x1, b.bounds.x2).max(0.0);
        let down = overlap(a.bounds.y1, a.bounds.y2, b.bounds.y1, b.bounds.y2).max(0.0);
        let width = (a.bounds.x2 - a.bounds.x1).min(b.bounds.x2 - b.bounds.x1);
        let height = (a.bounds.y2 - a.bounds.y1).min(b.bounds.y2 - b.bounds.y1);
        let shared = across * width * down * height;
        let behind = [(a, b), (b, a)]
            .into_iter()
            .find(|(front, back)| front.relates(RelationKind::InFrontOf, back) || front.relates(RelationKind::On, back))
            .map(|(_, back)| back.bounds.area());
        shared <= behind.map_or(1e-4, |area| MAX_HIDDEN_SHARE * area)
    };
    let n = scene.objects.len();
    scene.objects.iter().all(|o| inside(&o.bounds))
        && (0..n).all(|i| (0..i).all(|j| readable(i, j)))
        && scene.relations.iter().all(|r| scene.relates(r.kind, r.subject, r.object))
}

fn object(class: ToyClass, colour: Colour) -> SceneObject {
    SceneObject {
        class,
        colour,
        size: ObjectSize::Small,
        flip: false,
        bounds: BBox { x1: 0.0, y1: 0.0, x2: 0.0, y2: 0.0 },
    }
}

fn shift(object: &mut SceneObject, x: f32, y: f32) {
    let b = &mut object.bounds;
    (b.x1, b.x2) = (b.x1 + x, b.x2 + x);
    (b.y1, b.y2) = (b.y1 + y, b.y2 + y);
}

fn any_class(rng: &mut ToyRng, choice: ClassChoice) -> ToyClass {
    let classes: Vec<ToyClass> = ToyClass::all().filter(|class| choice.admits_main(*class)).collect();
    classes[rng.below(classes.len())]
}

/// A background and a colour for the main object. With `held_out`, at least one of them is a held-out choice for its
/// class.
fn draw_setting(rng: &mut ToyRng, class: ToyClass, held_out: bool) -> (Background, Colour) {
    let (rare_place, rare_colour) = (held_out_background(class), held_out_colour(class));
    let (place_rare, colour_rare) = match rng.below(3) {
        _ if !held_out => (false, false),
        0 => (true, false),
        1 => (false, true),
        _ => (true, true),
    };
    let places: Vec<Background> = backgrounds_of(class).filter(|b| (*b == rare_place) == place_rare).collect();
    let colours: Vec<Colour> = Colour::ALL.iter().copied().filter(|c| (*c == rare_colour) == colour_rare).collect();
    (rng.choose(&places).unwrap_or(rare_place), rng.choose(&colours).unwrap_or(rare_colour))
}
