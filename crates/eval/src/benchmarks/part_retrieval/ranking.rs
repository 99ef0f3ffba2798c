use std::cmp::Ordering;

/// Score that ranks the candidates.
#[derive(Clone, Copy)]
pub(super) enum RankingCriterion {
    Cosine,
    /// Distance in the space; the nearest candidate comes first.
    Distance,
    Angle,
    /// Smallest angle that passes the gate, radians.
    Gated(f32),
}

/// A ranking criterion, and whether candidates of the query's own photo are excluded.
#[derive(Clone, Copy)]
pub(super) struct RankingProtocol {
    pub(super) criterion: RankingCriterion,
    pub(super) other_photos: bool,
}

/// Relation of a candidate to the query.
#[derive(Clone, Copy)]
pub(super) struct ScoredCandidate {
    pub(super) cosine: f32,
    /// Distance between query and candidate in the space.
    pub(super) distance: f32,
    /// Exterior angle in radians. pi means "part of the query" for a photo query and "whole of the query" for a box
    /// query.
    pub(super) angle: f32,
    /// Label of the box. The box is the query or the candidate.
    pub(super) label: u32,
    /// True if the photo contains the label of the box.
    pub(super) right: bool,
    /// True if the photo contains the label of the box or one of its ancestors.
    pub(super) below: bool,
    /// True if query and candidate belong to the same photo.
    pub(super) own: bool,
}

impl RankingProtocol {
    pub(super) fn protocol(&self) -> String {
        let criterion = match self.criterion {
            RankingCriterion::Cosine => "cosine".to_owned(),
            RankingCriterion::Distance => "distance".to_owned(),
            RankingCriterion::Angle => "angle".to_owned(),
            RankingCriterion::Gated(gate) => format!("gated angle {gate}"),
        };
        if self.other_photos { format!("{criterion}, other photos") } else { criterion }
    }

    pub(super) fn candidates<'a>(&self, all: &'a [ScoredCandidate]) -> Vec<&'a ScoredCandidate> {
        all.iter().filter(|it| !(self.other_photos && it.own)).collect()
    }

    /// Orders better candidates first. Among equal candidates the wrong ones come first, so constant scores are not
    /// rewarded.
    pub(super) fn order(
        &self,
        right: impl Fn(&ScoredCandidate) -> bool,
    ) -> impl Fn(&&ScoredCandidate, &&ScoredCandidate) -> Ordering {
        move |a, b| self.by_rank(a, b).then_with(|| right(a).cmp(&right(b)))
    }

    fn by_rank(&self, a: &ScoredCandidate, b: &ScoredCandidate) -> Ordering {
        let by_cosine = || b.cosine.total_cmp(&a.cosine);
        let by_angle = || b.angle.total_cmp(&a.angle);
        match self.criterion {
            RankingCriterion::Cosine => by_cosine(),
            RankingCriterion::Distance => a.distance.total_cmp(&b.distance),
            RankingCriterion::Angle => by_angle(),
            RankingCriterion::Gated(gate) => match (a.angle >= gate, b.angle >= gate) {
                (true, true) => by_cosine(),
                (false, false) => by_angle(),
                (a, b) => b.cmp(&a),
            },
        }
    }
}
