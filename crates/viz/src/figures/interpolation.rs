use super::FigureEntry;
use super::drawing::{Anchor, Drawing};
use super::font::FigureFont;
use super::plots::{PAGE, SIZE, SMALL};
use super::table::{FigureColumn, FigureColumnKind, FigureTable, groups};
use crate::chart::number;
use crate::palette::{GRID, INK, SOFT};
use crate::{Error, Result};

pub(super) const ENTRY: FigureEntry = FigureEntry {
    name: "interpolation",
    summary: "The photos and texts on the path between two points or to the root (HyCoCLIP App. G)",
    inputs: "output of --json traverse; photos come from --photos DATA",
    columns: &[
        FigureColumn { name: "path", kind: FigureColumnKind::Text, help: "title of the path" },
        FigureColumn { name: "at", kind: FigureColumnKind::Number, help: "part of the path" },
        FigureColumn { name: "text", kind: FigureColumnKind::Text, help: "the text, or the description of the photo" },
        FigureColumn { name: "picture", kind: FigureColumnKind::Picture, help: "the photo" },
    ],
    draw,
};

/// Number of tiles in a row.
const PER_ROW: usize = 7;
/// Space between tiles.
const GAP: f64 = 6.0;
/// Maximum number of lines of text: `CAPTION_LINES` below a photo, `TEXT_LINES` in a tile without a photo.
const CAPTION_LINES: usize = 2;
const TEXT_LINES: usize = 5;
/// Maximum number of tiles in a drawing.
const MAX_TILES: usize = 400;

fn draw(table: &FigureTable, font: &FigureFont<'_>) -> Result<Drawing> {
    if table.len() > MAX_TILES {
        return Err(Error::invalid("stops", table.len(), format!("at most {MAX_TILES}")));
    }
    let mut drawing = Drawing::new(PAGE);
    let side = (PAGE - 8.0 - GAP * (PER_ROW as f64 - 1.0)) / PER_ROW as f64;
    let caption = SMALL + 1.5;
    let height = side + caption * (CAPTION_LINES as f64 + 1.0) + GAP;
    let mut y = 4.0;
    for (title, rows) in groups(table.rows(), |row| row.text("path")) {
        if !title.is_empty() {
            drawing.text([4.0, y + SIZE], SIZE, Anchor::Start, INK, &font.fitted(title, SIZE, PAGE - 8.0));
            y += SIZE + 6.0;
        }
        for (at, row) in rows.iter().enumerate() {
            let (line, column) = ((at / PER_ROW) as f64, (at % PER_ROW) as f64);
            let (left, top) = (4.0 + column * (side + GAP), y + line * height);
            let text = row.text("text");
            let below = match row.picture("picture") {
                Some(png) => {
                    drawing.picture([left, top], [side, side], png.to_vec());
                    let lines = font.wrapped(text, SMALL, side, CAPTION_LINES);
                    for (i, line) in lines.iter().enumerate() {
                        let baseline = top + side + caption * (i as f64 + 1.0);
                        drawing.text([left, baseline], SMALL, Anchor::Start, INK, line);
                    }
                    top + side + caption * lines.len() as f64
                }
                None => {
                    drawing.rectangle([left, top], [side, side], GRID, 0.45);
                    let lines = font.wrapped(text, SIZE, side - 6.0, TEXT_LINES);
                    let first = top + side / 2.0 - (SIZE + 1.0) * (lines.len() as f64 - 1.0) / 2.0 + 0.35 * SIZE;
                    for (i, line) in lines.iter().enumerate() {
                        let baseline = first + (SIZE + 1.0) * i as f64;
                        drawing.text([left + side / 2.0, baseline], SIZE, Anchor::Middle, INK, line);
                    }
                    top + side
                }
            };
            let place = font.fitted(&number(row.number("at")), SMALL, side).into_owned();
            drawing.text([left, below + caption], SMALL, Anchor::Start, SOFT, &place);
        }
        y += rows.len().div_ceil(PER_ROW) as f64 * height + GAP;
    }
    drawing.height = y.max(SIZE);
    Ok(drawing)
}
