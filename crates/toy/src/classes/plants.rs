//! Trees, flowers and a cactus.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const EVERGREEN: [&str; 3] = ["plant", "tree", "evergreen tree"];
const LEAFY: [&str; 3] = ["plant", "tree", "leafy tree"];
const SPRING: [&str; 3] = ["plant", "flower", "spring flower"];
const SUMMER: [&str; 3] = ["plant", "flower", "summer flower"];
const SUCCULENT: [&str; 3] = ["plant", "desert plant", "succulent"];

pub(super) const PLANTS: &[ClassSpec] = &[
    class("fir", EVERGREEN, Outdoors, fir),
    class("palm", EVERGREEN, Outdoors, palm),
    class("oak", LEAFY, Outdoors, oak),
    class("willow", LEAFY, Outdoors, willow),
    class("tulip", SPRING, Land, tulip),
    class("daffodil", SPRING, Land, daffodil),
    class("rose", SUMMER, Land, rose),
    class("sunflower", SUMMER, Land, sunflower),
    class("cactus", SUCCULENT, Land, cactus),
];

fn fir(s: &mut Sketch) {
    s.part("trunk", |s| s.rect(BARK, 44., 80., 56., 99.));
    s.part("crown", |s| {
        s.soft(Dark, 4., "50,40 86,86 14,86");
        s.soft(Body, 4., "50,22 79,64 21,64");
        s.soft(Light, 4., "50,0 71,40 29,40");
    });
}

fn palm(s: &mut Sketch) {
    s.part("trunk", |s| {
        s.curve(WOOD, 8., "38,96 42,76 46,56 54,36");
        s.inside(|s| {
            for (x, y) in [(38.5, 86.), (41., 74.), (44., 62.), (48., 50.)] {
                s.line(BARK, 1.8, &format!("{},{y} {},{}", x - 3., x + 4., y + 1.));
            }
        });
    });
    for (ink, frond) in [
        (Dark, "54,34 70,40 80,56 84,70 70,60 58,46"),
        (Dark, "54,34 38,38 26,52 20,68 36,58 50,46"),
        (Body, "54,34 74,26 92,34 100,50 82,44 66,44"),
        (Body, "54,34 36,22 16,28 6,46 24,40 42,42"),
        (Light, "54,34 62,16 80,10 96,16 78,22 66,32"),
        (Light, "54,34 46,14 30,6 14,12 30,18 44,30"),
    ] {
        s.part("leaf", |s| s.blob(ink, frond));
    }
    s.part("coconut", |s| s.circle(BARK, 49., 40., 5.));
    s.part("coconut", |s| s.circle(BARK, 59., 41., 5.));
}

fn oak(s: &mut Sketch) {
    s.part("trunk", |s| {
        s.poly(WOOD, "43,60 57,60 60,90 66,98 34,98 40,90");
        s.line(WOOD, 5., "54,70 66,58");
        s.line(WOOD, 5., "46,68 36,58");
    });
    s.part("crown", |s| {
        for (ink, x, y, r) in [
            (Dark, 24., 52., 16.),
            (Dark, 76., 52., 16.),
            (Dark, 50., 56., 17.),
            (Body, 26., 36., 18.),
            (Body, 74., 36., 18.),
            (Body, 50., 40., 22.),
            (Body, 50., 20., 19.),
        ] {
            s.circle(ink, x, y, r);
        }
        s.inside(|s| {
            s.circle(Light, 44., 18., 8.);
            s.circle(Light, 24., 32., 6.);
            s.circle(Light, 68., 32., 6.);
        });
    });
}

fn willow(s: &mut Sketch) {
    s.part("trunk", |s| s.poly(WOOD, "44,40 56,40 58,90 64,98 36,98 42,90"));
    s.part("crown", |s| {
        s.blob(Dark, "50,6 76,12 90,30 92,56 50,60 8,56 10,30 24,12");
        for (ink, strand) in [
            (Dark, "10,40 7,60 9,84"),
            (Dark, "90,40 93,60 91,84"),
            (Body, "20,34 16,56 19,78"),
            (Body, "80,34 84,56 81,78"),
            (Light, "32,30 28,52 31,70"),
            (Light, "68,30 72,52 69,70"),
            (Body, "42,30 40,44 41,58"),
            (Body, "58,30 60,44 59,58"),
        ] {
            s.curve(ink, 8.5, strand);
        }
        s.blob(Body, "50,4 74,12 86,30 66,36 50,30 34,36 14,30 26,12");
        s.inside(|s| s.blob(Light, "34,14 50,9 60,14 48,18"));
    });
}

/// A stem with two leaves, standing at (50, 98).
fn stem(s: &mut Sketch, top: f32) {
    s.part("stem", |s| s.curve(MOSS, 4., &format!("50,{top} 51,76 50,97")));
    s.part("leaf", |s| s.blob(LEAF, "49,96 34,86 26,66 40,74 48,84"));
    s.part("leaf", |s| s.blob(LEAF, "51,92 66,82 76,62 60,70 52,80"));
}

fn tulip(s: &mut Sketch) {
    s.part("stem", |s| s.line(MOSS, 4., "50,42 50,97"));
    s.part("leaf", |s| s.blob(LEAF, "48,97 34,84 28,52 42,70 50,88"));
    s.part("leaf", |s| s.blob(LEAF, "52,97 66,84 72,56 58,72 50,88"));
    s.part("petal", |s| s.poly(Dark, "42,40 40,4 51,18 60,4 58,40"));
    s.part("petal", |s| s.blob(Body, "26,6 40,16 50,30 52,50 40,50 28,40"));
    s.part("petal", |s| s.blob(Body, "74,6 60,16 50,30 48,50 60,50 72,40"));
    s.inside(|s| s.curve(Light, 2.6, "32,16 33,30 40,42"));
}

fn daffodil(s: &mut Sketch) {
    stem(s, 40.);
    for turn in 0..6 {
        let angle = (turn * 60) as f32;
        let (sin, cos) = angle.to_radians().sin_cos();
        s.part("petal", |s| {
            s.tilted(Body, (50. + 19. * cos, 32. + 19. * sin), (16., 8.), angle);
        });
    }
    s.part("trumpet", |s| {
        s.circle(BEAK, 50., 32., 12.);
        s.inside(|s| s.circle(CHERRY, 50., 32., 7.5));
        s.inside(|s| s.circle(LAMP, 50., 32., 3.));
    });
}

fn rose(s: &mut Sketch) {
    stem(s, 44.);
    s.part("thorn", |s| s.poly(MOSS, "52,58 58,55 52,64"));
    s.poly(LEAF, "32,44 50,52 68,44 60,58 40,58");
    s.part("blossom", |s| {
        s.circle(Dark, 34., 30., 15.);
        s.circle(Dark, 66., 30., 15.);
        s.circle(Body, 50., 38., 17.);
        s.circle(Body, 50., 20., 17.);
        s.circle(Body, 50., 29., 21.);
        s.inside(|s| {
            s.curve(Dark, 2.6, "50,28 55,26 55,33 47,36 41,28 47,18 60,19 66,31 58,42");
            s.curve(Light, 2.2, "34,30 38,42 50,47");
        });
    });
}

fn sunflower(s: &mut Sketch) {
    s.part("stem", |s| s.curve(MOSS, 5., "50,40 51,76 50,97"));
    s.part("leaf", |s| s.blob(LEAF, "50,84 34,84 22,70 38,68 48,76"));
    s.part("leaf", |s| s.blob(LEAF, "51,78 66,78 78,64 62,62 52,70"));
    for turn in 0..16 {
        let angle = turn as f32 * 22.5;
        let (sin, cos) = angle.to_radians().sin_cos();
        let ink = if turn % 2 == 0 { Body } else { Dark };
        s.part("petal", |s| {
            s.tilted(ink, (50. + 25. * cos, 32. + 25. * sin), (11., 5.), angle);
        });
    }
    s.part("heart", |s| {
        s.inside(|s| s.circle(BARK, 50., 32., 17.));
        s.inside(|s| s.ring(WOOD, 50., 32., 11., 2.));
        s.inside(|s| s.circle(WOOD, 50., 32., 5.));
    });
}

fn cactus(s: &mut Sketch) {
    s.part("arm", |s| s.line(Dark, 13., "50,66 24,66 24,42"));
    s.part("arm", |s| s.line(Dark, 13., "50,54 77,54 77,30"));
    s.slab(Body, (39., 6.), (61., 98.), 11.);
    s.inside(|s| {
        for x in [45., 50., 55.] {
            s.line(Light, 1.6, &format!("{x},18 {x},94"));
        }
        s.line(Light, 1.6, "24,44 24,62");
        s.line(Light, 1.6, "77,32 77,50");
    });
    s.part("blossom", |s| {
        s.circle(ROSY, 45., 7., 5.);
        s.circle(ROSY, 55., 7., 5.);
        s.circle(LAMP, 50., 5., 4.);
    });
}
