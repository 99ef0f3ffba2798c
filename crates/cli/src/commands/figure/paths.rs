//! Paths and chains that other commands printed as JSON.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use conifer_data::transform::{crop_box, shrink};
use conifer_data::{BBox, PixelLimits, Source, encode_png};
use conifer_viz::figures::{FigureCell, FigureEntry, FigureTable};
use serde::Deserialize;
use serde_json::Value;

use super::{name_of, title_of};
use crate::arguments::FigureArgs;

/// Shorter side in pixels to which photos are reduced. A tile of the figure is 210 pixels wide at 300 dots per inch.
const SIDE: u32 = 224;

/// A stop on a path.
struct PathStop {
    at: f64,
    text: String,
    /// The sample with the photo of the row, and the box of the row.
    photo: Option<(String, Option<BBox>)>,
}

/// A row of `conifer --json traverse`.
#[derive(Deserialize)]
struct TraverseLine {
    at: f64,
    #[serde(default)]
    modality: String,
    #[serde(default)]
    columns: HashMap<String, String>,
    #[serde(default)]
    root: bool,
}

/// A part of the output of `conifer --json hierarchy`.
#[derive(Deserialize)]
struct HierarchyLine {
    levels: Vec<HierarchyLevel>,
}

#[derive(Deserialize)]
struct HierarchyLevel {
    radius: f64,
    candidate: Option<HierarchyText>,
}

#[derive(Deserialize)]
struct HierarchyText {
    text: String,
}

pub(super) fn chain(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let mut table = FigureTable::new(entry.columns);
    for input in &args.inputs {
        for it in read(input)? {
            table.push(vec![title_of(args, input).into(), it.at.into(), it.text.into()])?;
        }
    }
    Ok(table)
}

pub(super) fn interpolation(entry: &FigureEntry, args: &FigureArgs) -> anyhow::Result<FigureTable> {
    let photos = args.photos.as_deref().map(|it| super::data::opened(args, "--photos", it)).transpose()?;
    let paths = args.inputs.iter().map(|input| Ok((input, read(input)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let wanted = paths.iter().flat_map(|(_, stops)| stops).filter_map(|it| it.photo.as_ref());
    let mut numbers: HashMap<&str, Option<usize>> = wanted.map(|(sample, _)| (sample.as_str(), None)).collect();
    if let Some(source) = &photos {
        for index in 0..source.len() {
            if let Ok(sample) = source.get(index)
                && let Some(number) = numbers.get_mut(sample.id.as_str())
            {
                number.get_or_insert(index);
            }
        }
    }
    let mut table = FigureTable::new(entry.columns);
    for (input, stops) in &paths {
        for stop in stops {
            let place = stop.photo.as_ref().and_then(|(sample, part)| Some((numbers[sample.as_str()]?, part)));
            let png = match (&photos, place) {
                (Some(source), Some((number, part))) => thumbnail(source.as_ref(), number, part.as_ref())?,
                _ => None,
            };
            let text = match (&stop.photo, &png) {
                (Some((sample, _)), None) if stop.text.is_empty() => sample,
                _ => &stop.text,
            };
            let cells: [FigureCell; 4] =
                [title_of(args, input).into(), stop.at.into(), text.as_str().into(), png.into()];
            table.push(cells.into())?;
        }
    }
    Ok(table)
}

/// The stops of a file, in its order.
fn read(input: &str) -> anyhow::Result<Vec<PathStop>> {
    let text = std::fs::read_to_string(input).with_context(|| input.to_owned())?;
    let expected = "expected the output of conifer --json traverse or conifer --json hierarchy";
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{input}: no JSON; {expected}"))?;
    let stops = match value {
        Value::Array(_) => {
            let lines: Vec<TraverseLine> =
                serde_json::from_value(value).with_context(|| format!("{input}: {expected}"))?;
            lines
                .into_iter()
                .map(TraverseLine::stop)
                .collect::<anyhow::Result<Vec<_>>>()
                .with_context(|| input.to_owned())?
        }
        Value::Object(_) => {
            let found: HierarchyLine = serde_json::from_value(value).with_context(|| format!("{input}: {expected}"))?;
            let stop = |it: HierarchyLevel| Some(PathStop { at: it.radius, text: it.candidate?.text, photo: None });
            found.levels.into_iter().filter_map(stop).collect()
        }
        _ => bail!("{input}: {expected}"),
    };
    ensure!(!stops.is_empty(), "{}: the path has no stops; expected at least one", name_of(input));
    Ok(stops)
}

impl TraverseLine {
    fn stop(self) -> anyhow::Result<PathStop> {
        let column = |name: &str| self.columns.get(name).filter(|it| !it.is_empty()).cloned();
        let text = if self.root { "[ROOT]".to_owned() } else { column("text").unwrap_or_default() };
        let is_photo = self.modality == "image" || self.modality == "box_image";
        let part = column("box").filter(|_| self.modality == "box_image").map(|it| bounds(&it)).transpose()?;
        Ok(PathStop { at: self.at, text, photo: column("sample").filter(|_| is_photo).map(|it| (it, part)) })
    }
}

/// The column `box` of a set: left, top, width and height as parts of the photo.
fn bounds(text: &str) -> anyhow::Result<BBox> {
    let numbers: Vec<f32> = text.split(',').filter_map(|it| it.trim().parse().ok()).collect();
    let [x, y, width, height] = numbers[..] else { bail!("box `{text}`; expected x,y,width,height") };
    let found = BBox { x1: x, y1: y, x2: (x + width).min(1.0), y2: (y + height).min(1.0) };
    found.check().map_err(anyhow::Error::msg)?;
    Ok(found)
}

fn thumbnail(source: &dyn Source, number: usize, part: Option<&BBox>) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(photo) = source.get(number)?.photo(&PixelLimits::default())? else { return Ok(None) };
    let photo = part.map_or_else(|| photo.clone(), |part| crop_box(&photo, part));
    Ok(Some(encode_png(&shrink(&photo, SIDE).unwrap_or(photo))?))
}
