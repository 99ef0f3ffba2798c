//! Buildings.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const RESIDENCE: [&str; 3] = ["building", "dwelling", "residence"];
const SHELTER: [&str; 3] = ["building", "dwelling", "shelter"];
const BEACON: [&str; 3] = ["building", "tower", "beacon"];
const MILL: [&str; 3] = ["building", "tower", "mill"];

pub(super) const BUILDINGS: &[ClassSpec] = &[
    class("house", RESIDENCE, Outdoors, house),
    class("castle", RESIDENCE, Outdoors, castle),
    class("tent", SHELTER, Outdoors, tent),
    class("igloo", SHELTER, Outdoors, igloo),
    class("lighthouse", BEACON, Outdoors, lighthouse),
    class("windmill", MILL, Outdoors, windmill),
];

fn pane(s: &mut Sketch, x: f32, y: f32, w: f32, h: f32) {
    s.part("window", |s| {
        s.inside(|s| {
            s.rect(CREAM, x - 1.6, y - 1.6, x + w + 1.6, y + h + 1.6);
            s.rect(GLASS, x, y, x + w, y + h);
            s.line(CREAM, 1.4, &format!("{0},{y} {0},{1}", x + w / 2., y + h));
            s.line(CREAM, 1.4, &format!("{x},{0} {1},{0}", y + h / 2., x + w));
        });
    });
}

fn door(s: &mut Sketch, x: f32, top: f32, bottom: f32, half: f32) {
    s.part("door", |s| {
        s.inside(|s| {
            s.circle(WOOD, x, top + half, half);
            s.rect(WOOD, x - half, top + half, x + half, bottom);
            s.circle(GOLD, x + half * 0.5, (top + bottom) / 2. + 2., 1.5);
        });
    });
}

fn house(s: &mut Sketch) {
    s.part("chimney", |s| s.rect(BARK, 70., 12., 80., 40.));
    s.rect(CREAM, 12., 44., 88., 96.);
    s.part("roof", |s| {
        s.soft(Body, 3., "50,6 100,50 0,50");
        s.inside(|s| s.line(Dark, 3., "6,48.5 94,48.5"));
    });
    s.inside(|s| s.circle(GLASS, 50., 34., 6.));
    pane(s, 20., 60., 15., 16.);
    pane(s, 65., 60., 15., 16.);
    door(s, 50., 62., 96., 8.);
    s.perch(50., 10.);
}

fn castle(s: &mut Sketch) {
    s.part("flag", |s| {
        s.line(BARK, 2., "50,20 50,2");
        s.poly(CHERRY, "51,2 66,7 51,12");
    });
    s.poly(Body, "34,98 34,20 40,20 40,26 47,26 47,20 53,20 53,26 60,26 60,20 66,20 66,98");
    s.poly(Dark, "20,98 20,56 28,56 28,50 36,50 36,56 44,56 44,50 56,50 56,56 64,56 64,50 72,50 72,56 80,56 80,98");
    s.part("tower", |s| {
        s.poly(Body, "4,98 4,32 10,32 10,38 15,38 15,32 21,32 21,38 26,38 26,32 30,32 30,98");
    });
    s.part("tower", |s| {
        s.poly(Body, "70,98 70,32 74,32 74,38 79,38 79,32 85,32 85,38 90,38 90,32 96,32 96,98");
    });
    for (x, y) in [(17., 54.), (83., 54.), (50., 38.)] {
        s.part("window", |s| s.inside(|s| s.slab(NIGHT, (x - 3., y - 6.), (x + 3., y + 6.), 3.)));
    }
    s.part("gate", |s| {
        s.inside(|s| {
            s.circle(WOOD, 50., 80., 10.);
            s.rect(WOOD, 40., 80., 60., 98.);
            s.line(BARK, 1.6, "46,72 46,97");
            s.line(BARK, 1.6, "54,72 54,97");
        });
    });
    s.inside(|s| {
        for (x, y) in [(10., 70.), (22., 82.), (78., 74.), (88., 86.), (28., 66.), (70., 64.)] {
            s.line(Light, 2.4, &format!("{},{y} {},{y}", x - 3., x + 3.));
        }
    });
}

fn tent(s: &mut Sketch) {
    s.line(BARK, 3., "44,16 50,6");
    s.line(BARK, 3., "48,14 42,6");
    s.part("side", |s| s.poly(Dark, "46,14 72,22 98,88 78,94"));
    s.part("front", |s| s.poly(Body, "46,14 78,94 10,94"));
    s.part("entrance", |s| {
        s.inside(|s| {
            s.poly(NIGHT, "45,42 58,94 32,94");
            s.poly(Light, "45,42 58,94 66,94");
        });
    });
    s.part("rope", |s| s.line(CREAM, 1.6, "12,88 0,96"));
}

fn igloo(s: &mut Sketch) {
    s.part("dome", |s| {
        s.blob(Body, "2,90 6,58 24,32 46,24 68,32 86,58 90,90 46,92");
        s.inside(|s| {
            for line in ["5,70 40,73 87,70", "13,52 44,55 79,52", "26,36 46,39 66,36"] {
                s.curve(Dark, 1.8, line);
            }
            for line in [
                "22,72 22,90",
                "70,72 70,88",
                "32,54 30,72",
                "60,54 62,72",
                "46,38 46,54",
                "14,54 10,70",
                "78,54 82,70",
                "38,28 36,38",
            ] {
                s.line(Dark, 1.8, line);
            }
        });
    });
    s.part("entrance", |s| {
        s.blob(Light, "42,92 44,70 58,60 72,66 78,92");
        s.inside(|s| s.blob(NIGHT, "49,91 51,76 59,68 68,74 71,91"));
    });
}

fn lighthouse(s: &mut Sketch) {
    s.blob(IRON, "14,98 22,88 40,90 60,88 78,88 86,98");
    s.part("beam", |s| s.poly(LAMP, "56,19 96,8 96,32"));
    s.poly(CREAM, "37,34 63,34 71,94 29,94");
    s.inside(|s| {
        s.poly(Body, "37,34 63,34 64.6,46 35.4,46");
        s.poly(Body, "33.7,58.5 66.3,58.5 67.9,71 32.1,71");
        s.poly(Body, "30.5,83 69.5,83 71,94 29,94");
    });
    s.part("lantern", |s| {
        s.rect(LAMP, 41., 14., 59., 30.);
        s.inside(|s| s.line(IRON, 1.6, "50,14 50,30"));
    });
    s.part("gallery", |s| s.slab(TYRE, (32., 29.), (68., 35.), 2.));
    s.part("roof", |s| s.soft(Body, 2., "50,1 64,15 36,15"));
    s.part("window", |s| s.inside(|s| s.slab(NIGHT, (47., 48.), (53., 57.), 3.)));
    s.part("door", |s| s.inside(|s| s.slab(WOOD, (44., 78.), (56., 94.), 5.)));
}

fn windmill(s: &mut Sketch) {
    s.poly(Body, "38,34 62,34 72,98 28,98");
    s.part("roof", |s| s.blob(Dark, "34,36 40,24 50,19 60,24 66,36 50,38"));
    pane(s, 45., 56., 10., 11.);
    door(s, 50., 78., 98., 7.);
    for turn in 0..4 {
        let (sin, cos) = (turn as f32 * 90. + 38.).to_radians().sin_cos();
        let at = |along: f32, across: f32| {
            format!("{},{} ", 50. + along * cos - across * sin, 34. + along * sin + across * cos)
        };
        s.part("sail", |s| {
            s.poly(CREAM, &(at(10., 0.) + &at(46., 0.) + &at(46., 13.) + &at(10., 10.)));
            s.inside(|s| {
                s.line(WOOD, 1.2, &(at(10., 5.5) + &at(46., 6.5)));
                s.line(WOOD, 1.2, &(at(22., 0.) + &at(22., 11.)));
                s.line(WOOD, 1.2, &(at(34., 0.) + &at(34., 12.)));
            });
            s.line(BARK, 3., &(at(0., 0.) + &at(48., 0.)));
        });
    }
    s.inside(|s| s.circle(GOLD, 50., 34., 4.));
}
