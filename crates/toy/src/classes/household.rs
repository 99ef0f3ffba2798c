//! Household items, tools, instruments and accessories.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const SEAT: [&str; 3] = ["artifact", "household item", "seat"];
const VESSEL: [&str; 3] = ["artifact", "household item", "vessel"];
const LIGHT: [&str; 3] = ["artifact", "household item", "light"];
const STRIKING: [&str; 3] = ["artifact", "tool", "striking tool"];
const CUTTING: [&str; 3] = ["artifact", "tool", "cutting tool"];
const STRING: [&str; 3] = ["artifact", "musical instrument", "string instrument"];
const BAND: [&str; 3] = ["artifact", "musical instrument", "band instrument"];
const HEADDRESS: [&str; 3] = ["artifact", "accessory", "headdress"];
const RAIN: [&str; 3] = ["artifact", "accessory", "rain accessory"];

pub(super) const HOUSEHOLD: &[ClassSpec] = &[
    class("chair", SEAT, Land, chair),
    class("sofa", SEAT, Land, sofa),
    class("teapot", VESSEL, Land, teapot).small(),
    class("mug", VESSEL, Land, mug).small(),
    class("lamp", LIGHT, Land, lamp).small(),
    class("candle", LIGHT, Land, candle).small(),
    class("hammer", STRIKING, Land, hammer),
    class("axe", STRIKING, Land, axe),
    class("saw", CUTTING, Land, saw),
    class("scissors", CUTTING, Land, scissors),
    class("guitar", STRING, Land, guitar),
    class("drum", BAND, Land, drum).small(),
    class("trumpet", BAND, Land, trumpet),
    class("hat", HEADDRESS, Land, hat).small(),
    class("crown", HEADDRESS, Land, crown).small(),
    class("umbrella", RAIN, Land, umbrella),
    class("boot", RAIN, Land, boot).small(),
];

fn chair(s: &mut Sketch) {
    s.part("leg", |s| s.line(Dark, 5., "34,62 34,90"));
    s.part("leg", |s| s.line(Dark, 5., "74,62 74,90"));
    s.part("leg", |s| s.line(Body, 6., "26,66 24,97"));
    s.part("leg", |s| s.line(Body, 6., "66,66 68,97"));
    s.part("backrest", |s| {
        s.line(Body, 6., "26,62 24,8");
        s.line(Body, 6., "38,56 36,4");
        for y in [12., 26., 40.] {
            s.line(Light, 6., &format!("25,{} 37,{}", y + 2., y - 2.));
        }
    });
    s.part("seat", |s| {
        s.soft(Light, 3., "20,62 36,52 80,52 72,62");
        s.soft(Body, 2., "20,61 72,61 72,69 20,69");
    });
    s.perch(54., 59.);
}

fn sofa(s: &mut Sketch) {
    s.part("foot", |s| s.slab(WOOD, (12., 82.), (19., 92.), 2.));
    s.part("foot", |s| s.slab(WOOD, (81., 82.), (88., 92.), 2.));
    s.part("backrest", |s| {
        s.slab(Dark, (12., 28.), (88., 70.), 9.);
        s.inside(|s| s.line(Body, 2.4, "50,32 50,60"));
    });
    s.part("cushion", |s| s.slab(Light, (16., 58.), (50., 74.), 5.));
    s.part("cushion", |s| s.slab(Light, (50., 58.), (84., 74.), 5.));
    s.slab(Body, (12., 70.), (88., 86.), 4.);
    s.part("armrest", |s| s.slab(Body, (2., 46.), (18., 86.), 8.));
    s.part("armrest", |s| s.slab(Body, (82., 46.), (98., 86.), 8.));
    s.perch(50., 62.);
}

fn teapot(s: &mut Sketch) {
    s.part("handle", |s| s.curve(Dark, 6., "26,44 8,42 6,62 26,74"));
    s.part("spout", |s| s.blob(Dark, "70,76 82,58 88,40 98,34 100,40 94,52 88,72 76,84"));
    s.part("lid", |s| {
        s.circle(GOLD, 50., 22., 6.);
        s.blob(Dark, "28,38 38,28 50,26 62,28 72,38 50,42");
    });
    s.blob(Body, "22,50 34,36 50,34 66,36 78,50 80,68 70,84 50,88 30,84 20,68");
    s.slab(Dark, (34., 84.), (66., 92.), 3.);
    s.inside(|s| {
        s.curve(Light, 4., "30,52 28,64 34,76");
        for turn in 0..5 {
            let (sin, cos) = (turn as f32 * 1.2566).sin_cos();
            s.circle(CREAM, 54. + 7. * cos, 62. + 7. * sin, 4.6);
        }
        s.circle(GOLD, 54., 62., 4.);
    });
}

fn mug(s: &mut Sketch) {
    s.part("steam", |s| s.curve(CREAM, 3., "34,20 30,12 36,6"));
    s.part("steam", |s| s.curve(CREAM, 3., "52,20 48,12 54,4"));
    s.part("handle", |s| s.ring(Dark, 72., 58., 17., 8.));
    s.soft(Body, 9., "12,30 72,30 70,94 14,94");
    s.ellipse(Light, 42., 30., 30., 8.);
    s.inside(|s| s.ellipse(BARK, 42., 31., 25., 5.5));
    s.inside(|s| s.curve(Light, 4., "21,46 21,64 23,80"));
}

fn lamp(s: &mut Sketch) {
    s.part("base", |s| s.blob(WOOD, "50,50 64,64 66,82 58,92 42,92 34,82 36,64"));
    s.slab(BARK, (30., 90.), (70., 98.), 3.);
    s.line(STEEL, 4., "50,54 50,44");
    s.part("shade", |s| {
        s.soft(Body, 3., "34,4 66,4 84,48 16,48");
        s.inside(|s| {
            s.poly(Light, "42,5 54,5 58,47 34,47");
            s.line(GOLD, 3., "18,45 82,45");
        });
    });
}

fn candle(s: &mut Sketch) {
    s.part("flame", |s| {
        s.blob(BEAK, "50,0 60,16 58,26 50,31 42,26 40,16");
        s.inside(|s| s.blob(LAMP, "50,11 55,20 53,26 50,28 47,26 45,20"));
    });
    s.part("wick", |s| s.line(NIGHT, 2.4, "50,28 50,38"));
    s.part("holder", |s| {
        s.ring(GOLD, 82., 86., 8., 5.);
        s.soft(GOLD, 5., "18,84 78,84 68,97 28,97");
    });
    s.slab(Body, (36., 36.), (64., 87.), 3.);
    s.inside(|s| {
        s.blob(Light, "36.5,38 50,36.5 63.5,38 63,48 60,54 56,46 50,44 45,50 42,60 38,52");
    });
}

fn hammer(s: &mut Sketch) {
    s.part("handle", |s| {
        s.soft(Body, 4., "44,30 56,30 59,98 41,98");
        s.inside(|s| s.line(Light, 2.6, "47.5,40 46,92"));
    });
    s.part("head", |s| {
        s.soft(IRON, 3., "30,10 66,10 66,34 30,34");
        s.soft(STEEL, 3., "16,6 32,6 32,38 16,38");
        s.blob(IRON, "62,10 78,8 94,18 98,32 84,26 64,32");
    });
}

fn axe(s: &mut Sketch) {
    s.part("handle", |s| {
        s.curve(Body, 8., "44,6 46,40 44,72 50,96");
        s.inside(|s| s.curve(Light, 2.4, "44,44 43,70 47,90"));
    });
    s.part("blade", |s| {
        s.blob(IRON, "36,14 52,12 66,12 84,2 92,24 86,50 66,36 50,36 36,34");
        s.inside(|s| s.blob(STEEL, "84,3.5 91,24 85.5,48 80,26"));
    });
}

fn saw(s: &mut Sketch) {
    s.part("blade", |s| {
        s.poly(STEEL, "28,36 100,40 100,52 94,60 88,53 82,61 76,54 70,62 64,55 58,63 52,56 46,64 40,58 34,66 28,60");
        s.inside(|s| s.line(CREAM, 2., "34,41 96,44"));
    });
    s.part("handle", |s| {
        s.blob(Body, "32,30 34,48 36,68 24,76 8,72 0,56 4,38 18,30");
        s.inside(|s| s.blob(Dark, "20,42 24,52 22,62 14,62 11,54 13,44"));
        s.inside(|s| s.circle(GOLD, 30., 40., 2.2));
        s.inside(|s| s.circle(GOLD, 31., 60., 2.2));
    });
}

fn scissors(s: &mut Sketch) {
    s.part("blade", |s| s.poly(STEEL, "30,2 38,4 60,58 52,64"));
    s.part("blade", |s| s.poly(IRON, "70,2 62,4 40,58 48,64"));
    s.part("handle", |s| s.ring(Body, 32., 80., 13., 8.));
    s.part("handle", |s| s.ring(Body, 68., 80., 13., 8.));
    s.line(Body, 8., "42,70 52,56");
    s.line(Body, 8., "58,70 48,56");
    s.inside(|s| s.circle(GOLD, 50., 55., 3.4));
}

fn guitar(s: &mut Sketch) {
    s.part("neck", |s| {
        s.soft(BARK, 1., "46,10 54,10 55,60 45,60");
        s.soft(WOOD, 2., "43,0 57,0 55,14 45,14");
        for y in [3., 7., 11.] {
            s.circle(STEEL, 42., y, 1.8);
            s.circle(STEEL, 58., y, 1.8);
        }
    });
    s.part("body", |s| {
        s.blob(Body, "50,42 64,42 70,52 65,62 76,76 72,92 50,98 28,92 24,76 35,62 30,52 36,42");
        s.inside(|s| s.blob(Light, "50,46 62,46 66,53 61,63 71,77 68,89 50,93 32,89 29,77 39,63 34,53 38,46"));
        s.inside(|s| s.circle(NIGHT, 50., 64., 8.));
        s.inside(|s| s.slab(BARK, (40., 82.), (60., 86.), 1.5));
    });
    s.part("string", |s| s.inside(|s| s.line(CREAM, 0.9, "48,10 48,83")));
    s.part("string", |s| s.inside(|s| s.line(CREAM, 0.9, "52,10 52,83")));
}

fn drum(s: &mut Sketch) {
    s.part("stick", |s| {
        s.line(WOOD, 4., "56,34 88,4");
        s.circle(GOLD, 56., 34., 4.4);
    });
    s.part("stick", |s| {
        s.line(WOOD, 4., "44,34 12,4");
        s.circle(GOLD, 44., 34., 4.4);
    });
    s.blob(Body, "8,44 50,52 92,44 92,82 72,92 50,95 28,92 8,82");
    s.inside(|s| {
        s.line(CREAM, 2.4, "10,56 22,86 36,56 50,92 64,56 78,86 90,56");
    });
    s.part("rim", |s| s.blob(GOLD, "7,80 28,88 50,91 72,88 93,80 93,87 72,95 50,98 28,95 7,87"));
    s.part("skin", |s| {
        s.ellipse(GOLD, 50., 44., 43., 13.);
        s.inside(|s| s.ellipse(CREAM, 50., 42.5, 39., 10.5));
    });
    s.part("stick", |s| {
        s.inside(|s| s.line(WOOD, 4., "56,40 62,32"));
        s.inside(|s| s.circle(BARK, 55., 41., 4.));
    });
    s.perch(50., 44.);
}

fn trumpet(s: &mut Sketch) {
    s.part("valve", |s| s.line(STEEL, 5., "42,28 42,58"));
    s.part("valve", |s| s.line(STEEL, 5., "52,28 52,58"));
    s.part("valve", |s| s.line(STEEL, 5., "62,28 62,58"));
    s.ring(Dark, 52., 58., 15., 5.);
    s.slab(Dark, (30., 66.), (72., 72.), 3.);
    s.part("bell", |s| {
        s.blob(Body, "8,42 40,42 68,42 86,34 97,20 98,46 97,70 86,56 68,49 40,48 8,48");
        s.inside(|s| s.ellipse(Dark, 96., 45., 3., 20.));
    });
    s.part("mouthpiece", |s| s.soft(STEEL, 2., "0,39 6,42 6,48 0,51"));
}

fn hat(s: &mut Sketch) {
    s.part("crown", |s| s.soft(Body, 4., "26,12 74,12 70,76 30,76"));
    s.inside(|s| s.ellipse(Light, 50., 15., 21., 4.));
    s.part("band", |s| s.inside(|s| s.poly(CHERRY, "28.8,58 71.2,58 70.4,72 29.6,72")));
    s.part("brim", |s| s.blob(Dark, "2,72 26,76 50,77 74,76 98,72 92,84 74,89 50,91 26,89 8,84"));
}

fn crown(s: &mut Sketch) {
    s.soft(Body, 2., "4,22 26,50 50,10 74,50 96,22 88,88 12,88");
    for (x, y) in [(4., 20.), (50., 9.), (96., 20.)] {
        s.part("pearl", |s| s.circle(CREAM, x, y, 5.5));
    }
    s.inside(|s| s.poly(Dark, "10,74 90,74 88,87 12,87"));
    s.part("jewel", |s| s.inside(|s| s.poly(CHERRY, "50,50 58,60 50,70 42,60")));
    s.part("jewel", |s| s.inside(|s| s.circle(GLASS, 28., 64., 5.)));
    s.part("jewel", |s| s.inside(|s| s.circle(GLASS, 72., 64., 5.)));
    s.inside(|s| s.line(Light, 2.6, "13,78 87,78"));
}

fn umbrella(s: &mut Sketch) {
    s.part("handle", |s| s.curve(WOOD, 4., "50,8 50,60 50,86 44,95 36,90"));
    s.part("canopy", |s| {
        s.blob(Body, "50,8 74,14 92,32 97,54 84,50 74,56 62,50 50,56 38,50 26,56 16,50 3,54 8,32 26,14");
        s.inside(|s| {
            s.blob(Light, "50,9 62,24 67,50 62,49 50,55 38,49 33,50 38,24");
            s.curve(Dark, 2., "50,9 30,24 22,50");
            s.curve(Dark, 2., "50,9 70,24 78,50");
        });
    });
    s.line(WOOD, 3., "50,8 50,1");
}

fn boot(s: &mut Sketch) {
    s.blob(Body, "22,6 54,6 54,34 54,56 68,64 90,68 98,80 96,90 56,90 22,90 20,60 20,30");
    s.part("sole", |s| {
        s.slab(TYRE, (18., 86.), (98., 95.), 3.);
        s.slab(TYRE, (18., 88.), (40., 99.), 3.);
    });
    s.part("cuff", |s| s.slab(Dark, (17., 4.), (59., 17.), 4.));
    s.inside(|s| {
        s.curve(Light, 4., "28,26 28,50 30,70");
        s.curve(Dark, 2.2, "55,60 66,68 72,80");
    });
}
