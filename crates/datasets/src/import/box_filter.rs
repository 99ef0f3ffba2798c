//! Conditions under which an importer leaves out a box, as options of the importer. Photos without a remaining box are
//! kept.

use conifer_data::{BBox, Broken, Cause, Error, Result};

use super::{ImporterInputs, ImporterOption};

pub(super) const MIN_AREA: ImporterOption =
    ImporterOption { name: "min_area", help: "leave out boxes below this share of the photo's area (default 0)" };
pub(super) const MAX_AREA: ImporterOption =
    ImporterOption { name: "max_area", help: "leave out boxes above this share of the photo's area (default 1)" };
/// The option that names flags of the annotation; each importer documents its own flags.
pub(super) const LEAVE_OUT: &str = "leave_out";

/// Relative tolerance for rounding: a box at exactly a limit is kept, although its corners are f32 fractions.
const ROUNDING: f64 = 1e-6;

/// Limits on the area of a box, as fractions of the photo's area, and the flags of an annotation ("occluded") that
/// exclude a box.
#[derive(Clone, Debug)]
pub(crate) struct BoxFilter {
    min_area: f64,
    max_area: f64,
    left_out: Vec<&'static str>,
}

impl BoxFilter {
    /// Reads the filter options of an importer. `known` are the flags that the format has.
    ///
    /// # Errors
    /// A limit outside [0, 1], a minimum above the maximum, an unknown flag, or a flag that is named twice.
    pub(super) fn of(inputs: &ImporterInputs, known: &[&'static str]) -> Result<Self> {
        let share = |option: &ImporterOption, default: f64| match inputs.option(option.name) {
            None => Ok(default),
            Some(text) => text.trim().parse::<f64>().ok().filter(|it| (0.0..=1.0).contains(it)).ok_or_else(|| {
                Error::invalid(format!("option {}", option.name), text, "a share of the photo's area, 0 to 1")
            }),
        };
        let (min_area, max_area) = (share(&MIN_AREA, 0.0)?, share(&MAX_AREA, 1.0)?);
        if min_area > max_area {
            let expected = format!("at most max_area, {max_area}");
            return Err(Error::invalid("option min_area", min_area.to_string(), expected));
        }
        let mut left_out = Vec::new();
        for name in inputs.option(LEAVE_OUT).unwrap_or_default().split(',').map(str::trim) {
            if name.is_empty() {
                continue;
            }
            let flag = known.iter().find(|it| **it == name).filter(|it| !left_out.contains(*it)).ok_or_else(|| {
                let expected = format!("some of {}, each once, separated by commas", known.join(", "));
                Error::invalid(format!("option {LEAVE_OUT}"), name, expected)
            })?;
            left_out.push(*flag);
        }
        Ok(Self { min_area, max_area, left_out })
    }

    /// The flags that exclude a box.
    pub(super) fn flags(&self) -> &[&'static str] {
        &self.left_out
    }

    /// Checks a box. `has` returns whether the annotation sets a flag.
    ///
    /// # Errors
    /// A limit or a flag excludes the box. The cause is [`Cause::Filtered`], and the detail states the reason.
    pub(super) fn check(&self, sample: &str, bbox: &BBox, has: impl Fn(&str) -> bool) -> Result<(), Broken> {
        // Compute in f64, because the limits are exact decimal numbers.
        let area = (f64::from(bbox.x2) - f64::from(bbox.x1)) * (f64::from(bbox.y2) - f64::from(bbox.y1));
        let fault = |found: String| Err(Broken::new(sample, Cause::Filtered, found));
        if area < self.min_area * (1.0 - ROUNDING) {
            return fault(format!("box {bbox} covers {area:.4} of the photo; expected at least {}", self.min_area));
        }
        if area > self.max_area * (1.0 + ROUNDING) {
            return fault(format!("box {bbox} covers {area:.4} of the photo; expected at most {}", self.max_area));
        }
        match self.left_out.iter().find(|flag| has(flag)) {
            Some(flag) => fault(format!("box {bbox} is marked {flag}; {LEAVE_OUT} excludes it")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn filter(options: &[(&str, &str)]) -> Result<BoxFilter> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let inputs = ImporterInputs { importer: "openimages", files: Default::default(), options };
        BoxFilter::of(&inputs, &["occluded", "truncated"])
    }

    fn square(side: f32) -> BBox {
        BBox { x1: 0.0, y1: 0.0, x2: side, y2: side }
    }

    /// Squares of sides 0.1 and 0.9 cover 0.01 and 0.81 of the photo.
    #[test]
    fn limits_are_inclusive() {
        let filter =
            filter(&[("min_area", "0.01"), ("max_area", "0.81"), ("leave_out", "truncated, occluded")]).unwrap();
        let check = |side, flag: &str| filter.check("a", &square(side), |it| it == flag).map_err(|it| it.detail);
        assert_eq!((check(0.1, ""), check(0.9, "inside")), (Ok(()), Ok(())));
        assert_eq!(
            check(0.09, ""),
            Err("box [0, 0, 0.09, 0.09] covers 0.0081 of the photo; expected at least 0.01".into())
        );
        assert_eq!(check(1.0, ""), Err("box [0, 0, 1, 1] covers 1.0000 of the photo; expected at most 0.81".into()));
        assert_eq!(
            check(0.5, "occluded"),
            Err("box [0, 0, 0.5, 0.5] is marked occluded; leave_out excludes it".into())
        );
    }

    #[test]
    fn without_options_every_box_is_kept() {
        let filter = filter(&[]).unwrap();
        assert!(filter.flags().is_empty());
        assert!([0.001, 1.0].iter().all(|&side| filter.check("a", &square(side), |_| true).is_ok()));
    }

    #[test]
    fn invalid_options_are_rejected() {
        let message = |options: &[(&str, &str)]| filter(options).unwrap_err().to_string();
        for value in ["-0.1", "1.5", "NaN", "small"] {
            assert_eq!(
                message(&[("max_area", value)]),
                format!("data: `option max_area` is {value}; expected a share of the photo's area, 0 to 1")
            );
        }
        assert_eq!(
            message(&[("min_area", "0.5"), ("max_area", "0.4")]),
            "data: `option min_area` is 0.5; expected at most max_area, 0.4"
        );
        for value in ["depiction", "occluded,occluded"] {
            let text = message(&[("leave_out", value)]);
            assert!(text.ends_with("expected some of occluded, truncated, each once, separated by commas"), "{text}");
        }
    }
}
