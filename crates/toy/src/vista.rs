//! Painting of backgrounds. Coordinates are fractions of the picture.

use tiny_skia::{Color, Paint, PathBuilder, PixmapMut, PremultipliedColorU8, Shader, Transform};

use super::backdrop::Background;
use super::palette::Rgb;
use super::rng::ToyRng;
use super::shape::RULE;

/// Paints the whole canvas. `variant` seeds the random details, such as the positions of hills and clouds.
pub(crate) fn paint(canvas: &mut PixmapMut<'_>, background: Background, variant: u64) {
    let mut rng = ToyRng::new([variant, background as u64, 0, 0]);
    let mut brush = Brush { canvas };
    match background {
        Background::Meadow => meadow(&mut brush, &mut rng),
        Background::Forest => forest(&mut brush, &mut rng),
        Background::Desert => desert(&mut brush, &mut rng),
        Background::Snow => snow(&mut brush, &mut rng),
        Background::Beach => beach(&mut brush, &mut rng),
        Background::Street => street(&mut brush, &mut rng),
        Background::Room => room(&mut brush, &mut rng),
        Background::Night => night(&mut brush, &mut rng),
        Background::Sky => sky(&mut brush, &mut rng),
        Background::Sea => sea(&mut brush, &mut rng),
        Background::Reef => reef(&mut brush, &mut rng),
    }
}

const CLOUD: Rgb = Rgb(252, 253, 255);
const DAY_SKY: (Rgb, Rgb) = (Rgb(166, 212, 242), Rgb(226, 242, 248));

fn meadow(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.6, DAY_SKY.0, DAY_SKY.1);
    clouds(b, rng, 2, 0.3);
    b.hills(rng, 0.46, 0.08, Rgb(188, 218, 168));
    b.hills(rng, 0.53, 0.04, Rgb(166, 208, 138));
    b.fade(0.58, 1.0, Rgb(166, 208, 138), Rgb(142, 190, 112));
    for _ in 0..7 {
        let (x, y) = (rng.between(0.03, 0.97), rng.between(0.62, 0.98));
        let petal = rng.pick([CLOUD, Rgb(252, 240, 170), Rgb(246, 214, 226)]);
        b.disc(x, y, 0.011, petal, 1.0);
    }
}

fn forest(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.64, Rgb(206, 228, 210), Rgb(226, 238, 212));
    for (row, (y, height, colour)) in
        [(0.58, 0.42, Rgb(184, 212, 190)), (0.62, 0.34, Rgb(158, 194, 168))].into_iter().enumerate()
    {
        let shift = rng.between(0.0, 0.15);
        for i in 0..7 {
            let x = i as f32 * 0.17 - shift + row as f32 * 0.08;
            let top = y - height * rng.between(0.75, 1.0);
            b.shape(&[(x - 0.09, y + 0.03), (x, top), (x + 0.09, y + 0.03)], colour, 1.0);
        }
    }
    b.fade(0.6, 1.0, Rgb(136, 176, 128), Rgb(112, 154, 108));
    for _ in 0..6 {
        let (x, y) = (rng.between(0.03, 0.97), rng.between(0.66, 0.98));
        b.shape(&[(x - 0.03, y - 0.035), (x, y), (x + 0.03, y - 0.035), (x, y - 0.01)], Rgb(94, 138, 94), 1.0);
    }
}

fn desert(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.6, Rgb(248, 214, 176), Rgb(253, 238, 208));
    b.disc(rng.between(0.15, 0.85), rng.between(0.14, 0.26), 0.09, Rgb(255, 246, 206), 1.0);
    b.hills(rng, 0.50, 0.09, Rgb(236, 196, 142));
    b.hills(rng, 0.58, 0.06, Rgb(240, 210, 156));
    b.fade(0.65, 1.0, Rgb(240, 210, 156), Rgb(226, 188, 128));
    for _ in 0..4 {
        let (x, y) = (rng.between(0.05, 0.8), rng.between(0.7, 0.97));
        b.ripple(x, y, 0.16, Rgb(216, 176, 118));
    }
}

fn snow(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.6, Rgb(190, 206, 226), Rgb(222, 230, 240));
    for (x, top) in [(rng.between(0.1, 0.35), 0.26), (rng.between(0.6, 0.9), 0.20)] {
        b.shape(&[(x - 0.34, 0.62), (x, top), (x + 0.34, 0.62)], Rgb(176, 192, 216), 1.0);
        b.shape(
            &[(x - 0.1, top + 0.11), (x, top), (x + 0.1, top + 0.11), (x + 0.02, top + 0.08), (x - 0.03, top + 0.13)],
            CLOUD,
            1.0,
        );
    }
    b.hills(rng, 0.55, 0.05, Rgb(228, 236, 246));
    b.fade(0.61, 1.0, Rgb(228, 236, 246), Rgb(206, 218, 236));
    for _ in 0..12 {
        b.disc(rng.between(0.02, 0.98), rng.between(0.02, 0.98), 0.010, CLOUD, 1.0);
    }
}

fn beach(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.46, DAY_SKY.0, DAY_SKY.1);
    b.disc(rng.between(0.12, 0.88), rng.between(0.10, 0.2), 0.07, Rgb(255, 244, 190), 1.0);
    clouds(b, rng, 1, 0.26);
    b.fade(0.44, 0.66, Rgb(112, 180, 212), Rgb(150, 210, 222));
    for _ in 0..4 {
        b.ripple(rng.between(0.0, 0.8), rng.between(0.47, 0.56), 0.14, Rgb(176, 220, 232));
    }
    b.hills(rng, 0.60, 0.03, CLOUD);
    b.hills(rng, 0.625, 0.03, Rgb(246, 226, 178));
    b.fade(0.68, 1.0, Rgb(246, 226, 178), Rgb(234, 206, 150));
    for _ in 0..5 {
        b.disc(rng.between(0.03, 0.97), rng.between(0.7, 0.98), 0.010, Rgb(222, 192, 140), 1.0);
    }
}

fn street(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.62, DAY_SKY.0, DAY_SKY.1);
    let mut x = -rng.between(0.0, 0.1);
    while x < 1.0 {
        let (width, top) = (rng.between(0.15, 0.24), rng.between(0.14, 0.38));
        let wall = rng.pick([Rgb(214, 206, 216), Rgb(222, 212, 200), Rgb(204, 212, 222), Rgb(224, 204, 198)]);
        b.slab(x, top, x + width, 0.64, wall, 1.0);
        let pane = wall.mix(Rgb(255, 250, 226), 0.65);
        for row in 0..4 {
            for column in 0..2 {
                let (u, v) = (x + width * (0.2 + 0.38 * column as f32), top + 0.05 + 0.105 * row as f32);
                if v < 0.54 {
                    b.slab(u, v, u + width * 0.22, v + 0.055, pane, 1.0);
                }
            }
        }
        x += width;
    }
    b.fade(0.62, 0.70, Rgb(206, 202, 204), Rgb(190, 186, 192));
    b.fade(0.70, 1.0, Rgb(150, 150, 160), Rgb(134, 134, 146));
    let shift = rng.between(-0.1, 0.1);
    for i in 0..4 {
        let x = shift + i as f32 * 0.3;
        b.slab(x, 0.835, x + 0.15, 0.855, Rgb(232, 228, 214), 1.0);
    }
}

fn room(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    let wall = rng.pick([Rgb(246, 228, 204), Rgb(214, 230, 220), Rgb(224, 220, 240), Rgb(248, 220, 214)]);
    b.fade(0.0, 0.64, wall, wall.mix(Rgb(255, 255, 255), 0.25));
    for i in 0..6 {
        let x = 0.04 + i as f32 * 0.17;
        b.slab(x, 0.0, x + 0.07, 0.62, wall.mix(Rgb(255, 255, 255), 0.35), 1.0);
    }
    let x = rng.pick([0.10, 0.60]) + rng.between(-0.04, 0.04);
    let frame = Rgb(240, 236, 228);
    b.slab(x, 0.10, x + 0.28, 0.44, frame, 1.0);
    b.slab(x + 0.025, 0.125, x + 0.255, 0.415, Rgb(186, 220, 240), 1.0);
    b.slab(x + 0.13, 0.12, x + 0.15, 0.42, frame, 1.0);
    b.slab(x + 0.02, 0.265, x + 0.26, 0.285, frame, 1.0);
    b.fade(0.66, 1.0, Rgb(212, 170, 126), Rgb(192, 148, 106));
    b.slab(0.0, 0.62, 1.0, 0.665, Rgb(248, 244, 236), 1.0);
    for y in [0.735, 0.82, 0.915] {
        b.slab(0.0, y, 1.0, y + 0.007, Rgb(180, 136, 96), 1.0);
    }
}

fn night(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.7, Rgb(30, 36, 78), Rgb(70, 76, 130));
    let (x, y) = (rng.between(0.15, 0.85), rng.between(0.12, 0.2));
    for _ in 0..14 {
        b.disc(rng.between(0.02, 0.98), rng.between(0.02, 0.55), 0.008, Rgb(240, 240, 214), 1.0);
    }
    b.crescent(x, y, 0.085, Rgb(250, 244, 206));
    b.hills(rng, 0.62, 0.06, Rgb(50, 62, 100));
    b.hills(rng, 0.70, 0.03, Rgb(44, 66, 84));
    b.fade(0.735, 1.0, Rgb(44, 66, 84), Rgb(36, 52, 70));
}

fn sky(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 1.0, Rgb(142, 198, 240), Rgb(220, 240, 250));
    clouds(b, rng, 4, 1.0);
}

fn sea(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 0.5, DAY_SKY.0, DAY_SKY.1);
    b.disc(rng.between(0.12, 0.88), rng.between(0.10, 0.24), 0.07, Rgb(255, 244, 190), 1.0);
    clouds(b, rng, 1, 0.3);
    b.fade(0.5, 1.0, Rgb(110, 176, 214), Rgb(64, 132, 182));
    for i in 0..10 {
        let y = 0.54 + i as f32 * 0.045;
        b.ripple(rng.between(-0.05, 0.85), y, 0.10 + 0.1 * y, Rgb(148, 202, 226));
    }
}

fn reef(b: &mut Brush<'_, '_>, rng: &mut ToyRng) {
    b.fade(0.0, 1.0, Rgb(150, 220, 226), Rgb(60, 132, 176));
    let shift = rng.between(-0.1, 0.1);
    for i in 0..3 {
        let x = shift + 0.16 + i as f32 * 0.3;
        b.shape(&[(x, -0.02), (x + 0.1, -0.02), (x - 0.04, 0.9), (x - 0.24, 0.9)], CLOUD, 0.14);
    }
    for _ in 0..4 {
        let (x, height) = (rng.between(0.02, 0.98), rng.between(0.12, 0.24));
        let weed = rng.pick([Rgb(74, 152, 146), Rgb(90, 160, 132), Rgb(150, 140, 176)]);
        for lean in [-0.05, 0.0, 0.05] {
            b.shape(&[(x - 0.018, 0.95), (x + lean, 0.93 - height), (x + 0.018, 0.95)], weed, 1.0);
        }
    }
    b.hills(rng, 0.90, 0.03, Rgb(196, 204, 172));
    for _ in 0..6 {
        b.disc(rng.between(0.03, 0.97), rng.between(0.05, 0.8), 0.012, Rgb(216, 242, 246), 0.8);
    }
}

fn clouds(b: &mut Brush<'_, '_>, rng: &mut ToyRng, count: usize, lowest: f32) {
    for i in 0..count {
        let x = (i as f32 + rng.between(0.15, 0.85)) / count as f32;
        let y = rng.between(0.08, lowest);
        let r = rng.between(0.035, 0.06);
        b.disc(x - 1.3 * r, y + 0.25 * r, 0.75 * r, CLOUD, 1.0);
        b.disc(x + 1.3 * r, y + 0.25 * r, 0.75 * r, CLOUD, 1.0);
        b.disc(x, y, r, CLOUD, 1.0);
        b.slab(x - 1.3 * r, y + 0.2 * r, x + 1.3 * r, y + r, CLOUD, 1.0);
    }
}

struct Brush<'a, 'b> {
    canvas: &'a mut PixmapMut<'b>,
}

impl Brush<'_, '_> {
    /// Fills rows `top..bottom` with a vertical gradient. It writes pixel rows directly because gradients cover most of
    /// a picture.
    fn fade(&mut self, top: f32, bottom: f32, from: Rgb, to: Rgb) {
        let (width, height) = (self.canvas.width() as usize, self.canvas.height() as usize);
        let first = (top * height as f32).round() as usize;
        let last = ((bottom * height as f32).round() as usize).min(height);
        for y in first..last {
            let share = (y - first) as f32 / (last - first) as f32;
            let Rgb(r, g, b) = from.mix(to, share);
            if let Some(pixel) = PremultipliedColorU8::from_rgba(r, g, b, 255) {
                self.canvas.pixels_mut()[y * width..(y + 1) * width].fill(pixel);
            }
        }
    }

    fn disc(&mut self, x: f32, y: f32, r: f32, colour: Rgb, alpha: f32) {
        let mut path = PathBuilder::new();
        path.push_circle(x, y, r);
        self.fill(path, colour, alpha);
    }

    fn crescent(&mut self, x: f32, y: f32, r: f32, colour: Rgb) {
        let mut path = PathBuilder::new();
        path.move_to(x + 0.4 * r, y - 0.92 * r);
        path.cubic_to(x - 1.5 * r, y - 1.4 * r, x - 1.5 * r, y + 1.4 * r, x + 0.4 * r, y + 0.92 * r);
        path.cubic_to(x - 0.5 * r, y + 0.7 * r, x - 0.5 * r, y - 0.7 * r, x + 0.4 * r, y - 0.92 * r);
        path.close();
        self.fill(path, colour, 1.0);
    }

    fn slab(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, colour: Rgb, alpha: f32) {
        self.shape(&[(x1, y1), (x2, y1), (x2, y2), (x1, y2)], colour, alpha);
    }

    fn shape(&mut self, corners: &[(f32, f32)], colour: Rgb, alpha: f32) {
        let mut path = PathBuilder::new();
        for (i, &(x, y)) in corners.iter().enumerate() {
            if i == 0 {
                path.move_to(x, y);
            } else {
                path.line_to(x, y);
            }
        }
        path.close();
        self.fill(path, colour, alpha);
    }

    /// A row of soft hills around height `y`, down to the bottom of the picture.
    fn hills(&mut self, rng: &mut ToyRng, y: f32, swing: f32, colour: Rgb) {
        let mut path = PathBuilder::new();
        path.move_to(-0.1, 1.1);
        path.line_to(-0.1, y);
        let mut x = -0.1;
        let mut sign = rng.pick([-1.0, 1.0]);
        while x < 1.1 {
            let width = rng.between(0.3, 0.5);
            let bend = y + sign * swing * rng.between(0.8, 1.4);
            path.quad_to(x + width / 2.0, bend, x + width, y);
            x += width;
            sign = -sign;
        }
        path.line_to(1.3, 1.1);
        path.close();
        self.fill(path, colour, 1.0);
    }

    /// A thin crescent, for waves and sand ripples.
    fn ripple(&mut self, x: f32, y: f32, width: f32, colour: Rgb) {
        let mut path = PathBuilder::new();
        path.move_to(x, y);
        path.quad_to(x + width / 2.0, y - 0.026, x + width, y);
        path.quad_to(x + width / 2.0, y - 0.008, x, y);
        path.close();
        self.fill(path, colour, 1.0);
    }

    fn fill(&mut self, path: PathBuilder, Rgb(r, g, b): Rgb, alpha: f32) {
        let Some(path) = path.finish() else { return };
        let paint =
            Paint { shader: Shader::SolidColor(Color::from_rgba8(r, g, b, (alpha * 255.0) as u8)), ..Paint::default() };
        let place = Transform::from_scale(self.canvas.width() as f32, self.canvas.height() as f32);
        self.canvas.fill_path(&path, &paint, RULE, place, None);
    }
}
