//! Fish, reptiles and insects.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const BONY: [&str; 3] = ["animal", "fish", "bony fish"];
const CARTILAGE: [&str; 3] = ["animal", "fish", "cartilaginous fish"];
const ARMOURED: [&str; 3] = ["animal", "reptile", "armoured reptile"];
const LEGLESS: [&str; 3] = ["animal", "reptile", "legless reptile"];
const WINGED: [&str; 3] = ["animal", "insect", "winged insect"];
const BEETLE: [&str; 3] = ["animal", "insect", "beetle"];

pub(super) const CREATURES: &[ClassSpec] = &[
    class("goldfish", BONY, Deep, goldfish),
    class("seahorse", BONY, Deep, seahorse),
    class("shark", CARTILAGE, Deep, shark),
    class("turtle", ARMOURED, Land, turtle).small(),
    class("crocodile", ARMOURED, Land, crocodile),
    class("snake", LEGLESS, Land, snake),
    class("butterfly", WINGED, Air, butterfly),
    class("bee", WINGED, Air, bee),
    class("ladybird", BEETLE, Land, ladybird).small(),
];

fn goldfish(s: &mut Sketch) {
    s.part("tail", |s| {
        s.blob(Dark, "34,50 18,34 2,24 8,44 2,54 8,66 4,82 20,74 34,58");
        s.inside(|s| {
            s.curve(Light, 2., "28,52 18,44 10,36");
            s.curve(Light, 2., "28,57 18,64 10,72");
        });
    });
    s.part("fin", |s| s.blob(Dark, "44,34 52,14 66,14 78,32"));
    s.part("fin", |s| s.blob(Dark, "50,74 46,88 58,90 66,78"));
    s.blob(Body, "30,54 44,34 66,28 86,36 97,52 88,68 66,78 44,72");
    s.inside(|s| s.blob(Light, "48,68 66,64 88,62 82,71 66,77"));
    s.inside(|s| {
        for (x, y) in [(46., 48.), (58., 42.), (56., 56.), (46., 60.), (68., 50.)] {
            let arc = format!("{x},{} {},{y} {x},{}", y - 5., x + 4., y + 5.);
            s.curve(Dark, 1.8, &arc);
        }
    });
    s.part("fin", |s| s.inside(|s| s.blob(Dark, "62,60 72,60 68,72 60,74")));
    s.inside(|s| s.circle(CREAM, 83., 46., 6.5));
    s.eye(84., 46., 4.2);
    s.inside(|s| s.curve(NIGHT, 1.8, "97,56 92,60 88,59"));
}

fn seahorse(s: &mut Sketch) {
    s.part("fin", |s| s.blob(Light, "34,42 18,44 18,60 34,60"));
    s.part("tail", |s| s.curve(Dark, 7., "48,68 56,78 58,90 48,97 40,91 44,85 49,88"));
    s.poly(Dark, "42,12 34,4 44,7 48,0 52,8 60,3 56,13");
    s.blob(Body, "42,16 54,8 66,16 62,28 58,36 62,50 58,66 50,76 40,70 34,56 38,42 44,32");
    s.part("snout", |s| s.line(Body, 6., "64,20 84,27"));
    s.part("belly", |s| {
        s.inside(|s| {
            s.blob(Light, "54,38 59,50 56,64 50,70 49,54");
            for y in [44., 51., 58., 65.] {
                s.line(Dark, 1.6, &format!("47,{y} 58,{}", y - 1.));
            }
        });
    });
    s.eye(57., 19., 3.4);
}

fn shark(s: &mut Sketch) {
    s.part("tail", |s| s.poly(Dark, "20,52 0,16 12,46 4,76 22,60"));
    s.part("fin", |s| s.poly(Dark, "42,40 48,12 66,38"));
    s.part("fin", |s| s.poly(Dark, "54,64 40,88 70,68"));
    s.blob(Body, "14,53 36,40 62,34 84,40 100,52 92,62 76,68 52,70 30,62");
    s.part("belly", |s| {
        s.inside(|s| s.blob(CREAM, "30,61 52,62 76,58 96,55 91,62 76,67 52,69"));
    });
    s.part("gill", |s| {
        s.inside(|s| {
            for x in [64., 69., 74.] {
                s.line(NIGHT, 1.6, &format!("{x},46 {},56", x - 2.));
            }
        });
    });
    s.inside(|s| s.poly(NIGHT, "78,60 96,55 90,63 82,65"));
    s.part("tooth", |s| s.inside(|s| s.poly(CREAM, "80,59.5 84,64 86,58")));
    s.part("tooth", |s| s.inside(|s| s.poly(CREAM, "86,58 89,63 92,56")));
    s.eye(86., 46., 2.8);
}

fn turtle(s: &mut Sketch) {
    s.part("tail", |s| s.poly(LEAF, "4,78 20,68 20,80"));
    s.part("leg", |s| s.slab(MOSS, (28., 72.), (40., 92.), 4.));
    s.part("leg", |s| s.slab(MOSS, (58., 72.), (70., 92.), 4.));
    s.part("leg", |s| s.slab(LEAF, (16., 72.), (29., 94.), 4.));
    s.part("leg", |s| s.slab(LEAF, (66., 72.), (79., 94.), 4.));
    s.part("head", |s| {
        s.blob(LEAF, "74,66 80,50 92,46 100,54 98,64 88,68 80,76");
        s.eye(92., 54., 3.);
        s.inside(|s| s.curve(NIGHT, 1.5, "90,63 95,64 99,61"));
    });
    s.part("shell", |s| {
        s.blob(Body, "8,74 12,52 28,36 46,32 64,36 80,52 84,74 46,80");
        s.inside(|s| {
            s.poly(Dark, "36,44 56,44 62,58 46,66 30,58");
            s.poly(Light, "39,47 53,47 57,57 46,62 35,57");
            s.line(Dark, 2., "36,44 28,37");
            s.line(Dark, 2., "56,44 64,37");
            s.line(Dark, 2., "30,58 13,62");
            s.line(Dark, 2., "62,58 79,62");
            s.line(Dark, 2., "46,66 46,77");
        });
        s.inside(|s| s.curve(Light, 4., "11,73 28,76.5 46,77.5 64,76.5 81,73"));
    });
    s.perch(46., 34.);
}

fn crocodile(s: &mut Sketch) {
    for x in [14., 22., 30., 38., 46., 54.] {
        let y = if x < 24. { 56. } else { 50. };
        s.poly(Dark, &format!("{},{} {x},{} {},{}", x - 5., y + 5., y - 7., x + 5., y + 5.));
    }
    s.part("leg", |s| s.slab(Dark, (34., 66.), (42., 82.), 3.));
    s.part("leg", |s| s.slab(Dark, (58., 66.), (66., 82.), 3.));
    s.part("tail", |s| s.blob(Body, "0,70 10,58 24,52 36,52 34,68 18,70"));
    s.blob(Body, "20,56 40,50 62,52 72,58 70,70 50,75 24,70");
    s.part("leg", |s| s.slab(Body, (26., 66.), (35., 84.), 3.));
    s.part("leg", |s| s.slab(Body, (50., 66.), (59., 84.), 3.));
    s.part("jaw", |s| s.soft(Dark, 3., "64,66 98,70 98,75 68,76"));
    s.part("tooth", |s| s.poly(CREAM, "76,63 79,71 82,63"));
    s.part("tooth", |s| s.poly(CREAM, "85,63 88,71 91,63"));
    s.part("tooth", |s| s.poly(CREAM, "93,62 95.5,70 98,62"));
    s.part("head", |s| {
        s.blob(Body, "62,54 70,46 78,50 90,54 100,55 100,62 90,65 70,68");
        s.inside(|s| s.circle(LAMP, 72., 52., 4.));
        s.inside(|s| s.ellipse(NIGHT, 72.5, 52., 1.6, 3.4));
        s.inside(|s| s.circle(NIGHT, 97., 57., 1.4));
    });
    s.inside(|s| s.blob(Light, "26,68 46,66 66,66 50,74"));
    s.perch(40., 50.);
}

fn snake(s: &mut Sketch) {
    s.part("tail", |s| s.curve(Dark, 5., "24,86 12,84 4,90"));
    s.curve(Body, 12., "22,86 44,90 72,88 82,78 72,68 46,68 28,64 24,52 36,44 54,44");
    s.curve(Body, 12., "36,44 54,44 64,36 64,24 70,17");
    s.inside(|s| {
        for (x, y) in [
            (34., 88.),
            (50., 89.),
            (66., 88.),
            (78., 80.),
            (62., 68.),
            (46., 68.),
            (31., 63.),
            (33., 48.),
            (47., 44.),
            (60., 39.),
        ] {
            s.circle(Light, x, y, 3.);
        }
    });
    s.part("tongue", |s| {
        s.line(CHERRY, 2., "88,18 96,18 100,15");
        s.line(CHERRY, 2., "96,18 100,22");
    });
    s.part("head", |s| {
        s.blob(Body, "58,16 68,7 82,9 91,17 84,25 68,26");
        s.eye(78., 14., 3.);
    });
}

fn butterfly(s: &mut Sketch) {
    for mirror in [false, true] {
        let x = |x: f32| if mirror { 100. - x } else { x };
        let path = |list: &[(f32, f32)]| list.iter().map(|&(u, v)| format!("{},{v} ", x(u))).collect::<String>();
        s.part("wing", |s| {
            s.blob(Dark, &path(&[(48., 56.), (28., 56.), (14., 68.), (20., 88.), (36., 92.), (47., 74.)]));
            s.inside(|s| s.circle(LAMP, x(28.), 75., 6.));
            s.blob(Body, &path(&[(48., 54.), (44., 30.), (26., 10.), (6., 12.), (4., 34.), (14., 54.), (32., 60.)]));
            s.inside(|s| {
                s.circle(Light, x(22.), 30., 9.);
                s.circle(CREAM, x(10.), 20., 2.6);
                s.circle(CREAM, x(9.), 30., 2.6);
                s.circle(CREAM, x(13.), 42., 2.6);
            });
        });
        s.part("antenna", |s| {
            s.curve(NIGHT, 1.8, &path(&[(49., 30.), (46., 18.), (38., 10.)]));
            s.circle(NIGHT, x(38.), 10., 2.2);
        });
    }
    s.slab(NIGHT, (46., 28.), (54., 82.), 4.);
    s.circle(NIGHT, 50., 30., 5.5);
}

fn bee(s: &mut Sketch) {
    s.part("sting", |s| s.poly(NIGHT, "0,64 12,58 14,68"));
    s.part("wing", |s| s.tilted(GLASS, (38., 26.), (11., 22.), -24.));
    s.part("wing", |s| s.tilted(GLASS, (58., 26.), (11., 22.), 14.));
    s.ellipse(Body, 44., 62., 35., 24.);
    s.inside(|s| {
        s.blob(NIGHT, "20,45 28,41 25,62 29,82 20,78 15,62");
        s.blob(NIGHT, "40,39 51,39 50,62 51,86 40,85 38,62");
    });
    s.part("antenna", |s| s.curve(NIGHT, 2.2, "76,40 80,28 90,24"));
    s.part("antenna", |s| s.curve(NIGHT, 2.2, "82,42 90,34 98,36"));
    s.part("head", |s| {
        s.circle(NIGHT, 77., 58., 18.);
        s.inside(|s| s.circle(CREAM, 83., 54., 6.));
        s.inside(|s| s.circle(NIGHT, 84.5, 54., 3.2));
        s.inside(|s| s.curve(CREAM, 2., "82,66 87,67 90,64"));
    });
}

fn ladybird(s: &mut Sketch) {
    for x in [28., 46., 64.] {
        s.part("leg", |s| s.line(NIGHT, 4., &format!("{x},78 {},92 {},92", x - 4., x + 2.)));
    }
    s.part("antenna", |s| s.curve(NIGHT, 2.4, "82,50 86,38 94,34"));
    s.part("head", |s| {
        s.circle(NIGHT, 82., 64., 16.);
        s.inside(|s| s.circle(CREAM, 88., 60., 5.));
        s.inside(|s| s.circle(NIGHT, 89., 60., 2.6));
    });
    s.part("shell", |s| {
        s.blob(Body, "6,80 8,56 24,36 46,30 66,38 80,58 80,80 44,84");
        s.inside(|s| {
            s.circle(NIGHT, 30., 50., 7.);
            s.circle(NIGHT, 54., 46., 6.5);
            s.circle(NIGHT, 22., 70., 6.);
            s.circle(NIGHT, 46., 69., 7.5);
            s.circle(NIGHT, 67., 66., 6.);
            s.curve(Light, 3., "16,52 26,41 38,36");
        });
    });
}
