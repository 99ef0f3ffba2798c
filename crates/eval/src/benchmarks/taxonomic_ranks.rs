use std::collections::{BTreeMap, BTreeSet, HashMap};

use conifer_data::Sample;

use super::transitivity::{transitivity_records, triples};
use super::zero_shot_classification::first_maximum;
use super::{Benchmark, Context, HierarcapsPoints, RequiredInput, hierarcaps_records, images};
use crate::record::{Baseline, Record, RecordKey};
use crate::score::similarity_rows;
use crate::{Error, Outcomes, Result};

/// Taxonomy benchmark, rank by rank (RCME Tables 1 to 5, 8 and 10).
///
/// * Zero-shot accuracy among all taxa of a rank, and among the taxa of the photo's kingdom.
/// * If the data have common names: the same accuracies with common names as the texts of the last rank (CLIP and
///   OpenCLIP in RCME Tables 2 and 3).
/// * Zero-shot accuracy from the whole taxon: the photo gets the most similar complete taxon, whose ranks are compared
///   with the true ranks. The mean over the taxa of the rank (macro) is measured, too.
/// * Photo-to-photo accuracy: whether the most similar other photo has the same taxon.
/// * Retrieval of the taxa of a photo from general to specific, as in [`super::hierarcaps`].
/// * Rate of violations of RCME Eq. 4 on the distinct triples of neighbouring ranks.
///
/// Samples whose taxon has fewer than two names are left out. A taxon that lacks a rank is measured at its other ranks.
/// The protocol states how many samples remain, and how many lack each rank. The text of a taxon is its names from the
/// most general rank down, joined by spaces ("Animalia Chordata Aves"), without a prompt. The candidates are the taxa
/// of the measured photos, and those of [`Context::candidates`] if there are any.
pub(super) struct TaxonomicRanks;

/// The texts of a taxon, indexed by rank; `None` for a missing rank. The last element is never `None`.
type RankedTexts = Vec<Option<String>>;

impl Benchmark for TaxonomicRanks {
    fn name(&self) -> &'static str {
        "taxonomic_ranks"
    }
    fn summary(&self) -> &'static str {
        "zero-shot and photo-to-photo accuracy at each rank of a taxonomy; precision, recall, F1 and tau_d of the chain of taxa"
    }
    fn reference(&self) -> &'static str {
        "RCME Tables 1 to 5, 8 and 10"
    }
    fn needs(&self) -> &'static [RequiredInput] {
        &[RequiredInput::Images, RequiredInput::Taxa]
    }

    fn run(&self, context: &Context<'_>) -> Result<Vec<Record>> {
        let all = context.samples(self.name())?;
        let total = all.len();
        let samples: Vec<Sample> = all.into_iter().filter(|it| it.taxon.len() > 1).collect();
        if samples.is_empty() {
            return Err(Error::Missing {
                benchmark: self.name(),
                missing: "the taxon of every sample".into(),
                expected: "expected at least two ranks per taxon, general before specific".into(),
            });
        }
        if samples.len() < total {
            context.leaves_out(format!("{} of {total} samples have a taxon", samples.len()));
        }
        for (rank, count) in missing_ranks(&samples) {
            context.leaves_out(format!("{count} of {} samples have no {rank}", samples.len()));
        }
        let chains: Vec<RankedTexts> = samples.iter().map(ranked_texts).collect();
        let photos = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let spec = context.embedder.spec();
        let dim = spec.dim;

        let pool = candidates(context, &chains);
        let among = if context.candidates.is_some() { ", among the taxa of all splits" } else { "" };

        // Many photos share their higher taxa, so each distinct text is embedded once.
        let names = CommonNames::of(context, &samples);
        let mut texts: Vec<String> = pool.iter().flatten().flatten().cloned().collect();
        texts.extend(names.0.values().cloned());
        texts.sort();
        texts.dedup();
        let text_points = context.embedder.texts(&texts)?;
        let row = |text: &str| texts.partition_point(|it| it.as_str() < text);
        let point = |text: &String| &text_points[dim * row(text)..][..dim];

        let score = context.options.score;
        let seed = context.options.seed;
        let ranks = chains.iter().map(Vec::len).max().unwrap_or(0);
        let kingdoms: BTreeSet<&str> = chains.iter().filter_map(|chain| at(chain, 0)).collect();
        let note = names.note(&pool, ranks - 1);
        let mut records = Vec::new();
        let mut classify =
            |protocol: &str, rank: usize, rows: &[usize], pool: &[&RankedTexts], named: bool| -> Result<()> {
                let mut taxa: Vec<&str> = pool.iter().filter_map(|chain| at(chain, rank)).collect();
                taxa.sort_unstable();
                taxa.dedup();
                let texts = taxa.iter().map(|taxon| if named { names.text(taxon) } else { *taxon });
                let candidates: Vec<f32> =
                    texts.flat_map(|text| &text_points[dim * row(text)..][..dim]).copied().collect();
                let queries: Vec<f32> = rows.iter().flat_map(|&row| &photos[row * dim..][..dim]).copied().collect();
                let right = similarity_rows(spec, score, &queries, &candidates, |query, scores| {
                    Some(taxa[first_maximum(scores)]) == at(&chains[rows[query]], rank)
                })?;
                let split = format!("rank {}", rank + 1);
                let key = RecordKey { benchmark: self.name(), split: &split, protocol, metric: "accuracy" };
                let outcomes: Outcomes = right.into_iter().collect();
                records.push(Record::of(key, outcomes, Baseline::chance(1.0 / taxa.len() as f64), seed));
                Ok(())
            };
        for rank in 0..ranks {
            let rows: Vec<usize> = (0..chains.len()).filter(|&row| at(&chains[row], rank).is_some()).collect();
            if rows.is_empty() {
                continue;
            }
            let all: Vec<&RankedTexts> = pool.iter().collect();
            classify(&format!("names joined{among}, {}", score.name()), rank, &rows, &all, false)?;
            if let Some(note) = &note {
                let protocol = format!("names joined, common names of species{note}{among}, {}", score.name());
                classify(&protocol, rank, &rows, &all, rank + 1 == ranks)?;
            }
            // At ranks below kingdom, also classify among the taxa of the photo's kingdom (RCME Table 8).
            if rank > 0 && kingdoms.len() > 1 {
                for kingdom in &kingdoms {
                    let is_own = |chain: &RankedTexts| at(chain, 0) == Some(*kingdom);
                    let own: Vec<usize> = rows.iter().copied().filter(|&row| is_own(&chains[row])).collect();
                    if !own.is_empty() {
                        let pool: Vec<&RankedTexts> = pool.iter().filter(|chain| is_own(chain)).collect();
                        classify(
                            &format!("names joined, among {kingdom}{among}, {}", score.name()),
                            rank,
                            &own,
                            &pool,
                            false,
                        )?;
                    }
                }
            }
        }
        let whole: Vec<f32> = pool.iter().flat_map(|chain| chain.last()).flatten().flat_map(point).copied().collect();
        let answers = similarity_rows(spec, score, &photos, &whole, |_, scores| first_maximum(scores))?;
        let answers: Vec<&RankedTexts> = answers.into_iter().map(|best| &pool[best]).collect();
        let protocol = format!("names joined, from the whole taxon{among}, {}", score.name());
        records.extend((0..ranks).flat_map(|rank| from_whole_taxa(context, &protocol, rank, &chains, &answers)));
        records.extend(photo_to_photo(context, self.name(), &chains, &photos)?);

        let tiers: Vec<Vec<String>> = samples.iter().map(Sample::taxon_texts).collect();
        let links: Vec<f32> = tiers.iter().flatten().flat_map(point).copied().collect();
        let root = context.embedder.root()?;
        let points = HierarcapsPoints {
            spec,
            root: &root,
            tiers: &tiers,
            texts: &links,
            more_texts: &[],
            more_points: &[],
            images: &photos,
        };
        let chain = hierarcaps_records(&points, &context.options.steps, context.options.score, seed)?;
        records.extend(chain.into_iter().map(|record| Record { benchmark: self.name().into(), ..record }));
        let found = triples(chains.iter().map(|chain| placed(chain)));
        let text_point = |text: &str| &text_points[dim * row(text)..][..dim];
        records.extend(transitivity_records(self.name(), "rank", spec, &root, &found, text_point, seed)?);
        Ok(records)
    }
}

/// The texts of a sample's taxon, indexed by rank.
fn ranked_texts(sample: &Sample) -> RankedTexts {
    let positions = sample.taxon_positions();
    let mut ranked = vec![None; positions.last().map_or(0, |last| last + 1)];
    for (position, text) in positions.into_iter().zip(sample.taxon_texts()) {
        ranked[position] = Some(text);
    }
    ranked
}

/// The text of a rank; `None` if the taxon lacks it.
fn at(chain: &[Option<String>], rank: usize) -> Option<&str> {
    chain.get(rank)?.as_deref()
}

/// The texts of a taxon with their ranks.
fn placed(chain: &[Option<String>]) -> Vec<(usize, &str)> {
    (0..chain.len()).filter_map(|rank| Some((rank, at(chain, rank)?))).collect()
}

/// Number of samples that lack each rank, from general to specific.
fn missing_ranks(samples: &[Sample]) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::<_, usize>::new();
    samples.iter().flat_map(|sample| &sample.missing_ranks).for_each(|rank| *counts.entry(rank).or_default() += 1);
    counts.into_iter().map(|(rank, count)| (rank.name.clone(), count)).collect()
}

/// Common names, keyed by the text of the whole taxon.
struct CommonNames(HashMap<String, String>);

impl CommonNames {
    /// The common names of the samples and of the further candidates. The first name found for a taxon is used.
    fn of(context: &Context<'_>, samples: &[Sample]) -> Self {
        let others = context
            .candidates
            .into_iter()
            .flat_map(|source| (0..source.len()).filter_map(move |it| source.get(it).ok()));
        let mut names = HashMap::new();
        let mut add = |sample: &Sample| {
            if let (Some(name), Some(text)) = (&sample.common_name, sample.taxon_texts().pop()) {
                names.entry(text).or_insert_with(|| name.clone());
            }
        };
        samples.iter().for_each(&mut add);
        others.for_each(|sample| add(&sample));
        Self(names)
    }

    /// The common name of a taxon, or its joined names if it has none.
    fn text<'a>(&'a self, taxon: &'a str) -> &'a str {
        self.0.get(taxon).map_or(taxon, String::as_str)
    }

    /// Note on how many taxa of the last rank have no common name. `None` if no taxon has a common name.
    fn note(&self, pool: &[RankedTexts], rank: usize) -> Option<String> {
        let taxa: BTreeSet<&str> = pool.iter().filter_map(|chain| at(chain, rank)).collect();
        let named = taxa.iter().filter(|taxon| self.0.contains_key(**taxon)).count();
        match taxa.len() - named {
            _ if named == 0 => None,
            0 => Some(String::new()),
            without => Some(format!(" ({without} of {} without)", taxa.len())),
        }
    }
}

/// The distinct taxa that are candidates, sorted.
fn candidates(context: &Context<'_>, chains: &[RankedTexts]) -> Vec<RankedTexts> {
    let mut pool: BTreeSet<RankedTexts> = chains.iter().cloned().collect();
    if let Some(source) = context.candidates {
        let samples = (0..source.len()).filter_map(|index| source.get(index).ok());
        pool.extend(samples.filter(|it| it.taxon.len() > 1).map(|it| ranked_texts(&it)));
    }
    pool.into_iter().collect()
}

/// Accuracy of the answers, which are whole taxa, at one rank: over photos, and as the mean over the true taxa. The
/// trivial answer is the taxon with the most photos.
fn from_whole_taxa(
    context: &Context<'_>,
    protocol: &str,
    rank: usize,
    chains: &[RankedTexts],
    answers: &[&RankedTexts],
) -> Vec<Record> {
    let rows: Vec<(usize, &str)> = (0..chains.len()).filter_map(|row| Some((row, at(&chains[row], rank)?))).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let values = rows.iter().map(|&(row, taxon)| f64::from(u8::from(at(answers[row], rank) == Some(taxon))));
    let values: Vec<f64> = values.collect();
    let mut taxa = BTreeMap::<&str, (u32, usize)>::new();
    for (_, taxon) in &rows {
        let next = taxa.len() as u32;
        taxa.entry(*taxon).or_insert((next, 0)).1 += 1;
    }
    let groups = rows.iter().map(|(_, taxon)| taxa[taxon].0).collect();
    let most = taxa.values().map(|&(_, photos)| photos).max().unwrap_or(0) as f64 / rows.len() as f64;
    let split = format!("rank {}", rank + 1);
    let record = |metric: &str, outcomes: Outcomes, trivial: f64| {
        let key = RecordKey { benchmark: TaxonomicRanks.name(), split: &split, protocol, metric };
        Record::of(key, outcomes, Baseline::named("the most frequent taxon", trivial), context.options.seed)
    };
    vec![
        record("accuracy", values.clone().into(), most),
        record("accuracy (macro)", Outcomes::MeanOfGroups { values, groups }, 1.0 / taxa.len() as f64),
    ]
}

/// For each rank, whether the most similar other photo of each photo has the same taxon.
fn photo_to_photo(
    context: &Context<'_>,
    benchmark: &str,
    chains: &[RankedTexts],
    photos: &[f32],
) -> Result<Vec<Record>> {
    let score = context.options.score;
    let nearest = similarity_rows(context.embedder.spec(), score, photos, photos, |own, scores| {
        let others = (0..scores.len()).filter(|&other| other != own);
        others.max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a)))
    })?;
    let Some(nearest) = nearest.into_iter().collect::<Option<Vec<usize>>>() else {
        return Ok(Vec::new()); // there is only one photo
    };
    let ranks = chains.iter().map(Vec::len).max().unwrap_or(0);
    let record = |rank: usize| {
        let taxa = (0..chains.len()).filter_map(|row| Some((row, at(&chains[row], rank)?)));
        let rows: Vec<(usize, &str)> = taxa.collect();
        if rows.is_empty() {
            return None;
        }
        let right: Outcomes = rows.iter().map(|&(row, taxon)| at(&chains[nearest[row]], rank) == Some(taxon)).collect();
        let mut of_taxon = BTreeMap::<&str, usize>::new();
        rows.iter().for_each(|(_, taxon)| *of_taxon.entry(*taxon).or_default() += 1);
        let others = (chains.len() - 1) as f64;
        let chance = rows.iter().map(|(_, taxon)| (of_taxon[taxon] - 1) as f64 / others).sum::<f64>();
        let (split, protocol) = (format!("rank {}", rank + 1), format!("photo to photo, {}", score.name()));
        let key = RecordKey { benchmark, split: &split, protocol: &protocol, metric: "recall@1" };
        Some(Record::of(key, right, Baseline::chance(chance / rows.len() as f64), context.options.seed))
    };
    Ok((0..ranks).filter_map(record).collect())
}
