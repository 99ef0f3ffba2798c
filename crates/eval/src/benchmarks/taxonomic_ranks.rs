use std::collections::{BTreeMap, BTreeSet};

use conifer_data::Sample;

use super::zero_shot_classification::first_maximum;
use super::{Benchmark, Context, HierarcapsPoints, RequiredInput, hierarcaps_records, images};
use crate::record::{Baseline, Record, RecordKey};
use crate::score::similarity_rows;
use crate::{Error, Outcomes, Result};

/// Taxonomy benchmark, rank by rank (RCME Tables 1 to 5, 8 and 10).
///
/// * Zero-shot accuracy among all taxa of a rank, and among the taxa of the photo's own kingdom.
/// * Zero-shot accuracy from the whole taxon: the photo gets the most similar complete taxon, and each rank of it is
///   compared with the photo's own. Also as the mean over the taxa of the rank (macro).
/// * Photo-to-photo accuracy: whether the most similar other photo has the same taxon.
/// * Retrieval of the taxa of a photo from general to specific, as in [`super::hierarcaps`].
///
/// Samples whose taxon has fewer than two ranks are left out, and the protocol says how many remain. The text of a
/// taxon is its names from the most general rank down, joined by spaces ("Animalia Chordata Aves"), without a prompt.
/// The candidates are the taxa of the measured photos, and those of [`Context::candidates`] if there are any.
pub(super) struct TaxonomicRanks;

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
        let chains: Vec<Vec<String>> = samples.iter().map(Sample::taxon_texts).collect();
        let photos = context.embedder.images(&images(self.name(), &samples)?, context.options.crop)?;
        let spec = context.embedder.spec();
        let dim = spec.dim;

        let pool = candidates(context, &chains);
        let among = if context.candidates.is_some() { ", among the taxa of all splits" } else { "" };

        // Many photos share their higher taxa, so each text is embedded once.
        let mut texts: Vec<String> = pool.iter().flatten().cloned().collect();
        texts.sort();
        texts.dedup();
        let points = context.embedder.texts(&texts)?;
        let point = |text: &String| &points[dim * texts.partition_point(|it| it < text)..][..dim];

        let score = context.options.score;
        let seed = context.options.seed;
        let ranks = chains.iter().map(Vec::len).max().unwrap_or(0);
        let kingdoms: BTreeSet<&str> = chains.iter().map(|chain| chain[0].as_str()).collect();
        let mut records = Vec::new();
        let mut classify = |protocol: &str, rank: usize, rows: &[usize], pool: &[&Vec<String>]| -> Result<()> {
            let mut taxa: Vec<&String> = pool.iter().filter_map(|chain| chain.get(rank)).collect();
            taxa.sort();
            taxa.dedup();
            let candidates: Vec<f32> = taxa.iter().flat_map(|taxon| point(taxon)).copied().collect();
            let queries: Vec<f32> = rows.iter().flat_map(|&row| &photos[row * dim..][..dim]).copied().collect();
            let right = similarity_rows(spec, score, &queries, &candidates, |query, scores| {
                *taxa[first_maximum(scores)] == chains[rows[query]][rank]
            })?;
            let split = format!("rank {}", rank + 1);
            let key = RecordKey { benchmark: self.name(), split: &split, protocol, metric: "accuracy" };
            let outcomes: Outcomes = right.into_iter().collect();
            records.push(Record::of(key, outcomes, Baseline::chance(1.0 / taxa.len() as f64), seed));
            Ok(())
        };
        for rank in 0..ranks {
            let rows: Vec<usize> = (0..chains.len()).filter(|&row| chains[row].len() > rank).collect();
            let all: Vec<&Vec<String>> = pool.iter().collect();
            classify(&format!("names joined{among}, {}", score.name()), rank, &rows, &all)?;
            // RCME Table 8: below the rank of kingdoms, classify also among the taxa of the photo's own kingdom.
            if rank > 0 && kingdoms.len() > 1 {
                for kingdom in &kingdoms {
                    let own: Vec<usize> = rows.iter().copied().filter(|&row| chains[row][0] == *kingdom).collect();
                    if !own.is_empty() {
                        let pool: Vec<&Vec<String>> = pool.iter().filter(|chain| chain[0] == *kingdom).collect();
                        classify(
                            &format!("names joined, among {kingdom}{among}, {}", score.name()),
                            rank,
                            &own,
                            &pool,
                        )?;
                    }
                }
            }
        }
        let whole: Vec<f32> = pool.iter().flat_map(|chain| point(&chain[chain.len() - 1])).copied().collect();
        let answers = similarity_rows(spec, score, &photos, &whole, |_, scores| first_maximum(scores))?;
        let answers: Vec<&[String]> = answers.into_iter().map(|best| &pool[best][..]).collect();
        let protocol = format!("names joined, from the whole taxon{among}, {}", score.name());
        records.extend((0..ranks).flat_map(|rank| from_whole_taxa(context, &protocol, rank, &chains, &answers)));
        records.extend(photo_to_photo(context, self.name(), &chains, &photos)?);

        let links: Vec<f32> = chains.iter().flatten().flat_map(point).copied().collect();
        let root = context.embedder.root()?;
        let points = HierarcapsPoints {
            spec,
            root: &root,
            tiers: &chains,
            texts: &links,
            more_texts: &[],
            more_points: &[],
            images: &photos,
        };
        let chain = hierarcaps_records(&points, &context.options.steps, context.options.score, context.options.seed)?;
        records.extend(chain.into_iter().map(|record| Record { benchmark: self.name().into(), ..record }));
        Ok(records)
    }
}

/// The distinct taxa that photos are compared with, in sorted order.
fn candidates(context: &Context<'_>, chains: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut pool: BTreeSet<Vec<String>> = chains.iter().cloned().collect();
    if let Some(source) = context.candidates {
        let samples = (0..source.len()).filter_map(|index| source.get(index).ok());
        pool.extend(samples.filter(|it| it.taxon.len() > 1).map(|it| it.taxon_texts()));
    }
    pool.into_iter().collect()
}

/// Accuracy at one rank of the answers, which are whole taxa: over photos, and as the mean over the true taxa. The
/// trivial answer is the taxon with the most photos.
fn from_whole_taxa(
    context: &Context<'_>,
    protocol: &str,
    rank: usize,
    chains: &[Vec<String>],
    answers: &[&[String]],
) -> Vec<Record> {
    let rows: Vec<usize> = (0..chains.len()).filter(|&row| chains[row].len() > rank).collect();
    let values = rows.iter().map(|&row| f64::from(u8::from(answers[row].get(rank) == chains[row].get(rank))));
    let values: Vec<f64> = values.collect();
    let mut taxa = BTreeMap::<&str, (u32, usize)>::new();
    for &row in &rows {
        let next = taxa.len() as u32;
        taxa.entry(&chains[row][rank]).or_insert((next, 0)).1 += 1;
    }
    let groups = rows.iter().map(|&row| taxa[chains[row][rank].as_str()].0).collect();
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
    chains: &[Vec<String>],
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
        let rows: Vec<usize> = (0..chains.len()).filter(|&row| chains[row].len() > rank).collect();
        let right: Outcomes = rows.iter().map(|&row| chains[nearest[row]].get(rank) == chains[row].get(rank)).collect();
        let mut of_taxon = BTreeMap::<&str, usize>::new();
        rows.iter().for_each(|&row| *of_taxon.entry(&chains[row][rank]).or_default() += 1);
        let others = (chains.len() - 1) as f64;
        let chance = rows.iter().map(|&row| (of_taxon[chains[row][rank].as_str()] - 1) as f64 / others).sum::<f64>();
        let (split, protocol) = (format!("rank {}", rank + 1), format!("photo to photo, {}", score.name()));
        let key = RecordKey { benchmark, split: &split, protocol: &protocol, metric: "recall@1" };
        Record::of(key, right, Baseline::chance(chance / rows.len() as f64), context.options.seed)
    };
    Ok((0..ranks).map(record).collect())
}
