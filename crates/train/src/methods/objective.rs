//! Objectives that are weighted sums of contrastive terms and cones over the parts of a grounded pair.
//!
//! ```text
//! contrastive = sum_c weight_c * mean_b info_nce_c(b)
//! entailment  = sum_e weight_e * mean_b cone_e(b)
//! total       = contrastive + entailment_weight * entailment
//! ```
//!
//! CLIP, MERU, HyCoCLIP and PHyCLIP have this form, so the file of each only lists the pairs of parts and their
//! weights. Means over the batch replace the sums printed in the papers (DEVIATIONS.md).

use burn::tensor::Tensor;
use conifer_data::View;
use serde::{Deserialize, Serialize};

use super::{BatchPoints, BatchSpace, Loss, Method, WeightedTerm};
use crate::terms::{ConeShape, Denominator, cone, contrast, contrast_both_ways};
use crate::{Error, Result};

/// A part of a grounded pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViewPart {
    /// The whole photograph.
    Image,
    /// The whole caption.
    Text,
    /// A box cut out of the photograph.
    BoxImage,
    /// The phrase of that box.
    BoxText,
}

/// How a method without box terms uses boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boxes {
    /// Boxes are not read.
    None,
    /// Each box and its phrase are appended as one more pair per sample: the batch has 2B pairs.
    Samples,
}

/// A contrastive term: query i against all candidates, of which candidate i is the positive.
#[derive(Clone, Debug)]
pub struct ContrastTerm {
    /// Name in the log and in the settings.
    pub name: &'static str,
    /// Part that provides the queries.
    pub query: ViewPart,
    /// Part that provides the candidates.
    pub candidates: ViewPart,
    /// Factor in the contrastive sum.
    pub weight: f64,
}

/// A cone term: child i should lie in the cone of parent i.
#[derive(Clone, Debug)]
pub struct ConeTerm {
    /// Name in the log and in the settings.
    pub name: &'static str,
    /// The general side, which has the cone.
    pub parent: ViewPart,
    /// The specific side, which should lie in the cone.
    pub child: ViewPart,
    /// Shape of the cones.
    pub shape: ConeShape,
    /// Factor in the entailment sum.
    pub weight: f64,
}

/// An objective that is a weighted sum of contrastive terms and cone terms.
#[derive(Clone, Debug)]
pub struct Objective {
    /// Name of the method.
    pub method: &'static str,
    /// The paper, and the equations that the objective implements.
    pub reference: &'static str,
    /// Contrastive terms.
    pub contrasts: Vec<ContrastTerm>,
    /// Cone terms.
    pub cones: Vec<ConeTerm>,
    /// gamma: factor of the entailment sum in the total.
    pub entailment_weight: f64,
    /// Candidates in the softmax denominators.
    pub denominator: Denominator,
    /// With [`Boxes::Samples`] every term has 2B pairs. Only for objectives without box terms.
    pub boxes: Boxes,
}

impl Method for Objective {
    fn name(&self) -> &'static str {
        self.method
    }

    fn reference(&self) -> &'static str {
        self.reference
    }

    fn views(&self) -> &'static [View] {
        views_of(&self.parts())
    }

    fn loss(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Loss> {
        self.check_batch(batch)?;
        let merged;
        let batch = if self.boxes == Boxes::Samples {
            merged = self.append_boxes(batch)?;
            &merged
        } else {
            batch
        };

        let contrasts = self.contrast_losses(batch, space)?;
        let mut cones = Vec::new();
        for term in &self.cones {
            let [parent, child] = [self.read(batch, term.parent)?, self.read(batch, term.child)?];
            cones.push((term.name, term.weight, cone(space, parent, child, &term.shape)?));
        }
        Loss::of_groups(space, vec![("contrastive", 1.0, contrasts), ("entailment", self.entailment_weight, cones)])
    }
}

impl Objective {
    /// Keeps the terms for which `on(name)` is true.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no term is left.
    pub fn keep(mut self, on: impl Fn(&str) -> bool) -> Result<Self> {
        self.contrasts.retain(|term| on(term.name));
        self.cones.retain(|term| on(term.name));
        if self.contrasts.is_empty() && self.cones.is_empty() {
            return Err(Error::invalid("method.terms", "all false", format!("at least one term of {}", self.method)));
        }
        Ok(self)
    }

    /// Name, weight and losses of every contrastive term. The similarity is symmetric, so two terms that only swap
    /// query and candidates share one similarity matrix: one uses its rows, the other its columns.
    pub(super) fn contrast_losses(&self, batch: &BatchPoints, space: &BatchSpace) -> Result<Vec<WeightedTerm>> {
        let mut known: Vec<(ViewPart, ViewPart, Tensor<1>)> = Vec::new();
        let mut losses = Vec::new();
        for term in &self.contrasts {
            let [from, to] = [term.query, term.candidates];
            let of_term =
                |(query, candidates, _): &&(ViewPart, ViewPart, Tensor<1>)| (*query, *candidates) == (from, to);
            let values = match known.iter().find(of_term) {
                Some((_, _, values)) => values.clone(),
                None => {
                    let [query, candidates] = [self.read(batch, from)?, self.read(batch, to)?];
                    let both =
                        from != to && self.contrasts.iter().any(|other| (other.query, other.candidates) == (to, from));
                    if both {
                        let (there, back) = contrast_both_ways(space, self.denominator, &query, &candidates);
                        known.push((to, from, back));
                        there
                    } else {
                        let scale = space.logit_scale.clone();
                        let similarity = |query, candidates| space.manifold.pairwise_similarity(query, candidates);
                        contrast(space, scale, self.denominator, &query, &candidates, similarity)
                    }
                }
            };
            losses.push((term.name, term.weight, values));
        }
        Ok(losses)
    }

    fn parts(&self) -> Vec<ViewPart> {
        let contrasts = self.contrasts.iter().flat_map(|term| [term.query, term.candidates]);
        let cones = self.cones.iter().flat_map(|term| [term.parent, term.child]);
        let mut parts: Vec<ViewPart> = contrasts.chain(cones).collect();
        if self.boxes == Boxes::Samples {
            parts.extend([ViewPart::BoxImage, ViewPart::BoxText]);
        }
        parts.sort();
        parts.dedup();
        parts
    }

    fn check_batch(&self, batch: &BatchPoints) -> Result<()> {
        let min_rows = match self.denominator {
            Denominator::Negatives => 2,
            Denominator::All => 1,
        };
        batch.check_parts(self.method, &self.parts(), min_rows)
    }

    fn read(&self, batch: &BatchPoints, part: ViewPart) -> Result<Tensor<2>> {
        batch.part(self.method, part).cloned()
    }

    fn append_boxes(&self, batch: &BatchPoints) -> Result<BatchPoints> {
        let join =
            |whole, part| Ok::<_, Error>(Some(Tensor::cat(vec![self.read(batch, whole)?, self.read(batch, part)?], 0)));
        Ok(BatchPoints {
            image: join(ViewPart::Image, ViewPart::BoxImage)?,
            text: join(ViewPart::Text, ViewPart::BoxText)?,
            ..BatchPoints::default()
        })
    }
}

impl ViewPart {
    pub(super) fn is_box(self) -> bool {
        matches!(self, ViewPart::BoxImage | ViewPart::BoxText)
    }

    fn column(self) -> &'static str {
        match self {
            ViewPart::Image => "image",
            ViewPart::Text => "text",
            ViewPart::BoxImage => "box_image",
            ViewPart::BoxText => "box_text",
        }
    }
}

/// The views that contain `parts`.
pub(super) fn views_of(parts: &[ViewPart]) -> &'static [View] {
    let reads = |some: [ViewPart; 2]| parts.iter().any(|part| some.contains(part));
    match (reads([ViewPart::Image, ViewPart::Text]), reads([ViewPart::BoxImage, ViewPart::BoxText])) {
        (true, true) => &[View::Pair, View::Boxes],
        (false, true) => &[View::Boxes],
        _ => &[View::Pair],
    }
}

impl BatchPoints {
    /// Returns the points of one part. `method` names the training method in error messages.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they are missing.
    pub(super) fn part(&self, method: &str, part: ViewPart) -> Result<&Tensor<2>> {
        let points = match part {
            ViewPart::Image => &self.image,
            ViewPart::Text => &self.text,
            ViewPart::BoxImage => &self.box_image,
            ViewPart::BoxText => &self.box_text,
        };
        points.as_ref().ok_or_else(|| {
            let view = if part.is_box() { "boxes" } else { "pair" };
            let expected = format!("one point per sample ({method} reads the view `{view}`)");
            Error::invalid(format!("{} of the batch", part.column()), "missing", expected)
        })
    }

    /// Checks that `parts` are present, have equal shapes and at least `min_rows` rows.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a missing part, [`Error::Shape`] for a wrong shape.
    pub(super) fn check_parts(&self, method: &str, parts: &[ViewPart], min_rows: usize) -> Result<()> {
        let mut shape = None;
        for &part in parts {
            let found = self.part(method, part)?.dims();
            let expected = *shape.get_or_insert(found);
            let wrong = |expected| Error::Shape { name: part.column().to_owned(), found: found.to_vec(), expected };
            if found != expected {
                return Err(wrong(format!("{expected:?}, as the other views of the batch")));
            }
            if found[0] < min_rows {
                return Err(wrong(format!("a batch of at least {min_rows} for {method}")));
            }
        }
        Ok(())
    }
}
