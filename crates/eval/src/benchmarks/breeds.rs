use std::collections::{BTreeMap, BTreeSet, HashMap};

use conifer_data::{ImageRef, Sample};
use conifer_space::{Root, space};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rayon::prelude::*;

use super::zero_shot_classification::class_points;
use super::{Benchmark, Context, Input, images, lacking, prompts};
use crate::record::{Baseline, Place, Record};
use crate::score::similarity_rows;
use crate::{Error, Outcomes, Result};

/// A photo finds its pair of a general and a specific label (BREEDS, as HierarCaps Sec. 5 and supplement 2.6 use it).
///
/// A pair (x, y) scores `c_x + c_y + C Xi_r(x, y)`: `c` is the similarity of the photo and a label's prompt ensemble, `Xi_r` the exterior
/// angle at x seen from the root, radians. The paper prints `+C`, which rewards pairs that do *not* lie behind each other; both signs
/// are reported, and C = 0. C is chosen among 20 values from 0 to 0.2 for each metric, on one half of the photos (drawn by the seed) for
/// the other; the number is the mean of the two halves (supplement 2.6). Of values that do equally well the smallest is taken.
///
/// Which pairs are candidates the paper does not say, and it decides the number. Three sets are reported, see [`Candidates`].
/// Only the photo's own pair is right; a tie with another one is lost, so two labels that read alike never win against each other.
///
/// Beside them stand the five prompts with two slots of supplement Table 6, each pair in one prompt. They are measured on every set of at
/// most 20000 pairs (each needs a text embedded); the protocol says when a set is larger.
///
/// The pair of a sample is the last two names of its taxon, or of its class where the source lists classes (then every class is a
/// candidate). Samples whose taxon is shorter are left out, and the protocol says so.
pub(super) struct Breeds;

const TOP: [usize; 2] = [1, 5];
/// What makes a place: those behind it are not counted.
const DEEPEST: usize = 5;
/// Values of C of one sign, 0 among them.
const VALUES: usize = 20;
const LARGEST: f64 = 0.2;
/// Most texts that are embedded for one prompt of two slots.
const MOST_PROMPTS: usize = 20_000;

/// Supplement Table 6. Which slot takes which label is not said there: this is how they read.
const TWO_SLOTS: [&str; 5] = [
    "a picture of a {specific}, a type of {general}",
    "a {general} of type {specific}",
    "this is a {specific}, a type of {general}",
    "a picture of a {general} of type {specific}",
    "a picture of a {specific} which is a {general}",
];

/// Which pairs compete, each set a part of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Candidates {
    /// Each specific label with the general one above it.
    Tree,
    /// Any general label first, any specific one second.
    Product,
    /// Any two labels: what supplement 3.7 calls "the pair of distinct labels". Only here does the order within a pair have to be found,
    /// so that two published numbers speak for it: .01 at most for one prompt (Table 6), and .04 in place of .24 with the root in the
    /// centre of the sphere (Table 2), where the angle of a pair is the same in both orders.
    Ordered,
}

impl Candidates {
    const ALL: [Self; 3] = [Self::Tree, Self::Product, Self::Ordered];

    fn name(self) -> &'static str {
        match self {
            Self::Tree => "pairs of the tree",
            Self::Product => "general x specific",
            Self::Ordered => "any two labels",
        }
    }
}

impl Benchmark for Breeds {
    fn name(&self) -> &'static str {
        "breeds"
    }
    fn summary(&self) -> &'static str {
        "recall@1/5 of a photo's pair of superclass and subclass, by similarities and exterior angle"
    }
    fn reference(&self) -> &'static str {
        "HierarCaps Table 2, supplement Tables 2 and 6"
    }
    fn needs(&self) -> &'static [Input] {
        &[Input::Images, Input::Taxa]
    }

    fn prompts(&self) -> bool {
        true
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let task = Task::of(self.name(), context)?;
        let photos = context.embedder.images(&task.photos, context.options.crop)?;
        let mut records = task.by_angle(context, &photos)?;
        records.extend(task.by_prompt(context, &photos)?);
        Ok(records)
    }
}

/// Labels are numbered: the general ones, sorted, then the specific ones, sorted. A text may be both.
struct Task {
    photos: Vec<ImageRef>,
    labels: Vec<String>,
    general: usize,
    /// Sorted.
    tree: Vec<(usize, usize)>,
    /// For each photo the index of its pair in `tree`.
    right: Vec<usize>,
}

impl Task {
    fn of(benchmark: &'static str, context: &Context<'_>) -> Result<Self> {
        let all = context.samples(benchmark)?;
        let total = all.len();
        let mut of_label: HashMap<String, (String, String)> = HashMap::new();
        if !context.source.classes().is_empty() {
            for class in context.classes(benchmark, &all)? {
                of_label.extend(last_two(&class.taxon).map(|pair| (class.label, pair)));
            }
        }
        let pair_of = |sample: &Sample| {
            let listed = sample.label.as_ref().and_then(|label| of_label.get(label));
            listed.cloned().or_else(|| last_two(&sample.taxon))
        };
        let (samples, pairs): (Vec<Sample>, Vec<_>) =
            all.into_iter().filter_map(|it| pair_of(&it).map(|pair| (it, pair))).unzip();
        let Some(first) = samples.first() else {
            return Err(Error::Missing {
                benchmark,
                missing: "the taxon of every sample".into(),
                expected: "at least two names, general before specific".into(),
            });
        };
        if samples.len() == 1 {
            return Err(lacking(
                benchmark,
                first,
                "any other photo than that",
                "C is chosen on one half for the other",
            ));
        }
        if samples.len() < total {
            context.leaves_out(format!("{} of {total} samples have a pair of names", samples.len()));
        }
        let named: BTreeSet<_> = pairs.iter().chain(of_label.values()).collect();
        let number = |names: BTreeSet<&String>, from: usize| -> BTreeMap<String, usize> {
            names.into_iter().cloned().zip(from..).collect()
        };
        let general = number(named.iter().map(|(general, _)| general).collect(), 0);
        let specific = number(named.iter().map(|(_, specific)| specific).collect(), general.len());
        let numbers = |(x, y): &(String, String)| Some((*general.get(x)?, *specific.get(y)?));
        let tree: Vec<_> = named.iter().filter_map(|pair| numbers(pair)).collect::<BTreeSet<_>>().into_iter().collect();
        let right = pairs.iter().filter_map(|pair| tree.binary_search(&numbers(pair)?).ok()).collect();
        Ok(Self {
            photos: images(benchmark, &samples)?,
            general: general.len(),
            labels: general.into_keys().chain(specific.into_keys()).collect(),
            tree,
            right,
        })
    }

    /// Number of candidate pairs.
    fn count(&self, candidates: Candidates) -> usize {
        match candidates {
            Candidates::Tree => self.tree.len(),
            Candidates::Product => self.general * (self.labels.len() - self.general),
            Candidates::Ordered => self.labels.len() * (self.labels.len() - 1),
        }
    }

    /// Expected recall@k of a random order.
    fn chance(&self, candidates: Candidates, k: usize) -> f64 {
        k.min(self.count(candidates)) as f64 / self.count(candidates) as f64
    }

    fn by_angle(&self, context: &Context<'_>, photos: &[f32]) -> Result<Vec<Record>> {
        let (benchmark, options) = (Breeds.name(), context.options);
        let names: Vec<String> = self.labels.iter().map(|label| prompts::words(label)).collect();
        let centres = class_points(context, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let angles = angles(context, &centres)?;
        let constants = constants();
        let places = similarity_rows(context.embedder.spec(), options.score, photos, &centres, |photo, scores| {
            let right = *self.right.get(photo).and_then(|&pair| self.tree.get(pair))?;
            let finite = scores.iter().all(|score| score.is_finite());
            finite.then(|| constants.iter().map(|&c| self.places(scores, &angles, c as f32, right)).collect::<Vec<_>>())
        })?;
        let places: Vec<Vec<[usize; 3]>> = places
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| Error::Embedder("a similarity is not a number".into()))?;
        let folds = halves(places.len(), options.seed);

        // The values of each sign by their size, so that of equally good ones the smallest comes first.
        let up: Vec<usize> = (VALUES - 1..constants.len()).collect();
        let down: Vec<usize> = (0..VALUES).rev().collect();
        let mut records = Vec::new();
        for (column, candidates) in Candidates::ALL.into_iter().enumerate() {
            for (sign, tried) in [("-C angle", &down[..]), ("+C angle, as printed", &up), ("C = 0", &up[..1])] {
                let (ensemble, score) = (options.templates.len(), options.score.name());
                let protocol = format!("{sign}, {}, {ensemble} prompts, {score}", candidates.name());
                for k in TOP {
                    let hit = |photo: usize, at: usize| places[photo][at][column] < k;
                    let chosen = chosen(tried, &folds, hit);
                    // Each half gets what the other one chose.
                    let used: Vec<usize> = folds.iter().map(|&fold| chosen[1 - fold as usize]).collect();
                    let values =
                        used.iter().enumerate().map(|(photo, &at)| f64::from(u8::from(hit(photo, at)))).collect();
                    let metric = format!("recall@{k}");
                    let place = Place { benchmark, split: "all", protocol: &protocol, metric: &metric };
                    let outcomes = match tried.len() {
                        1 => Outcomes::Mean { values },
                        _ => Outcomes::MeanOfGroups { values, groups: folds.clone() },
                    };
                    let chance = Baseline::chance(self.chance(candidates, k));
                    records.push(Record::of(place, outcomes, chance, options.seed));
                    if tried.len() > 1 {
                        let value = (constants[chosen[0]] + constants[chosen[1]]) / 2.0;
                        let metric = format!("C for recall@{k}, mean of the two");
                        records.push(setting(Place { metric: &metric, ..place }, value, places.len()));
                    }
                }
            }
        }
        Ok(records)
    }

    /// How many pairs of each set score at least as high as the right one, at most [`DEEPEST`]. `scores` are the photo's similarities to
    /// all labels, `angles[x * labels + y]` is `Xi_r(x, y)`.
    fn places(&self, scores: &[f32], angles: &[f32], c: f32, right: (usize, usize)) -> [usize; 3] {
        let total = self.labels.len();
        let of = |(x, y): (usize, usize)| scores[x] + scores[y] + c * angles[x * total + y];
        let bar = of(right);
        let tree = self.tree.iter().filter(|&&pair| pair != right && of(pair) >= bar).take(DEEPEST).count();
        // Row by row, for a row is a plain sum of two slices; the right pair always reaches itself, and is taken off.
        let ahead = |first: usize, firsts: usize, seconds: usize| {
            let mut ahead = 0;
            for x in 0..firsts {
                let (base, row) = (scores[x], &angles[x * total + first..][..seconds]);
                let reached = |(score, angle): &(&f32, &f32)| base + **score + c * **angle >= bar;
                ahead += scores[first..].iter().zip(row).filter(reached).count();
                // A label beside itself is no pair.
                ahead -= usize::from(x >= first && of((x, x)) >= bar) + usize::from(x == right.0);
                if ahead >= DEEPEST {
                    return DEEPEST;
                }
            }
            ahead
        };
        [tree, ahead(self.general, self.general, total - self.general), ahead(0, total, total)]
    }

    fn by_prompt(&self, context: &Context<'_>, photos: &[f32]) -> Result<Vec<Record>> {
        let options = context.options;
        let sets: Vec<Candidates> = Candidates::ALL
            .into_iter()
            .filter(|&set| set == Candidates::Tree || self.count(set) <= MOST_PROMPTS)
            .collect();
        let pairs = self.pairs(sets.last().copied().unwrap_or(Candidates::Tree));
        let not_run = match sets.len() < Candidates::ALL.len() {
            true => format!(", sets of more than {MOST_PROMPTS} pairs not run"),
            false => String::new(),
        };
        let names: Vec<String> = self.labels.iter().map(|label| prompts::words(label)).collect();
        let mut records = Vec::new();
        for template in TWO_SLOTS {
            let fill =
                |&(x, y): &(usize, usize)| template.replace("{general}", &names[x]).replace("{specific}", &names[y]);
            let points = context.embedder.texts(&pairs.iter().map(fill).collect::<Vec<_>>())?;
            // Each set is the front of the list.
            let places = similarity_rows(context.embedder.spec(), options.score, photos, &points, |photo, scores| {
                let right = *self.right.get(photo)?;
                let bar = scores[right];
                let finite = scores.iter().all(|score| score.is_finite());
                let ahead =
                    |set: &Candidates| scores[..self.count(*set)].iter().filter(|score| **score >= bar).count() - 1;
                finite.then(|| sets.iter().map(ahead).collect::<Vec<_>>())
            })?;
            let places: Vec<Vec<usize>> = places
                .into_iter()
                .collect::<Option<_>>()
                .ok_or_else(|| Error::Embedder("a similarity is not a number".into()))?;
            for (column, &set) in sets.iter().enumerate() {
                let protocol = format!("one prompt \"{template}\", {}, {}{not_run}", set.name(), options.score.name());
                for k in TOP {
                    let hits: Outcomes = places.iter().map(|ahead| ahead[column] < k).collect();
                    let metric = format!("recall@{k}");
                    let place = Place { benchmark: Breeds.name(), split: "all", protocol: &protocol, metric: &metric };
                    records.push(Record::of(place, hits, Baseline::chance(self.chance(set, k)), options.seed));
                }
            }
        }
        Ok(records)
    }

    /// The pairs of a set: those of the tree, then the others of general and specific, then the rest.
    fn pairs(&self, largest: Candidates) -> Vec<(usize, usize)> {
        let total = self.labels.len();
        let every = || (0..total).flat_map(|x| (0..total).map(move |y| (x, y))).filter(|(x, y)| x != y);
        let in_tree = |pair: &(usize, usize)| self.tree.binary_search(pair).is_ok();
        let in_product = |&(x, y): &(usize, usize)| x < self.general && y >= self.general;
        let mut pairs = self.tree.clone();
        if largest != Candidates::Tree {
            pairs.extend(every().filter(|pair| in_product(pair) && !in_tree(pair)));
        }
        if largest == Candidates::Ordered {
            pairs.extend(every().filter(|pair| !in_product(pair)));
        }
        pairs
    }
}

/// The general and the specific name of a taxon, where it has two.
fn last_two(taxon: &[String]) -> Option<(String, String)> {
    match taxon {
        [.., general, specific] => Some((general.clone(), specific.clone())),
        _ => None,
    }
}

/// `-0.2 ... 0 ... 0.2`: 0 has index [`VALUES`]` - 1`.
fn constants() -> Vec<f64> {
    let step = LARGEST / (VALUES - 1) as f64;
    (0..2 * VALUES - 1).map(|at| step * (at as f64 - (VALUES - 1) as f64)).collect()
}

/// `Xi_r(x, y)` of all labels, `[labels, labels]`, radians.
fn angles(context: &Context<'_>, centres: &[f32]) -> Result<Vec<f32>> {
    let space = space::<f64>(context.embedder.spec())?;
    let root: Root = context.embedder.root()?;
    let dim = context.embedder.spec().dim;
    let points: Vec<f64> = centres.iter().map(|&value| f64::from(value)).collect();
    let row = |x: &[f64]| -> Vec<f32> {
        points.chunks_exact(dim).map(|y| space.exterior_angle(x, y, &root) as f32).collect()
    };
    let angles = points.par_chunks_exact(dim).flat_map_iter(row).collect::<Vec<_>>();
    match angles.iter().all(|angle| angle.is_finite()) {
        true => Ok(angles),
        false => Err(Error::Embedder("an angle between labels is not a number".into())),
    }
}

/// 0 or 1 for each photo: half of them each, the second half larger by one where they are odd.
fn halves(photos: usize, seed: u64) -> Vec<u32> {
    let mut folds: Vec<u32> = (0..photos).map(|photo| u32::from(photo >= photos / 2)).collect();
    folds.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    folds
}

/// For each fold the first of `tried` with the most hits in it.
fn chosen(tried: &[usize], folds: &[u32], hit: impl Fn(usize, usize) -> bool) -> [usize; 2] {
    [0, 1].map(|fold| {
        let hits = |at: usize| (0..folds.len()).filter(|&photo| folds[photo] == fold && hit(photo, at)).count();
        let best =
            tried.iter().map(|&at| (hits(at), at)).reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map_or(0, |(_, at)| at)
    })
}

/// A setting that the data chose: no statistic of queries, so without an interval.
fn setting(place: Place<'_>, value: f64, n: usize) -> Record {
    Record {
        benchmark: place.benchmark.into(),
        split: place.split.into(),
        protocol: place.protocol.into(),
        metric: place.metric.into(),
        value,
        interval: None,
        n,
        baseline: None,
        outcomes: None,
        clusters: None,
    }
}
