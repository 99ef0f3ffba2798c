use std::collections::HashMap;

use conifer_data::Source;
use conifer_embeddings::Modality;
use conifer_geometry::ManifoldSpec;
use conifer_geometry::random::SplitMix;
use conifer_index::{Filter, FlatIndex, Query, Ranking, Snapshot};
use conifer_viz::{Block, Figure, ProductFactors};

use super::{MeasuredTexts, photo_rows};
use crate::arguments::{DataArgs, FactorsArgs};
use crate::pictures::thumbnail;
use crate::request::open_source_of;

/// Number of photos shown per search (`HITS`) and per factor (`DRAWN`).
const HITS: usize = 10;
const DRAWN: usize = 6;
/// Number of factors shown: those that are the best factor of the most texts.
const FACTORS: usize = 8;
/// Share of the rows from which photos are drawn: the deepest rows in the factor (PHyCLIP Fig. 4a), at least [`DRAWN`].
const TOP: f64 = 0.001;
/// Shorter side of a photo, pixels.
const SIDE: u32 = 124;

/// The photos of an embedding set.
pub(super) struct PhotoShelf<'a> {
    set: &'a Snapshot,
    index: FlatIndex,
    rows: Vec<usize>,
    source: Option<Box<dyn Source>>,
    /// Index of a sample in the source, by its id.
    number_of: HashMap<String, usize>,
}

impl<'a> PhotoShelf<'a> {
    pub(super) fn open(args: &FactorsArgs, set: &'a Snapshot) -> anyhow::Result<Self> {
        let open = |data: &String| {
            let data = DataArgs {
                data: data.clone(),
                split: args.split.clone(),
                data_options: args.data_options.clone(),
                roots: Vec::new(),
            };
            open_source_of("--photos", &data)
        };
        let source = args.photos.as_ref().map(open).transpose()?;
        let mut number_of = HashMap::new();
        if let Some(source) = &source {
            number_of = (0..source.len()).filter_map(|at| Some((source.get(at).ok()?.id, at))).collect();
        }
        Ok(PhotoShelf { index: FlatIndex::on(set)?, rows: photo_rows(set), set, source, number_of })
    }

    pub(super) fn spec(&self) -> &ManifoldSpec {
        &self.set.spec
    }

    /// The photos nearest to a point.
    pub(super) fn nearest(&self, point: &[f32]) -> anyhow::Result<Vec<Figure>> {
        let only = Filter::Modality(&[Modality::Image]);
        let hits = self.index.top_k(&Query::new(&self.set.spec, point), Ranking::Distance, HITS, &only)?.concat();
        Ok(hits.iter().map(|hit| self.figure(hit.row, format!("{:.3}", hit.score))).collect())
    }

    /// Random photos among the deepest rows of a factor, for the factors that are the best of the most texts.
    pub(super) fn of_factors(&self, factors: &ProductFactors, texts: &MeasuredTexts, seed: u64) -> Vec<Block> {
        let mut counts = vec![0usize; texts.factors];
        (0..texts.texts.len()).for_each(|text| counts[texts.best(text)] += 1);
        let mut order: Vec<usize> = (0..texts.factors).filter(|factor| counts[*factor] > 0).collect();
        order.sort_by(|a, b| counts[*b].cmp(&counts[*a]).then(a.cmp(b)));
        let many = ((self.rows.len() as f64 * TOP).ceil() as usize).max(DRAWN);
        let strip = |factor: usize| {
            let row = |i: usize| self.set.row(self.rows[i]);
            let mut top = factors.top(self.rows.len(), row, factor, many, |_| true);
            let mut random = SplitMix::new(seed.wrapping_add(factor as u64));
            for at in 0..top.len().min(DRAWN) {
                let other = at + ((random.uniform() * (top.len() - at) as f64) as usize).min(top.len() - at - 1);
                top.swap(at, other);
            }
            top.truncate(DRAWN);
            let figures = top.into_iter().map(|(i, depth)| self.figure(self.rows[i], format!("{depth:.3}"))).collect();
            let heading = format!(
                "factor {factor}, the best of {} texts: drawn from its {} deepest photos",
                counts[factor],
                many.min(self.rows.len())
            );
            Block::Strip { heading, figures }
        };
        order.into_iter().take(FACTORS).map(strip).collect()
    }

    fn figure(&self, row: usize, note: String) -> Figure {
        let sample = self.set.columns.get("sample").map_or(&self.set.ids[row], |column| &column[row]);
        let number = self.number_of.get(sample);
        let found = self.source.as_ref().zip(number).and_then(|(source, number)| source.get(*number).ok());
        let png = found.as_ref().and_then(|it| thumbnail(it.image.as_ref()?, SIDE));
        let label = found.and_then(|it| it.label).unwrap_or_else(|| sample.clone());
        Figure { png, caption: label, note, marked: false }
    }
}
