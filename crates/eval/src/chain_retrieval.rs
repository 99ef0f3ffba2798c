//! Retrieves the chain of texts of one photo or text, from general to specific (HierarCaps, supplement Sec. 2.5).

use std::borrow::Cow;
use std::collections::BTreeMap;

use conifer_geometry::{ManifoldSpec, Root, space};
use rayon::prelude::*;

use crate::metrics::{best_within_levels, depth_levels, ordering_by_ascending};
use crate::{Error, Result};

/// Name of the column of an embedding set that holds the true caption chain of a photo: a JSON list of texts from
/// general to specific.
pub const TIERS_COLUMN: &str = "tiers";

/// A protocol of the chain retrieval of HierarCaps: the radii of the balls around the root, and whether the first
/// retrieved text counts. The supplement and the released evaluator differ in both (DEVIATIONS.md, E4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainProtocol {
    /// Name in records and API responses.
    pub name: &'static str,
    /// True if the radii go from the root to the text closest to the query; false if they go from the shallowest to the
    /// deepest candidate and are the same for every query.
    pub per_query: bool,
    /// False if the first retrieved text, which is nearest to the root, is left out.
    pub first_kept: bool,
}

/// All protocols.
pub const CHAIN_PROTOCOLS: [ChainProtocol; 4] = [
    ChainProtocol::RELEASED,
    ChainProtocol::RELEASED_FIRST_LEFT_OUT,
    ChainProtocol::PAPER,
    ChainProtocol::PAPER_FIRST_KEPT,
];

impl ChainProtocol {
    /// Radii and first text as in the released evaluator.
    pub const RELEASED: Self = Self { name: "released", per_query: false, first_kept: true };
    /// Radii as in the released evaluator, but without the first text.
    pub const RELEASED_FIRST_LEFT_OUT: Self =
        Self { name: "released, first left out", per_query: false, first_kept: false };
    /// Radii and first text as in the supplement.
    pub const PAPER: Self = Self { name: "paper", per_query: true, first_kept: false };
    /// Radii as in the supplement, but with the first text.
    pub const PAPER_FIRST_KEPT: Self = Self { name: "paper, first kept", per_query: true, first_kept: true };

    /// The `steps` radii for candidates at `depths` and a query whose closest candidate is at depth `closest`.
    pub fn levels(self, depths: &[f64], closest: f64, steps: usize) -> Vec<f64> {
        match self.per_query {
            true => depth_levels(&[0.0, closest], steps),
            false => depth_levels(depths, steps),
        }
    }
}

/// A query of [`retrieve_text_chain`].
#[derive(Clone, Copy, Debug)]
pub struct ChainQuery<'a> {
    /// Space of the query and of the candidates.
    pub spec: &'a ManifoldSpec,
    /// Centre of the ball that widens.
    pub root: &'a Root,
    /// The point of the photo or text.
    pub point: &'a [f32],
    /// Range of the radii, and whether the first text counts.
    pub protocol: ChainProtocol,
    /// Number of radii.
    pub steps: usize,
}

/// A chain of candidates, from general to specific.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievedChain {
    /// The best candidate within each radius.
    pub levels: Vec<RetrievedLevel>,
    /// The texts of the levels, each once.
    pub tiers: Vec<RetrievedText>,
    /// The first text, if the protocol leaves it out.
    pub left_out: Option<RetrievedText>,
    /// Index of the candidate most similar to the query, at any depth.
    pub closest: usize,
}

/// The result for one radius of the ball.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrievedLevel {
    /// Radius of the ball, as a distance from the root.
    pub radius: f64,
    /// The candidate most similar to the query among those within the radius; `None` if there are none.
    pub candidate: Option<usize>,
}

/// A text of a retrieved chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrievedText {
    /// Index of the candidate.
    pub candidate: usize,
    /// The smallest radius that retrieves the text.
    pub radius: f64,
    /// Distance of the text from the root.
    pub depth: f64,
    /// Similarity of the text to the query.
    pub similarity: f32,
}

/// Retrieves the chain of a query: at each radius, the candidate within the radius that is most similar to the query.
/// A candidate joins the chain if its text differs from the previous one.
///
/// `texts[i]` and `row(i)` are the text and the point of candidate i. Depths are computed in f64: two candidates whose
/// depths differ only in the last bits of f32 must not tie.
///
/// # Errors
/// There is no candidate; `steps` is 0; a point has a wrong length, or its depth or similarity is not a number; `spec`
/// or `root` is invalid.
pub fn retrieve_text_chain<'a>(
    query: &ChainQuery<'_>,
    texts: &[&str],
    row: impl Fn(usize) -> Cow<'a, [f32]> + Sync,
) -> Result<RetrievedChain> {
    let ChainQuery { spec, root, point, protocol, steps } = *query;
    if texts.is_empty() {
        return Err(invalid("the number of candidates of a chain", 0, "at least 1 text"));
    }
    if steps == 0 {
        return Err(invalid("steps", 0, "at least 1 radius"));
    }
    if point.len() != spec.dim {
        return Err(invalid(
            "the query",
            format!("a list of {} numbers", point.len()),
            format!("{} numbers", spec.dim),
        ));
    }
    let (space64, space32) = (space::<f64>(spec)?, space::<f32>(spec)?);
    root.check(spec)?;
    let measure = |i: usize| {
        let row = row(i);
        if row.len() != spec.dim {
            let found = format!("a list of {} numbers", row.len());
            return Err(invalid(format!("candidate {i}"), found, format!("{} numbers", spec.dim)));
        }
        let wide: Vec<f64> = row.iter().map(|&v| f64::from(v)).collect();
        let (depth, similarity) = (space64.depth(&wide, root), space32.similarity(point, &row));
        match depth.is_nan() || similarity.is_nan() {
            true => Err(invalid(
                format!("depth and similarity of candidate {i}"),
                format!("{depth} and {similarity}"),
                "numbers",
            )),
            false => Ok((depth, similarity)),
        }
    };
    let measured = (0..texts.len()).into_par_iter().map(measure).collect::<Result<Vec<_>>>()?;
    let (depths, scores): (Vec<f64>, Vec<f32>) = measured.into_iter().unzip();

    let closest = (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
    let levels = protocol.levels(&depths, depths[closest], steps);
    let within = best_within_levels(&ordering_by_ascending(&depths), &depths, &levels, &scores);
    let levels: Vec<RetrievedLevel> =
        levels.into_iter().zip(within).map(|(radius, candidate)| RetrievedLevel { radius, candidate }).collect();

    let text = |level: &RetrievedLevel| {
        let candidate = level.candidate?;
        let (depth, similarity) = (depths[candidate], scores[candidate]);
        Some(RetrievedText { candidate, radius: level.radius, depth, similarity })
    };
    let mut tiers: Vec<RetrievedText> = levels.iter().filter_map(text).collect();
    tiers.dedup_by(|next, last| texts[next.candidate] == texts[last.candidate]);
    let left_out = if protocol.first_kept || tiers.is_empty() { None } else { Some(tiers.remove(0)) };
    Ok(RetrievedChain { levels, tiers, left_out, closest })
}

/// For each text, the index of the first text with the same spelling.
pub(crate) fn spellings(texts: &[&str]) -> Vec<usize> {
    let mut first = BTreeMap::new();
    texts.iter().enumerate().map(|(i, &text)| *first.entry(text).or_insert(i)).collect()
}

fn invalid(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Error {
    Error::Invalid { name: name.into(), found: found.to_string(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXTS: [&str; 4] = ["animal", "dog", "a dog runs", "cat"];
    /// The depths are 1, 2, 4 and 2.
    static POINTS: [[f32; 2]; 4] = [[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [0.0, 2.0]];

    fn retrieved(point: [f32; 2], protocol: ChainProtocol, steps: usize) -> RetrievedChain {
        let spec = ManifoldSpec::euclidean(2);
        let query = ChainQuery { spec: &spec, root: &Root::Origin, point: &point, protocol, steps };
        retrieve_text_chain(&query, &TEXTS, |i| Cow::Borrowed(&POINTS[i][..])).unwrap()
    }

    /// The query (3.5, 0.1) is closest to "a dog runs" at depth 4, so five radii of the paper's protocol are 0, 1, 2, 3
    /// and 4.
    #[test]
    fn chain_by_hand() {
        let chain = retrieved([3.5, 0.1], ChainProtocol::PAPER, 5);
        let radii: Vec<f64> = chain.levels.iter().map(|it| it.radius).collect();
        let within: Vec<_> = chain.levels.iter().map(|it| it.candidate).collect();
        assert_eq!(radii, [0.0, 1.0, 2.0, 3.0, 4.0]);
        // "cat" is also within radius 2, but "dog" is more similar to the query.
        assert_eq!(within, [None, Some(0), Some(1), Some(1), Some(2)]);
        assert_eq!(chain.closest, 2);
        let tiers = |chain: &RetrievedChain| -> Vec<(&str, f64, f64)> {
            chain.tiers.iter().map(|it| (TEXTS[it.candidate], it.radius, it.depth)).collect()
        };
        assert_eq!(tiers(&chain), [("dog", 2.0, 2.0), ("a dog runs", 4.0, 4.0)]);
        assert_eq!(chain.left_out.map(|it| TEXTS[it.candidate]), Some("animal"));
        let kept = retrieved([3.5, 0.1], ChainProtocol::PAPER_FIRST_KEPT, 5);
        assert_eq!(tiers(&kept), [("animal", 1.0, 1.0), ("dog", 2.0, 2.0), ("a dog runs", 4.0, 4.0)]);
        assert!(kept.left_out.is_none());
    }

    /// The query (0, 1.9) is closest to "cat" at depth 2, so the paper's radii end there. The radii of the released
    /// evaluator end at depth 4, the depth of the deepest candidate.
    #[test]
    fn radii_depend_on_the_protocol() {
        let last = |protocol| retrieved([0.0, 1.9], protocol, 4).levels[3].radius;
        assert_eq!((last(ChainProtocol::PAPER), last(ChainProtocol::RELEASED)), (2.0, 4.0));
        let first = |protocol| retrieved([0.0, 1.9], protocol, 4).levels[0].radius;
        assert_eq!((first(ChainProtocol::PAPER), first(ChainProtocol::RELEASED)), (0.0, 1.0));
        // With one step the only radius of the paper's protocol is 0, which contains no text.
        let one = retrieved([0.0, 1.9], ChainProtocol::PAPER, 1);
        assert!(one.tiers.is_empty() && one.left_out.is_none());
    }

    #[test]
    fn equal_spelling_is_one_text() {
        let spec = ManifoldSpec::euclidean(2);
        let protocol = ChainProtocol::PAPER_FIRST_KEPT;
        let query = ChainQuery { spec: &spec, root: &Root::Origin, point: &[3.5, 0.1], protocol, steps: 5 };
        let chain =
            retrieve_text_chain(&query, &["dog", "dog", "a dog runs", "cat"], |i| Cow::Borrowed(&POINTS[i][..]));
        let candidates: Vec<usize> = chain.unwrap().tiers.iter().map(|it| it.candidate).collect();
        assert_eq!(candidates, [0, 2]);
        assert_eq!(spellings(&["dog", "cat", "dog"]), [0, 1, 0]);
    }

    #[test]
    fn invalid_queries_are_refused_by_name() {
        let spec = ManifoldSpec::euclidean(2);
        let said = |point: &[f32], steps: usize, texts: &[&str], row: &[f32]| {
            let protocol = ChainProtocol::PAPER;
            let query = ChainQuery { spec: &spec, root: &Root::Origin, point, protocol, steps };
            retrieve_text_chain(&query, texts, |_| Cow::Owned(row.to_vec())).unwrap_err().to_string()
        };
        assert_eq!(
            said(&[0.0; 2], 5, &[], &[0.0; 2]),
            "the number of candidates of a chain is 0; expected at least 1 text"
        );
        assert_eq!(said(&[0.0; 2], 0, &["a"], &[0.0; 2]), "steps is 0; expected at least 1 radius");
        assert_eq!(said(&[0.0; 3], 5, &["a"], &[0.0; 2]), "the query is a list of 3 numbers; expected 2 numbers");
        assert_eq!(said(&[0.0; 2], 5, &["a"], &[0.0]), "candidate 0 is a list of 1 numbers; expected 2 numbers");
        let nan = said(&[0.0; 2], 5, &["a"], &[f32::NAN, 0.0]);
        assert!(nan.contains("candidate 0") && nan.contains("NaN"), "{nan}");
        let query = ChainQuery {
            spec: &spec,
            root: &Root::Point(vec![0.0]),
            point: &[0.0; 2],
            protocol: ChainProtocol::PAPER,
            steps: 5,
        };
        let root = retrieve_text_chain(&query, &["a"], |_| Cow::Owned(vec![0.0; 2])).unwrap_err().to_string();
        assert!(root.contains("root is a point of 1 numbers"), "{root}");
    }
}
