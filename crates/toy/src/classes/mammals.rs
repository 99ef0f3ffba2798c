//! Mammals of house, farm, wilderness and sea.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const PET: [&str; 3] = ["animal", "mammal", "pet"];
const FARM: [&str; 3] = ["animal", "mammal", "farm animal"];
const WILD: [&str; 3] = ["animal", "mammal", "wild animal"];
const SEA: [&str; 3] = ["animal", "mammal", "sea mammal"];

pub(super) const MAMMALS: &[ClassSpec] = &[
    class("cat", PET, Land, cat).small(),
    class("dog", PET, Land, dog).small(),
    class("rabbit", PET, Land, rabbit).small(),
    class("horse", FARM, Land, horse),
    class("cow", FARM, Land, cow),
    class("pig", FARM, Land, pig),
    class("sheep", FARM, Land, sheep),
    class("elephant", WILD, Land, elephant),
    class("giraffe", WILD, Land, giraffe),
    class("lion", WILD, Land, lion),
    class("whale", SEA, Deep, whale),
    class("dolphin", SEA, Deep, dolphin),
];

/// Upright legs with hooves: one part each.
fn legs(s: &mut Sketch, ink: Ink, xs: &[f32], top: f32, width: f32, hoof: Ink) {
    for &x in xs {
        s.part("leg", |s| {
            s.slab(ink, (x - width / 2., top), (x + width / 2., 97.), 2.);
            s.slab(hoof, (x - width / 2., 91.), (x + width / 2., 97.), 2.);
        });
    }
}

fn cat(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Dark, 8., "64,90 86,88 90,70 82,58 88,48"));
    s.blob(Body, "50,42 64,52 72,76 70,95 50,97 30,95 28,76 36,52");
    s.inside(|s| s.blob(Light, "50,54 60,62 60,84 50,88 40,84 40,62"));
    s.part("paw", |s| s.ellipse(Light, 41., 93., 8., 5.));
    s.part("paw", |s| s.ellipse(Light, 59., 93., 8., 5.));
    s.part("ear", |s| {
        s.poly(Body, "24,4 46,18 26,34");
        s.inside(|s| s.poly(ROSY, "28,12 40,19 29,28"));
    });
    s.part("ear", |s| {
        s.poly(Body, "76,4 54,18 74,34");
        s.inside(|s| s.poly(ROSY, "72,12 60,19 71,28"));
    });
    s.part("head", |s| {
        s.blob(Body, "50,14 68,18 78,34 72,48 50,55 28,48 22,34 32,18");
        s.inside(|s| {
            s.ellipse(LAMP, 39., 33., 6., 6.5);
            s.ellipse(LAMP, 61., 33., 6., 6.5);
            s.ellipse(NIGHT, 39., 33., 2.6, 5.6);
            s.ellipse(NIGHT, 61., 33., 2.6, 5.6);
            s.ellipse(Light, 50., 45., 10., 7.);
            s.poly(ROSY, "46,40 54,40 50,45");
            s.curve(NIGHT, 1.6, "44,47 47,49 50,45 53,49 56,47");
        });
        s.line(NIGHT, 0.9, "32,43 15,40");
        s.line(NIGHT, 0.9, "32,46 16,48");
        s.line(NIGHT, 0.9, "68,43 85,40");
        s.line(NIGHT, 0.9, "68,46 84,48");
    });
}

fn dog(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Body, 6., "18,50 8,42 6,28"));
    s.part("leg", |s| s.slab(Dark, (28., 64.), (37., 97.), 3.));
    s.part("leg", |s| s.slab(Dark, (54., 64.), (63., 97.), 3.));
    s.blob(Body, "14,54 26,46 50,48 62,38 72,48 72,64 62,76 36,74 20,74");
    s.part("leg", |s| s.slab(Body, (17., 62.), (27., 97.), 3.));
    s.part("leg", |s| s.slab(Body, (61., 60.), (71., 97.), 3.));
    s.part("head", |s| {
        s.blob(Body, "54,26 64,14 78,16 84,26 98,32 99,42 86,48 70,50 58,44");
        s.inside(|s| s.blob(Light, "80,34 92,33 98,37 96,43 84,46 76,42"));
        s.circle(NIGHT, 97., 34., 4.);
        s.eye(77., 27., 3.2);
    });
    s.part("ear", |s| s.blob(Dark, "56,18 67,18 69,36 62,50 53,42 52,28"));
    s.part("collar", |s| s.line(CHERRY, 5., "56,50 70,54"));
    s.inside(|s| s.circle(GOLD, 66., 58., 3.));
}

fn rabbit(s: &mut Sketch) {
    s.part("tail", |s| s.circle(CREAM, 18., 78., 8.));
    s.part("ear", |s| s.tilted(Dark, (52., 20.), (6.5, 20.), -16.));
    s.part("ear", |s| {
        s.tilted(Body, (66., 19.), (7., 21.), 4.);
        s.inside(|s| s.tilted(ROSY, (66., 19.), (3.4, 15.), 4.));
    });
    s.blob(Body, "18,72 26,56 44,50 60,54 70,66 72,86 62,95 32,95 20,88");
    s.part("head", |s| {
        s.blob(Body, "48,46 58,34 74,34 86,46 84,58 72,64 56,62");
        s.eye(74., 46., 3.6);
        s.inside(|s| s.circle(ROSY, 86., 51., 2.6));
        s.inside(|s| s.circle(ROSY, 70., 56., 3.4));
    });
    s.part("leg", |s| {
        s.ellipse(Dark, 36., 80., 15., 13.);
        s.slab(Body, (28., 88.), (56., 97.), 4.5);
    });
    s.part("leg", |s| s.slab(Body, (60., 76.), (72., 97.), 4.5));
}

fn horse(s: &mut Sketch) {
    s.part("tail", |s| s.curve(NIGHT, 7., "14,46 6,56 6,70 10,82"));
    legs(s, Dark, &[30., 62.], 60., 6.5, NIGHT);
    s.blob(Body, "12,48 22,40 46,44 58,40 66,24 76,20 80,36 74,56 66,66 40,64 18,66");
    legs(s, Body, &[20., 70.], 56., 7., NIGHT);
    s.part("head", |s| {
        s.poly(Body, "70,4 78,12 70,18");
        s.blob(Body, "66,16 76,10 86,18 98,32 97,40 88,40 78,32 66,34");
        s.eye(80., 19., 2.4);
        s.inside(|s| s.circle(NIGHT, 95., 35., 1.6));
    });
    s.part("mane", |s| s.blob(NIGHT, "72,8 74,14 66,22 60,34 50,44 50,36 58,20"));
}

fn cow(s: &mut Sketch) {
    s.part("tail", |s| {
        s.curve(Body, 3., "10,44 4,54 5,68");
        s.ellipse(NIGHT, 5., 72., 3., 6.);
    });
    legs(s, Dark, &[27., 62.], 64., 8., TYRE);
    s.part("udder", |s| s.blob(ROSY, "30,70 44,70 44,80 36,83 30,78"));
    s.slab(Body, (9., 38.), (76., 74.), 12.);
    s.inside(|s| {
        s.blob(CREAM, "18,39 34,39 38,52 28,62 16,56 12,48");
        s.blob(CREAM, "48,52 60,50 64,62 56,72 46,68");
    });
    legs(s, Body, &[16., 71.], 62., 9., TYRE);
    s.part("horn", |s| s.curve(GOLD, 4., "70,26 64,20 66,12"));
    s.part("horn", |s| s.curve(GOLD, 4., "88,26 94,20 92,12"));
    s.part("ear", |s| s.tilted(Dark, (63., 32.), (8., 4.), 20.));
    s.part("ear", |s| s.tilted(Dark, (95., 32.), (8., 4.), -20.));
    s.part("head", |s| {
        s.soft(Body, 8., "67,22 91,22 91,54 67,54");
        s.inside(|s| s.poly(CREAM, "76,22 82,22 84,42 74,42"));
        s.blob(ROSY, "64,46 79,42 94,46 94,58 79,63 64,58");
        s.eye(72., 34., 3.);
        s.eye(86., 34., 3.);
        s.inside(|s| s.ellipse(NIGHT, 73., 53., 2.2, 3.));
        s.inside(|s| s.ellipse(NIGHT, 85., 53., 2.2, 3.));
    });
}

fn pig(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Dark, 3., "12,52 4,48 4,40 11,40 10,48 3,52"));
    legs(s, Dark, &[30., 58.], 72., 9., TYRE);
    s.ellipse(Body, 44., 58., 35., 25.);
    legs(s, Body, &[20., 68.], 72., 10., TYRE);
    s.part("ear", |s| s.poly(Dark, "58,24 72,30 60,42"));
    s.part("ear", |s| s.poly(Dark, "94,24 82,29 93,42"));
    s.part("head", |s| {
        s.circle(Body, 76., 46., 20.);
        s.eye(69., 40., 3.);
        s.eye(86., 40., 3.);
    });
    s.part("snout", |s| {
        s.ellipse(ROSY, 80., 52., 10., 7.5);
        s.inside(|s| s.ellipse(NIGHT, 76.5, 52., 1.8, 2.8));
        s.inside(|s| s.ellipse(NIGHT, 83.5, 52., 1.8, 2.8));
    });
    s.inside(|s| s.curve(Dark, 2., "72,62 78,65 84,62"));
}

fn sheep(s: &mut Sketch) {
    legs(s, TYRE, &[26., 38., 56., 68.], 70., 6., NIGHT);
    s.part("tail", |s| s.circle(Body, 9., 56., 8.));
    for (x, y, r) in [
        (22., 50., 14.),
        (36., 42., 15.),
        (52., 42., 15.),
        (66., 50., 14.),
        (20., 64., 13.),
        (36., 70., 14.),
        (52., 70., 14.),
        (66., 65., 13.),
        (44., 56., 22.),
    ] {
        s.circle(Body, x, y, r);
    }
    s.inside(|s| {
        s.curve(Dark, 2., "24,52 30,57 36,52");
        s.curve(Dark, 2., "42,62 48,67 54,62");
        s.curve(Dark, 2., "44,44 50,49 56,44");
    });
    s.part("ear", |s| s.tilted(TYRE, (64., 38.), (9., 4.), 24.));
    s.part("ear", |s| s.tilted(TYRE, (97., 38.), (7., 4.), -24.));
    s.part("head", |s| {
        s.blob(TYRE, "70,32 82,28 94,34 94,48 87,60 76,60 69,48");
        s.inside(|s| s.circle(CREAM, 77., 42., 4.));
        s.inside(|s| s.circle(CREAM, 88., 42., 4.));
        s.inside(|s| s.circle(NIGHT, 78., 42., 2.));
        s.inside(|s| s.circle(NIGHT, 89., 42., 2.));
    });
    s.circle(Body, 76., 29., 7.);
    s.circle(Body, 86., 27., 8.);
}

fn elephant(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Dark, 3., "8,44 3,56 5,68"));
    s.part("leg", |s| s.slab(Dark, (26., 60.), (39., 97.), 4.));
    s.part("leg", |s| s.slab(Dark, (48., 60.), (61., 97.), 4.));
    s.blob(Body, "8,46 18,28 40,22 60,26 70,44 66,66 44,74 16,70");
    s.part("leg", |s| s.slab(Body, (11., 58.), (26., 97.), 4.));
    s.part("leg", |s| s.slab(Body, (54., 58.), (69., 97.), 4.));
    s.part("trunk", |s| {
        s.blob(Body, "76,34 91,32 97,50 95,72 89,84 92,90 100,87 99,94 90,97 82,90 84,74 84,58");
        s.inside(|s| {
            for line in ["87,58 94,57", "87,66 94,66", "86,74 92,75"] {
                s.line(Dark, 1.6, line);
            }
        });
    });
    s.part("tusk", |s| s.blob(CREAM, "76,52 82,50 86,60 95,63 88,67 80,63"));
    s.part("head", |s| {
        s.blob(Body, "56,28 66,14 82,14 92,28 90,46 80,56 64,54");
        s.eye(81., 31., 3.);
    });
    s.part("ear", |s| {
        s.blob(Dark, "48,20 62,18 70,30 70,48 60,60 48,52 44,36");
        s.inside(|s| s.blob(ROSY, "52,28 60,27 64,36 62,46 56,50 51,42"));
    });
}

fn giraffe(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Dark, 2.6, "25,58 20,66 21,76"));
    legs(s, Dark, &[36., 55.], 66., 5., NIGHT);
    s.blob(Body, "24,58 36,52 50,52 58,62 54,72 30,72");
    legs(s, Body, &[29., 61.], 62., 5.4, NIGHT);
    s.part("neck", |s| s.poly(Body, "48,56 61,16 70,16 65,66 54,70"));
    s.part("horn", |s| s.line(BARK, 2.4, "64,9 63,1"));
    s.part("horn", |s| s.line(BARK, 2.4, "69,9 70,1"));
    s.part("ear", |s| s.tilted(Dark, (58., 11.), (5., 2.4), 20.));
    s.part("head", |s| {
        s.blob(Body, "60,10 68,6 76,10 84,17 83,22 74,22 63,20");
        s.eye(71., 12., 2.);
    });
    s.inside(|s| {
        for (x, y, r) in [
            (64., 24., 2.6),
            (60., 33., 3.),
            (64., 42., 3.2),
            (57., 48., 3.2),
            (61., 56., 3.6),
            (50., 60., 4.),
            (40., 58., 3.6),
            (33., 64., 3.4),
            (44., 68., 3.),
        ] {
            s.circle(BARK, x, y, r);
        }
    });
}

fn lion(s: &mut Sketch) {
    s.part("tail", |s| {
        s.curve(Body, 4., "14,58 4,50 6,34");
        s.circle(BARK, 6., 31., 6.);
    });
    s.part("leg", |s| s.slab(Dark, (25., 66.), (34., 97.), 4.));
    s.part("leg", |s| s.slab(Dark, (48., 66.), (57., 97.), 4.));
    s.blob(Body, "10,58 24,48 50,48 64,56 64,74 46,80 16,78");
    s.part("leg", |s| s.slab(Body, (12., 66.), (23., 97.), 4.));
    s.part("leg", |s| s.slab(Body, (57., 66.), (68., 97.), 4.));
    s.part("mane", |s| {
        for turn in 0..10 {
            let angle = turn as f32 * std::f32::consts::TAU / 10.;
            s.circle(BARK, 70. + 21. * angle.cos(), 40. + 21. * angle.sin(), 9.);
        }
        s.circle(BARK, 70., 40., 22.);
    });
    s.part("head", |s| {
        s.circle(Body, 58., 26., 5.);
        s.circle(Body, 82., 26., 5.);
        s.circle(Body, 70., 40., 17.);
        s.eye(64., 36., 3.);
        s.eye(76., 36., 3.);
        s.inside(|s| {
            s.ellipse(Light, 70., 49., 9., 6.5);
            s.poly(NIGHT, "66,43 74,43 70,48");
            s.curve(NIGHT, 1.8, "65,51 70,52 75,51");
        });
    });
}

fn whale(s: &mut Sketch) {
    s.part("spout", |s| {
        s.curve(GLASS, 4., "72,36 71,22 62,14 56,20");
        s.curve(GLASS, 4., "72,36 73,22 82,14 88,20");
    });
    s.part("tail", |s| s.blob(Dark, "22,62 12,48 0,46 2,36 14,38 18,30 28,30 24,42 30,56"));
    s.blob(Body, "16,54 28,64 44,46 70,38 92,46 99,64 92,80 70,90 40,88 20,74");
    s.part("belly", |s| {
        s.inside(|s| {
            s.blob(CREAM, "34,82 56,76 80,76 97,70 92,80 70,89 44,88");
            s.line(Light, 1.6, "50,81 52,87");
            s.line(Light, 1.6, "60,80 62,88");
            s.line(Light, 1.6, "70,79 72,87");
        });
    });
    s.part("fin", |s| s.blob(Dark, "56,76 68,76 64,90 54,97 54,86"));
    s.eye(82., 62., 3.4);
    s.inside(|s| s.curve(NIGHT, 1.8, "80,72 90,72 97,66"));
}

fn dolphin(s: &mut Sketch) {
    s.part("tail", |s| s.blob(Dark, "16,74 10,84 0,90 4,98 16,92 24,98 28,92 22,82"));
    s.part("fin", |s| s.poly(Dark, "36,36 46,12 58,30"));
    s.blob(Body, "14,78 22,52 42,32 66,28 84,38 97,50 99,55 92,58 80,58 60,58 40,64 26,76 20,84");
    s.inside(|s| s.blob(Light, "28,72 42,58 60,52 78,54 92,57 80,59 60,60 42,65"));
    s.part("flipper", |s| s.blob(Dark, "56,54 66,54 62,68 52,76 52,64"));
    s.eye(79., 44., 2.8);
    s.inside(|s| s.curve(Dark, 1.8, "82,51 90,53 97,53"));
}
