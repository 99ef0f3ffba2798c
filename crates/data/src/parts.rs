//! The rule that decides whether a box is a part of another box, for part-of hierarchies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sample::BBox;

/// Conditions under which a box is a part of another box (Wang et al., "Learning Visual Hierarchies in Hyperbolic Space
/// for Image Retrieval", Sec. 3.1, App. A and B.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PartRule {
    /// A box is a part of another box if at least this fraction of the smaller box's area is inside the larger box;
    /// more than 0, at most 1.
    pub containment: f32,
    /// Minimum fraction of the photo's area that a box must cover, 0 or more and less than 1.
    pub min_area: f32,
    /// True if group boxes (OpenImages' IsGroupOf) are excluded as parts of other boxes. They remain parts of their
    /// photo and may be wholes.
    pub drop_groups: bool,
}

impl Default for PartRule {
    /// 80 % containment, 1 % area, groups excluded.
    fn default() -> Self {
        Self { containment: 0.8, min_area: 0.01, drop_groups: true }
    }
}

/// Relative tolerance for rounding: boxes are f32 fractions of whole pixels, so a box at exactly the threshold may be
/// slightly below it.
const ROUNDING: f64 = 1e-6;

impl PartRule {
    /// Checks that `containment` and `min_area` are in their ranges.
    ///
    /// # Errors
    /// `containment` is not in (0, 1], or `min_area` is not in [0, 1).
    pub fn check(&self) -> Result<()> {
        let Self { containment, min_area, .. } = *self;
        if !(containment > 0.0 && containment <= 1.0) {
            return Err(Error::invalid("containment", containment.to_string(), "a share above 0, at most 1"));
        }
        if !(0.0..1.0).contains(&min_area) {
            return Err(Error::invalid(
                "min_area",
                min_area.to_string(),
                "a share of the photo, at least 0 and below 1",
            ));
        }
        Ok(())
    }

    /// Returns true if a box is large enough to be used: at least [`PartRule::min_area`] of the photo.
    pub fn keeps(&self, bbox: &BBox) -> bool {
        area(bbox) >= f64::from(self.min_area) * (1.0 - ROUNDING)
    }

    /// Returns true if a box is a part of another box: [`PartRule::contains`] holds and, with
    /// [`PartRule::drop_groups`], `group` is false.
    pub fn is_part(&self, whole: &BBox, part: &BBox, group: bool) -> bool {
        !(self.drop_groups && group) && self.contains(whole, part)
    }

    /// Returns true if `part` is inside `whole`: `area(part) < area(whole)` and
    /// `area(part ∩ whole) >= containment * area(part)`.
    ///
    /// Of two boxes with equal area neither is a part of the other, because relations in both directions would form a
    /// cycle.
    pub fn contains(&self, whole: &BBox, part: &BBox) -> bool {
        let own = area(part);
        let axis = |a1: f32, a2: f32, b1: f32, b2: f32| (f64::from(a2.min(b2)) - f64::from(a1.max(b1))).max(0.0);
        let shared = axis(whole.x1, whole.x2, part.x1, part.x2) * axis(whole.y1, whole.y2, part.y1, part.y2);
        own < area(whole) && shared >= f64::from(self.containment) * own * (1.0 - ROUNDING)
    }
}

/// The area is computed in f64, because rounding in f32 could make different areas equal.
fn area(bbox: &BBox) -> f64 {
    (f64::from(bbox.x2) - f64::from(bbox.x1)) * (f64::from(bbox.y2) - f64::from(bbox.y1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bbox(x1: f32, y1: f32, x2: f32, y2: f32) -> BBox {
        BBox { x1, y1, x2, y2 }
    }

    #[test]
    fn containment_threshold_is_inclusive() {
        let rule = PartRule::default();
        let whole = bbox(0.0, 0.0, 0.5, 0.5);
        // Width 0.1; the first exceeds the right border by 0.02 (exactly four fifths inside), the second by 0.021.
        assert!(rule.contains(&whole, &bbox(0.42, 0.1, 0.52, 0.3)));
        assert!(!rule.contains(&whole, &bbox(0.421, 0.1, 0.521, 0.3)));
        assert!(!rule.contains(&whole, &bbox(0.6, 0.6, 0.7, 0.7)), "disjoint boxes");
        assert!(!rule.contains(&bbox(0.42, 0.1, 0.52, 0.3), &whole), "a whole must not be a part of its part");
        let strict = PartRule { containment: 1.0, ..rule };
        assert!(!strict.contains(&whole, &bbox(0.42, 0.1, 0.52, 0.3)));
        assert!(strict.contains(&whole, &bbox(0.4, 0.1, 0.5, 0.3)));
    }

    #[test]
    fn boxes_of_equal_area_are_not_parts() {
        let rule = PartRule { containment: 0.5, ..PartRule::default() };
        let (one, other) = (bbox(0.0, 0.0, 0.5, 0.5), bbox(0.1, 0.0, 0.6, 0.5));
        assert!(!rule.contains(&one, &one));
        let wider = bbox(0.0, 0.0, 0.75, 0.5);
        assert!(rule.contains(&wider, &other) && !rule.contains(&other, &wider));
    }

    #[test]
    fn min_area_is_inclusive() {
        let rule = PartRule::default();
        assert!(rule.keeps(&bbox(0.3, 0.3, 0.4, 0.4)));
        assert!(!rule.keeps(&bbox(0.3, 0.3, 0.4, 0.399)));
        assert!(PartRule { min_area: 0.0, ..rule }.keeps(&bbox(0.3, 0.3, 0.301, 0.301)));
    }

    #[test]
    fn invalid_fractions_are_rejected() {
        let rule = PartRule::default();
        rule.check().unwrap();
        for containment in [0.0, -0.1, 1.1, f32::NAN] {
            let text = PartRule { containment, ..rule }.check().unwrap_err().to_string();
            assert_eq!(text, format!("data: `containment` is {containment}; expected a share above 0, at most 1"));
        }
        for min_area in [-0.1, 1.0, f32::NAN] {
            let text = PartRule { min_area, ..rule }.check().unwrap_err().to_string();
            assert!(text.contains(&format!("`min_area` is {min_area}; expected")), "{text}");
        }
        let read: PartRule = serde_json::from_str(r#"{"min_area": 0.5}"#).unwrap();
        assert_eq!(read, PartRule { min_area: 0.5, ..rule });
        assert!(serde_json::from_str::<PartRule>(r#"{"area": 0.5}"#).is_err());
    }
}
