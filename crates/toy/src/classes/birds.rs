//! Birds.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const WATER: [&str; 3] = ["animal", "bird", "water bird"];
const LAND: [&str; 3] = ["animal", "bird", "land bird"];

pub(super) const BIRDS: &[ClassSpec] = &[
    class("duck", WATER, Pond, duck).small(),
    class("swan", WATER, Pond, swan),
    class("penguin", WATER, Land, penguin).small(),
    class("flamingo", WATER, Pond, flamingo),
    class("parrot", LAND, Land, parrot).small(),
    class("owl", LAND, Land, owl).small(),
    class("rooster", LAND, Land, rooster).small(),
    class("eagle", LAND, Air, eagle),
];

fn duck(s: &mut Sketch) {
    s.part("foot", |s| s.line(BEAK, 5., "38,84 38,96 47,96"));
    s.part("foot", |s| s.line(BEAK, 5., "56,84 56,96 65,96"));
    s.part("tail", |s| s.poly(Dark, "2,46 28,54 22,72"));
    s.blob(Body, "10,56 30,57 48,56 58,50 74,54 80,68 68,84 44,89 22,80");
    s.part("head", |s| {
        s.blob(Body, "55,34 66,22 80,28 82,40 78,56 66,64 56,56 59,44");
        s.eye(72., 33., 3.4);
    });
    s.part("beak", |s| s.blob(BEAK, "79,34 90,36 100,36 99,43 82,45"));
    s.inside(|s| s.curve(CREAM, 3.4, "58,52 66,55 77,51"));
    s.part("wing", |s| {
        s.blob(Dark, "20,60 42,57 60,63 58,73 44,79 28,75");
        s.inside(|s| s.curve(Light, 2.4, "30,68 42,71 54,68"));
    });
}

fn swan(s: &mut Sketch) {
    s.part("tail", |s| s.blob(Body, "2,54 18,58 26,70 14,74"));
    s.blob(Body, "8,66 24,60 48,62 68,62 76,74 66,90 40,94 18,86");
    s.part("neck", |s| s.curve(Body, 10., "68,78 79,64 74,48 64,36 62,22 70,13"));
    s.part("head", |s| {
        s.blob(Body, "62,12 70,5 80,8 85,14 78,20 68,20");
        s.eye(75., 12., 2.);
    });
    s.part("beak", |s| {
        s.poly(BEAK, "84,10 98,20 82,20");
        s.inside(|s| s.circle(NIGHT, 84., 12., 3.));
    });
    s.part("wing", |s| {
        s.blob(Light, "4,46 20,46 42,52 60,64 58,78 40,82 22,76 12,62");
        s.inside(|s| {
            s.curve(Dark, 1.8, "14,54 30,60 48,72");
            s.curve(Dark, 1.8, "18,64 30,70 42,77");
        });
    });
}

fn penguin(s: &mut Sketch) {
    s.part("foot", |s| s.ellipse(BEAK, 38., 95., 11., 4.5));
    s.part("foot", |s| s.ellipse(BEAK, 62., 95., 11., 4.5));
    s.part("flipper", |s| s.blob(Dark, "28,40 18,52 12,70 18,74 30,60"));
    s.part("flipper", |s| s.blob(Dark, "72,40 82,52 88,70 82,74 70,60"));
    s.blob(Body, "50,6 66,14 72,34 78,62 70,86 50,94 30,86 22,62 28,34 34,14");
    s.part("belly", |s| {
        s.inside(|s| s.blob(CREAM, "50,40 63,44 69,64 63,82 50,88 37,82 31,64 37,44"));
    });
    s.inside(|s| {
        s.ellipse(CREAM, 42., 25., 9., 11.);
        s.ellipse(CREAM, 58., 25., 9., 11.);
    });
    s.eye(43., 24., 3.4);
    s.eye(57., 24., 3.4);
    s.part("beak", |s| s.inside(|s| s.poly(BEAK, "42,31 58,31 50,43")));
}

fn flamingo(s: &mut Sketch) {
    s.part("leg", |s| s.line(Dark, 3., "46,60 60,72 46,78"));
    s.part("leg", |s| s.line(Dark, 3., "42,60 42,98 50,98"));
    s.part("tail", |s| s.poly(Dark, "8,56 30,44 32,60"));
    s.part("neck", |s| s.curve(Body, 7., "58,52 70,44 70,34 60,26 58,16 66,8"));
    s.blob(Body, "14,52 28,40 48,38 64,46 62,58 46,66 26,62");
    s.part("head", |s| {
        s.ellipse(Body, 67., 9., 9., 7.5);
        s.eye(69., 7., 2.2);
    });
    s.part("beak", |s| {
        s.blob(CREAM, "74,5 82,10 80,16 74,14");
        s.blob(NIGHT, "80,9 86,16 82,26 79,16");
    });
    s.part("wing", |s| {
        s.blob(Dark, "16,52 34,44 52,46 52,56 38,61 24,58");
        s.inside(|s| s.curve(Light, 2., "24,54 36,50 46,51"));
    });
}

fn parrot(s: &mut Sketch) {
    s.part("tail", |s| {
        s.blob(Dark, "40,66 50,70 38,92 24,99 28,84");
        s.inside(|s| s.line(LAMP, 3., "42,74 32,91"));
    });
    s.line(BARK, 6., "18,80 88,76");
    s.blob(Body, "56,8 72,16 76,34 74,56 62,74 48,76 38,66 36,46 40,22");
    s.part("foot", |s| s.line(TYRE, 4., "52,73 52,80"));
    s.part("foot", |s| s.line(TYRE, 4., "62,72 62,79"));
    s.part("wing", |s| {
        s.blob(Dark, "44,36 56,40 60,52 52,66 38,80 34,64 36,46");
        s.inside(|s| {
            s.blob(Ink::Fixed(Rgb(252, 214, 84)), "40,54 52,54 54,60 44,66 38,64");
            s.blob(Ink::Fixed(Rgb(74, 150, 220)), "38,64 50,64 46,72 38,79 35,70");
        });
    });
    s.part("head", |s| {
        s.blob(Body, "44,16 56,6 70,10 78,22 72,36 56,38 44,30");
        s.inside(|s| s.ellipse(CREAM, 65., 22., 8., 9.));
        s.eye(65., 20., 3.2);
    });
    s.part("beak", |s| s.blob(TYRE, "71,15 82,15 88,26 84,40 79,31 71,29"));
}

fn owl(s: &mut Sketch) {
    s.part("foot", |s| s.line(BEAK, 5., "36,94 42,94"));
    s.part("foot", |s| s.line(BEAK, 5., "58,94 64,94"));
    s.poly(Body, "20,6 46,20 26,36");
    s.poly(Body, "80,6 54,20 74,36");
    s.blob(Body, "50,12 74,20 82,44 80,74 66,92 50,95 34,92 20,74 18,44 26,20");
    s.part("belly", |s| {
        s.inside(|s| {
            s.blob(Light, "50,48 68,58 68,80 50,91 32,80 32,58");
            for (x, y) in [(42., 64.), (58., 64.), (50., 74.), (40., 80.), (60., 80.)] {
                s.line(Dark, 2.4, &format!("{},{y} {x},{} {},{y}", x - 4., y + 4., x + 4.));
            }
        });
    });
    s.part("wing", |s| s.blob(Dark, "20,46 30,56 32,76 26,90 15,72"));
    s.part("wing", |s| s.blob(Dark, "80,46 70,56 68,76 74,90 85,72"));
    s.part("eye", |s| {
        s.inside(|s| s.circle(CREAM, 36., 35., 13.));
        s.eye(38., 35., 7.);
    });
    s.part("eye", |s| {
        s.inside(|s| s.circle(CREAM, 64., 35., 13.));
        s.eye(62., 35., 7.);
    });
    s.part("beak", |s| s.inside(|s| s.poly(BEAK, "44,40 56,40 50,54")));
}

fn rooster(s: &mut Sketch) {
    s.part("leg", |s| s.line(BEAK, 4., "44,78 44,96 52,96"));
    s.part("leg", |s| s.line(BEAK, 4., "56,78 56,96 64,96"));
    s.part("tail", |s| {
        s.curve(Dark, 8., "30,62 14,52 6,32 10,18");
        s.curve(Ink::Fixed(Rgb(52, 122, 112)), 8., "30,58 20,42 18,24 26,12");
        s.curve(Dark, 8., "34,54 30,38 32,26 40,20");
    });
    s.blob(Body, "22,50 38,54 52,46 58,28 76,26 80,44 76,66 62,82 42,82 28,70");
    s.part("comb", |s| {
        s.circle(CHERRY, 60., 16., 5.);
        s.circle(CHERRY, 68., 11., 6.);
        s.circle(CHERRY, 76., 15., 5.);
    });
    s.part("head", |s| {
        s.circle(Body, 68., 26., 12.);
        s.eye(71., 24., 3.);
    });
    s.part("beak", |s| s.poly(BEAK, "78,22 93,29 78,33"));
    s.ellipse(CHERRY, 76., 40., 4., 6.5);
    s.part("wing", |s| {
        s.blob(Dark, "32,56 48,54 62,60 58,70 44,74 34,68");
        s.inside(|s| s.curve(Light, 2.4, "40,64 48,67 56,64"));
    });
}

fn eagle(s: &mut Sketch) {
    s.part("tail", |s| s.poly(CREAM, "43,62 57,62 64,90 50,85 36,90"));
    for mirror in [false, true] {
        let x = |x: f32| if mirror { 100. - x } else { x };
        s.part("wing", |s| {
            for (root, length, degrees) in [
                ((38., 44.), 12., 92_f32),
                ((31., 42.), 14., 98.),
                ((25., 38.), 16., 108.),
                ((20., 34.), 17., 124.),
                ((17., 30.), 17., 146.),
                ((15., 27.), 17., 170.),
                ((15., 24.), 17., 196.),
            ] {
                let degrees = if mirror { 180. - degrees } else { degrees };
                let (sin, cos) = degrees.to_radians().sin_cos();
                let (u, v) = root;
                let middle = (x(u) + length * cos, v + length * sin);
                s.tilted(Dark, middle, (length, 4.2), degrees);
            }
            let arm = [(48., 38.), (36., 24.), (20., 14.), (12., 20.), (16., 32.), (32., 48.), (48., 54.)];
            let arm: String = arm.iter().map(|&(u, v)| format!("{},{v} ", x(u))).collect();
            s.blob(Body, &arm);
        });
    }
    s.blob(Body, "50,28 60,38 60,56 55,70 45,70 40,56 40,38");
    s.inside(|s| {
        for (x, y) in [(46., 48.), (54., 48.), (50., 56.)] {
            s.curve(Light, 1.8, &format!("{},{y} {x},{} {},{y}", x - 3., y + 3., x + 3.));
        }
    });
    s.part("head", |s| {
        s.circle(CREAM, 50., 26., 12.);
        s.eye(44.5, 24., 2.6);
        s.eye(56.5, 24., 2.6);
    });
    s.part("beak", |s| s.blob(BEAK, "46,27 54,27 56,32 50,42 45,32"));
}
