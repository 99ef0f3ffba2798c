//! Laws that every figure satisfies.
#![allow(clippy::unwrap_used)]

use conifer_geometry::random::SplitMix;

use super::*;

/// Texts that a figure must not break on.
const TEXTS: [&str; 5] = ["a dog", "", "<b>&\"quoted\"</b>, \u{7}", "\u{6c34}\u{1f600} \u{3b1}", LONG];
const LONG: &str =
    "a very long caption of a photograph that shows a dog in the snow beside an even longer fence, with a tree";

/// A PNG file of one pixel.
fn pixel() -> Vec<u8> {
    Drawing { height: 0.1, ..Drawing::new(0.1) }.png(&FigureFont::default()).unwrap()
}

fn cell(kind: FigureColumnKind, random: &mut SplitMix, scale: f64) -> FigureCell {
    let number = (random.uniform() - 0.3) * scale;
    match kind {
        FigureColumnKind::Text => TEXTS[(random.uniform() * TEXTS.len() as f64) as usize % TEXTS.len()].into(),
        FigureColumnKind::Number => number.into(),
        FigureColumnKind::Optional => (random.uniform() > 0.3).then_some(number).into(),
        FigureColumnKind::Picture => (random.uniform() > 0.5).then(pixel).into(),
    }
}

fn table(entry: &FigureEntry, len: usize, scale: f64) -> FigureTable {
    let mut random = SplitMix::new(len as u64);
    let mut table = FigureTable::new(entry.columns);
    for _ in 0..len {
        table.push(entry.columns.iter().map(|it| cell(it.kind, &mut random, scale)).collect()).unwrap();
    }
    table
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = FIGURES.iter().map(|it| it.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FIGURES.len());
    assert!(FIGURES.iter().all(|it| figure(it.name).is_some_and(|found| found.summary == it.summary)));
    assert!(figure("absent").is_none());
}

/// Draws tables with no row, one row and many rows, and with small and large numbers. The drawing must have a size and
/// contain all its texts, its files must be equal in two runs, and the PNG file must have 300 dots per inch.
#[test]
fn every_figure_draws_any_table() {
    let font = FigureFont::default();
    for entry in FIGURES {
        for (len, scale) in [(0, 1.0), (1, 1.0), (1, 0.0), (40, 1.0), (40, 1e6), (40, 1e300), (300, 1e-3)] {
            let table = table(entry, len, scale);
            let place = format!("{}, {len} rows up to {scale}", entry.name);
            let drawing = (entry.draw)(&table, &font).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert!(drawing.width > 100.0 && drawing.height > 0.0, "{place}");
            assert_eq!(drawing.outside(&font), None, "{place}");
            let svg = drawing.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{place}: {svg}");
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("<b>"), "{place}");
            assert_eq!(svg, (entry.draw)(&table, &font).unwrap().svg(), "{place}");
            if len == 40 && scale == 1.0 {
                let png = drawing.png(&font).unwrap();
                assert_eq!(png, drawing.png(&font).unwrap(), "{place}");
                let size = |at: usize| f64::from(u32::from_be_bytes(png[at..at + 4].try_into().unwrap()));
                let dots = |points: f64| (points * 300.0 / 72.0).ceil();
                assert_eq!((size(16), size(20)), (dots(drawing.width), dots(drawing.height)), "{place}");
            }
        }
    }
}

/// The CSV file of a figure gives the same drawing again.
#[test]
fn every_figure_is_drawn_from_its_own_data() {
    let font = FigureFont::default();
    for entry in FIGURES {
        let table = table(entry, 25, 3.0);
        let pictures: Vec<Vec<u8>> = table.pictures().map(<[u8]>::to_vec).collect();
        let text = table.csv(|number| number.to_string());
        let again =
            FigureTable::read_csv(entry.columns, &text, |name| Ok(pictures[name.parse::<usize>().unwrap()].clone()));
        let again = again.unwrap();
        assert_eq!(again, table, "{}", entry.name);
        assert_eq!((entry.draw)(&again, &font).unwrap(), (entry.draw)(&table, &font).unwrap(), "{}", entry.name);
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for entry in FIGURES {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut random = SplitMix::new(0);
            let mut row: Vec<FigureCell> = entry.columns.iter().map(|it| cell(it.kind, &mut random, 1.0)).collect();
            let at = entry.columns.iter().position(|it| it.kind == FigureColumnKind::Number).unwrap();
            row[at] = bad.into();
            let mut table = FigureTable::new(entry.columns);
            let error = table.push(row).unwrap_err().to_string();
            assert!(error.contains(entry.columns[at].name) && error.contains("finite"), "{}: {error}", entry.name);
            assert!(table.is_empty());
        }
    }
}
