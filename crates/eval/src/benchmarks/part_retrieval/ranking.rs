use std::cmp::Ordering;

/// By what candidates are ranked.
#[derive(Clone, Copy)]
pub(super) enum Ranking {
    Cosine,
    Angle,
    /// With the least angle, radians, at which a candidate passes.
    Gated(f32),
}

/// How candidates are ranked, and which there are.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) ranking: Ranking,
    pub(super) other_photos: bool,
}

/// A candidate as a query sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) cosine: f32,
    /// Radians; pi says "part of the query" (down) or "whole of the query" (up).
    pub(super) angle: f32,
    /// Of the box of the two.
    pub(super) label: u32,
    /// Whether the photo has the class of the box.
    pub(super) right: bool,
    /// Whether the photo has the class of the box or one above it.
    pub(super) below: bool,
    /// Whether it is of the query's own photo.
    pub(super) own: bool,
}

impl Asked {
    pub(super) fn protocol(&self) -> String {
        let ranking = match self.ranking {
            Ranking::Cosine => "cosine".to_owned(),
            Ranking::Angle => "angle".to_owned(),
            Ranking::Gated(gate) => format!("gated angle {gate}"),
        };
        if self.other_photos { format!("{ranking}, other photos") } else { ranking }
    }

    /// The candidates.
    pub(super) fn candidates<'a>(&self, seen: &'a [Seen]) -> Vec<&'a Seen> {
        seen.iter().filter(|it| !(self.other_photos && it.own)).collect()
    }

    /// The better one first. Equal ranks: the wrong one first, so that a model to which everything looks the same gains nothing.
    pub(super) fn order(&self, right: impl Fn(&Seen) -> bool) -> impl Fn(&&Seen, &&Seen) -> Ordering {
        move |a, b| self.by_rank(a, b).then_with(|| right(a).cmp(&right(b)))
    }

    fn by_rank(&self, a: &Seen, b: &Seen) -> Ordering {
        let by_cosine = || b.cosine.total_cmp(&a.cosine);
        let by_angle = || b.angle.total_cmp(&a.angle);
        match self.ranking {
            Ranking::Cosine => by_cosine(),
            Ranking::Angle => by_angle(),
            Ranking::Gated(gate) => match (a.angle >= gate, b.angle >= gate) {
                (true, true) => by_cosine(),
                (false, false) => by_angle(),
                (a, b) => b.cmp(&a),
            },
        }
    }
}
