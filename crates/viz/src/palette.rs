/// An RGB colour.
pub(crate) type Rgb = [u8; 3];

/// Colours of series. Colour-blind readers can tell the first six apart (Okabe and Ito 2008); the last two are from
/// ColorBrewer's palette Dark2. `map.html` has the same colours.
pub(crate) const COLOURS: [Rgb; 8] = [
    [0x00, 0x72, 0xb2],
    [0xe6, 0x9f, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0x56, 0xb4, 0xe9],
    [0xd5, 0x5e, 0x00],
    [0xa6, 0x76, 0x1d],
    [0x75, 0x70, 0xb3],
];
/// Text and axes.
pub(crate) const INK: Rgb = [0x1d, 0x24, 0x30];
/// Numbers of axes and notes: contrast 5.9 on white.
pub(crate) const SOFT: Rgb = [0x5d, 0x66, 0x72];
/// Grid lines.
pub(crate) const GRID: Rgb = [0xdd, 0xe1, 0xe6];

/// The colour of series `at`. Series beyond the number of colours reuse them from the start.
pub(crate) fn colour(at: usize) -> Rgb {
    COLOURS[at % COLOURS.len()]
}

/// The colour in the form `#rrggbb`.
pub(crate) fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
