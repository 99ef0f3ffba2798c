//! When a box is a part of another: the rule behind part-of hierarchies.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sample::BBox;

/// Rules by which a box is a part of another (Wang et al., "Learning Visual Hierarchies in Hyperbolic Space for Image Retrieval", Sec. 3.1, App. A and B.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartRule {
    /// Share of the smaller box's area that lies inside the larger one, at least; in (0, 1].
    pub containment: f32,
    /// Share of the photo's area that a box covers, at least; in [0, 1).
    pub min_area: f32,
    /// Whether a box of several things (OpenImages' IsGroupOf) is no part of another box. It still is a part of its photo, and may be a
    /// whole.
    pub drop_groups: bool,
}

impl Default for PartRule {
    /// 80 %, 1 %, groups dropped.
    fn default() -> Self {
        Self { containment: 0.8, min_area: 0.01, drop_groups: true }
    }
}

/// Boxes are f32 fractions of whole pixels: a box that is inside by exactly the share asked for may come out a rounding below it.
const ROUNDING: f64 = 1e-6;

impl PartRule {
    /// Refuses shares that no pair of boxes, or every pair, would meet.
    ///
    /// # Errors
    /// `containment` outside (0, 1], `min_area` outside [0, 1), or either not a number.
    pub fn check(&self) -> Result<()> {
        let Self { containment, min_area, .. } = *self;
        if !(containment > 0.0 && containment <= 1.0) {
            return Err(Error::config("containment", containment.to_string(), "a share above 0, at most 1"));
        }
        if !(0.0..1.0).contains(&min_area) {
            return Err(Error::config(
                "min_area",
                min_area.to_string(),
                "a share of the photo, at least 0 and below 1",
            ));
        }
        Ok(())
    }

    /// Whether a box is large enough to be used at all: at least [`PartRule::min_area`] of the photo.
    pub fn keeps(&self, bbox: &BBox) -> bool {
        area(bbox) >= f64::from(self.min_area) * (1.0 - ROUNDING)
    }

    /// Whether a box is a part of another one: [`PartRule::contains`], and with [`PartRule::drop_groups`] no `group` of several things.
    pub fn is_part(&self, whole: &BBox, part: &BBox, group: bool) -> bool {
        !(self.drop_groups && group) && self.contains(whole, part)
    }

    /// Whether `part` lies inside `whole`: `area(part) < area(whole)` and `area(part ∩ whole) >= containment * area(part)`.
    ///
    /// Of two boxes of equal area neither is a part of the other: which one comes first in a file says nothing, and a relation in both
    /// directions would be a cycle.
    pub fn contains(&self, whole: &BBox, part: &BBox) -> bool {
        let own = area(part);
        let axis = |a1: f32, a2: f32, b1: f32, b2: f32| (f64::from(a2.min(b2)) - f64::from(a1.max(b1))).max(0.0);
        let shared = axis(whole.x1, whole.x2, part.x1, part.x2) * axis(whole.y1, whole.y2, part.y1, part.y2);
        own < area(whole) && shared >= f64::from(self.containment) * own * (1.0 - ROUNDING)
    }
}

/// In f64: the f32 product would tie boxes that are not equal.
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
    fn four_fifths_inside_is_a_part_and_less_is_none() {
        let rule = PartRule::default();
        let whole = bbox(0.0, 0.0, 0.5, 0.5);
        // Of width 0.1, reaching over the right border by 0.02 (exactly four fifths inside) and by 0.021.
        assert!(rule.contains(&whole, &bbox(0.42, 0.1, 0.52, 0.3)));
        assert!(!rule.contains(&whole, &bbox(0.421, 0.1, 0.521, 0.3)));
        assert!(!rule.contains(&whole, &bbox(0.6, 0.6, 0.7, 0.7)), "apart");
        assert!(!rule.contains(&bbox(0.42, 0.1, 0.52, 0.3), &whole), "a whole is no part of its part");
        let strict = PartRule { containment: 1.0, ..rule };
        assert!(!strict.contains(&whole, &bbox(0.42, 0.1, 0.52, 0.3)));
        assert!(strict.contains(&whole, &bbox(0.4, 0.1, 0.5, 0.3)));
    }

    #[test]
    fn boxes_of_one_area_are_no_parts_of_each_other() {
        let rule = PartRule { containment: 0.5, ..PartRule::default() };
        let (one, other) = (bbox(0.0, 0.0, 0.5, 0.5), bbox(0.1, 0.0, 0.6, 0.5));
        assert!(!rule.contains(&one, &one));
        let wider = bbox(0.0, 0.0, 0.75, 0.5);
        assert!(rule.contains(&wider, &other) && !rule.contains(&other, &wider));
    }

    #[test]
    fn a_hundredth_of_the_photo_is_kept_and_less_is_not() {
        let rule = PartRule::default();
        assert!(rule.keeps(&bbox(0.3, 0.3, 0.4, 0.4)));
        assert!(!rule.keeps(&bbox(0.3, 0.3, 0.4, 0.399)));
        assert!(PartRule { min_area: 0.0, ..rule }.keeps(&bbox(0.3, 0.3, 0.301, 0.301)));
    }

    #[test]
    fn shares_that_are_none_are_refused() {
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
