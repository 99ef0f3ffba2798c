//! The HTML report of a quickstart: a short summary, photos, metrics and training curves.

use anyhow::Context as _;
use conifer_data::Sample;
use conifer_embeddings::{EmbeddingSet, Modality};
use conifer_geometry::space;
use conifer_index::{Direction, Filter, FlatIndex, Query, Ranking, StopPlace};
use conifer_toy::Scene;
use conifer_viz::{Block, Figure, Report, histogram};

use super::curves::TrainingCurves;
use super::measure::{TitledRecord, table};
use super::suggest::Suggestion;
use super::unseen::TestData;
use super::walks::{starts, walk};
use crate::pictures::thumbnail;

/// The results of a quickstart.
pub(super) struct QuickstartResults<'a> {
    pub(super) unseen: &'a TestData,
    pub(super) set: &'a EmbeddingSet,
    pub(super) before: &'a [TitledRecord],
    pub(super) after: &'a [TitledRecord],
    pub(super) curves: &'a TrainingCurves,
    pub(super) suggestion: &'a Suggestion,
    pub(super) seconds: f64,
}

/// General words of the searches in the report.
const GENERAL: [&str; 3] = ["an animal", "a vehicle", "a fruit"];
/// Number of walks shown.
const WALKS: usize = 4;
/// Number of photos shown per search.
const HITS: usize = 6;

/// Builds the page.
pub(super) fn report(it: &QuickstartResults<'_>) -> anyhow::Result<Report> {
    let index = FlatIndex::new(it.set)?;
    let mut rows = table(it.before, it.after);
    let head = rows.remove(0);
    let walks = starts(it.set).into_iter().take(WALKS).map(|row| walk_strip(it, &index, row));
    let walks = walks.collect::<anyhow::Result<Vec<_>>>()?;
    let below = GENERAL.iter().map(|text| below(it, &index, text)).collect::<anyhow::Result<Vec<_>>>()?;
    let captions = (0..3).map(|i| captions_of(it, &index, i)).collect::<anyhow::Result<Vec<_>>>()?;
    let intro = |text: &str| Block::Text(text.to_owned());
    Ok(Report {
        title: "conifer quickstart".into(),
        subtitle: format!(
            "A hierarchical model of drawn pictures and texts, trained and measured in {:.0} seconds",
            it.seconds
        ),
        sections: vec![
            ("In short".into(), in_short(it).into_iter().map(Block::Text).collect()),
            (format!("Photos found for \"{}\"", it.suggestion.text), vec![suggested(it)?]),
            (
                "Photos found below a general word".into(),
                std::iter::once(intro(
                    "The first photos of a \"narrower\" search for a general word. A green frame marks photos that show such a thing.",
                ))
                .chain(below)
                .collect(),
            ),
            (
                "From a photo to the root".into(),
                std::iter::once(intro(
                    "The names of classes on the path from a photo to the root of the hierarchy. A green frame marks a class that is in the photo, or \
                     an ancestor of one.",
                ))
                .chain(walks)
                .collect(),
            ),
            (
                "Captions found for photos".into(),
                std::iter::once(intro("The nearest captions of each photo. A green frame marks a caption that was written for the photo."))
                    .chain(captions)
                    .collect(),
            ),
            (
                "Numbers".into(),
                vec![
                    intro(
                        "All numbers are measured on pictures that were used neither to train the encoders nor in this training. \"Before\" is the \
                         model before the first training step; \"trivial\" is the result of chance or of counting words on the same pictures.",
                    ),
                    Block::Table { head, rows },
                ],
            ),
            (
                "General things are near the root".into(),
                vec![
                    intro("Distances of the photos, boxes, captions and phrases from the root."),
                    Block::Charts(vec![depths(it.set)?]),
                ],
            ),
            ("Training".into(), vec![Block::Charts(it.curves.charts())]),
        ],
    })
}

/// The paragraphs of the summary.
fn in_short(it: &QuickstartResults<'_>) -> Vec<String> {
    let value = |metric: &str, split: &str| {
        let found = it.after.iter().find(|it| it.record.metric == metric && it.record.split == split);
        found.map_or(f64::NAN, |it| 100.0 * it.record.value)
    };
    let class = "accuracy (macro)";
    vec![
        format!(
            "The model picks the right one of 80 classes for {:.0} % of new pictures (by chance: 1 %), and for {:.0} % if the class has a \
             colour or a place that it never had in training.",
            value(class, "seen"),
            value(class, "held_out_combinations")
        ),
        format!(
            "For pictures of eight classes that the model never saw, the nearest group is right for {:.0} %, such as \"a motor vehicle\" for a truck.",
            value("nearest inner node is the parent", "held_out_classes")
        ),
        format!(
            "In a search below a general word, {:.0} % of the first ten photos are right. On the path from a photo to the root, {:.0} % of the \
             class names are in the photo or are ancestors of something in it.",
            value("precision@10, narrower", "seen"),
            value("stations that are true", "walks")
        ),
    ]
}

fn depths(set: &EmbeddingSet) -> anyhow::Result<String> {
    let space = space::<f64>(&set.spec)?;
    let of = |modality: Modality| {
        let rows = (0..set.len()).filter(|&row| set.modality[row] == modality);
        rows.map(|row| space.depth(&set.row(row).iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), &set.root))
            .collect::<Vec<_>>()
    };
    let groups = [
        ("phrases", Modality::BoxText),
        ("captions", Modality::Text),
        ("boxes", Modality::BoxImage),
        ("photos", Modality::Image),
    ]
    .map(|(name, modality)| (name.to_owned(), of(modality)));
    Ok(histogram("Distance from the root", "distance", &groups))
}

fn walk_strip(it: &QuickstartResults<'_>, index: &FlatIndex, row: usize) -> anyhow::Result<Block> {
    let walk = walk(it.unseen, it.set, index, row)?;
    let (sample, _) = photographed(it, row)?;
    let mut figures = vec![photo(sample, String::new(), false)];
    let mut right = walk.right.iter();
    figures.extend(walk.stops.iter().map(|stop| match stop.place {
        StopPlace::Row(row) => Figure {
            caption: words(it.set, row),
            marked: right.next().copied().unwrap_or_default(),
            ..Figure::default()
        },
        StopPlace::Root => Figure { caption: "the root".into(), marked: true, ..Figure::default() },
    }));
    Ok(Block::Strip { heading: sample.captions[0].clone(), figures })
}

/// The first photos that a search for rows below a general word finds.
fn below(it: &QuickstartResults<'_>, index: &FlatIndex, text: &str) -> anyhow::Result<Block> {
    let row = it.set.columns["text"].iter().position(|other| other == text);
    let row = row.with_context(|| format!("the set has no row `{text}`"))?;
    let photos = Filter::Modality(&[Modality::Image]);
    let hits = index.top_k(&Query::row(it.set, row), Ranking::Angle(Direction::Down), HITS, &photos)?.concat();
    let rows: Vec<usize> = hits.iter().map(|hit| hit.row).collect();
    Ok(Block::Strip { heading: text.to_owned(), figures: judged(it, text, &rows)? })
}

fn suggested(it: &QuickstartResults<'_>) -> anyhow::Result<Block> {
    let Suggestion { text, right, of, rows } = it.suggestion;
    let figures = judged(it, text, rows)?;
    Ok(Block::Strip { heading: format!("{right} of the first {of} are right"), figures })
}

/// Figures of the photos in `rows`. A photo is marked if the text is true of its scene.
fn judged(it: &QuickstartResults<'_>, text: &str, rows: &[usize]) -> anyhow::Result<Vec<Figure>> {
    let figure = |&row: &usize| {
        let (sample, scene) = photographed(it, row)?;
        let marked = it.unseen.truths.holds(text, scene) == Some(true);
        Ok(photo(sample, sample.label.clone().unwrap_or_default(), marked))
    };
    rows.iter().map(figure).collect()
}

/// A photo and its nearest captions.
fn captions_of(it: &QuickstartResults<'_>, index: &FlatIndex, number: usize) -> anyhow::Result<Block> {
    let row = starts(it.set)[number];
    let (sample, _) = photographed(it, row)?;
    let names = &it.set.columns["sample"];
    let own = |row: usize| it.set.modality[row] == Modality::Text && names[row] != super::walks::CLASS_WORDS;
    let hits = index.top_k(&Query::row(it.set, row), Ranking::Distance, 5, &Filter::Rows(&own))?.concat();
    let mut figures = vec![photo(sample, String::new(), false)];
    figures.extend(hits.iter().map(|hit| Figure {
        caption: words(it.set, hit.row),
        marked: names[hit.row] == sample.id,
        ..Figure::default()
    }));
    Ok(Block::Strip { heading: sample.captions[0].clone(), figures })
}

/// The sample and the scene of the photo in a row.
fn photographed<'a>(it: &QuickstartResults<'a>, row: usize) -> anyhow::Result<(&'a Sample, &'a Scene)> {
    let id = &it.set.columns["sample"][row];
    let number = it.unseen.shown_samples.iter().position(|sample| sample.id == *id);
    let number = number.with_context(|| format!("no sample `{id}` among those that were embedded"))?;
    Ok((&it.unseen.shown_samples[number], &it.unseen.shown_scenes[number]))
}

fn photo(sample: &Sample, note: String, marked: bool) -> Figure {
    Figure { png: sample.image.as_ref().and_then(|it| thumbnail(it, 160)), caption: String::new(), note, marked }
}

fn words(set: &EmbeddingSet, row: usize) -> String {
    set.columns["text"][row].clone()
}
