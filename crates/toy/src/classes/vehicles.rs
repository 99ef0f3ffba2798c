//! Vehicles of road, rail, water and air.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const MOTOR: [&str; 3] = ["vehicle", "land vehicle", "motor vehicle"];
const CYCLE: [&str; 3] = ["vehicle", "land vehicle", "cycle"];
const RAIL: [&str; 3] = ["vehicle", "land vehicle", "rail vehicle"];
const BOAT: [&str; 3] = ["vehicle", "watercraft", "boat"];
const SHIP: [&str; 3] = ["vehicle", "watercraft", "ship"];
const POWERED: [&str; 3] = ["vehicle", "aircraft", "engine aircraft"];
const FLOATING: [&str; 3] = ["vehicle", "aircraft", "floating aircraft"];

pub(super) const VEHICLES: &[ClassSpec] = &[
    class("car", MOTOR, Outdoors, car),
    class("bus", MOTOR, Outdoors, bus),
    class("truck", MOTOR, Outdoors, truck),
    class("tractor", MOTOR, Outdoors, tractor),
    class("bicycle", CYCLE, Land, bicycle),
    class("scooter", CYCLE, Land, scooter),
    class("train", RAIL, Outdoors, train),
    class("sailboat", BOAT, Harbour, sailboat),
    class("canoe", BOAT, Harbour, canoe),
    class("steamship", SHIP, Harbour, steamship),
    class("submarine", SHIP, Deep, submarine),
    class("aeroplane", POWERED, Air, aeroplane),
    class("helicopter", POWERED, Air, helicopter),
    class("rocket", POWERED, Air, rocket),
    class("balloon", FLOATING, Air, balloon),
    class("airship", FLOATING, Air, airship),
];

fn wheel(s: &mut Sketch, x: f32, y: f32, r: f32) {
    s.part("wheel", |s| {
        s.circle(TYRE, x, y, r);
        s.inside(|s| {
            s.circle(STEEL, x, y, r * 0.55);
            s.circle(IRON, x, y, r * 0.2);
        });
    });
}

fn window(s: &mut Sketch, x1: f32, y1: f32, x2: f32, y2: f32) {
    s.part("window", |s| {
        s.inside(|s| {
            s.slab(GLASS, (x1, y1), (x2, y2), 2.);
            s.line(CREAM, 1.8, &format!("{},{} {},{}", x1 + 2., y2 - 3., x1 + 5., y1 + 3.));
        });
    });
}

fn car(s: &mut Sketch) {
    s.blob(Dark, "20,50 28,32 40,26 62,26 74,34 84,50 50,56");
    s.part("window", |s| s.inside(|s| s.soft(GLASS, 4., "26,48 33,34 48,32 48,48")));
    s.part("window", |s| s.inside(|s| s.soft(GLASS, 4., "53,48 53,32 66,33 77,48")));
    s.soft(Body, 9., "2,48 84,46 98,54 98,74 2,74");
    s.part("door", |s| {
        s.inside(|s| {
            s.soft(Light, 3., "33,51 50,51 50,70 33,70");
            s.line(Dark, 2., "43,56 47,56");
        });
    });
    s.inside(|s| s.line(Dark, 2.4, "4,72 96,72"));
    s.part("headlight", |s| s.inside(|s| s.ellipse(LAMP, 92., 57., 4., 4.5)));
    wheel(s, 22., 75., 12.);
    wheel(s, 76., 75., 12.);
    s.perch(50., 28.);
}

fn bus(s: &mut Sketch) {
    s.slab(Body, (2., 18.), (98., 78.), 7.);
    s.inside(|s| s.rect(Dark, 2.4, 66., 97.6, 77.));
    s.inside(|s| s.line(Light, 2.6, "4,56 96,56"));
    for x in [7., 24., 41., 58.] {
        window(s, x, 27., x + 13., 49.);
    }
    s.part("door", |s| {
        s.inside(|s| {
            s.slab(GLASS, (76., 27.), (92., 75.), 2.);
            s.line(Dark, 2., "84,28 84,74");
        });
    });
    s.part("headlight", |s| s.inside(|s| s.circle(LAMP, 94.5, 68., 2.8)));
    wheel(s, 22., 78., 11.);
    wheel(s, 66., 78., 11.);
    s.perch(50., 20.);
}

fn truck(s: &mut Sketch) {
    s.rect(TYRE, 4., 70., 96., 78.);
    s.part("box", |s| {
        s.slab(CREAM, (2., 22.), (62., 72.), 3.);
        s.inside(|s| {
            s.rect(Body, 3., 40., 61.5, 52.);
            s.line(STEEL, 1.6, "22,24 22,70");
            s.line(STEEL, 1.6, "42,24 42,70");
        });
    });
    s.part("cab", |s| s.soft(Body, 5., "64,36 84,36 98,56 98,76 64,76"));
    s.part("window", |s| s.inside(|s| s.soft(GLASS, 2.5, "71,41 82,41 92,56 71,56")));
    s.part("headlight", |s| s.inside(|s| s.circle(LAMP, 94., 66., 3.)));
    wheel(s, 18., 79., 10.);
    wheel(s, 40., 79., 10.);
    wheel(s, 80., 79., 10.);
    s.perch(32., 24.);
}

fn tractor(s: &mut Sketch) {
    s.part("pipe", |s| s.line(IRON, 4., "78,42 78,20"));
    s.part("cab", |s| {
        s.soft(Dark, 4., "24,10 60,10 58,56 26,56");
        s.inside(|s| s.soft(GLASS, 3., "30,18 55,18 53,42 31,42"));
    });
    s.slab(Body, (52., 40.), (96., 70.), 6.);
    s.inside(|s| {
        for y in [48., 54., 60.] {
            s.line(Dark, 2., &format!("84,{y} 94,{y}"));
        }
    });
    s.blob(Body, "8,58 20,40 44,40 58,54 56,72 30,66");
    wheel(s, 28., 74., 22.);
    wheel(s, 80., 82., 14.);
}

fn bicycle(s: &mut Sketch) {
    for x in [21., 79.] {
        s.part("wheel", |s| {
            s.ring(TYRE, x, 68., 18., 4.5);
            for spoke in ["0,-17 0,17", "-17,0 17,0", "-12,-12 12,12", "-12,12 12,-12"] {
                let ends: String = spoke
                    .split(' ')
                    .filter_map(|end| end.split_once(','))
                    .filter_map(|(u, v)| Some((u.parse::<f32>().ok()?, v.parse::<f32>().ok()?)))
                    .map(|(u, v)| format!("{},{} ", x + u, 68. + v))
                    .collect();
                s.inside(|s| s.line(STEEL, 1.3, &ends));
            }
        });
    }
    s.part("frame", |s| {
        s.line(Body, 5., "21,68 36,38 68,38 48,68 21,68");
        s.line(Body, 5., "48,68 34,32");
        s.line(Body, 5., "79,68 66,30");
    });
    s.part("handlebar", |s| s.curve(TYRE, 4., "66,30 74,26 80,30"));
    s.part("saddle", |s| s.blob(TYRE, "24,28 40,28 44,32 34,35 26,33"));
    s.part("pedal", |s| {
        s.circle(IRON, 48., 68., 5.);
        s.line(IRON, 2.6, "48,68 54,80 59,80");
    });
}

fn scooter(s: &mut Sketch) {
    wheel(s, 20., 84., 13.);
    wheel(s, 80., 84., 13.);
    s.line(IRON, 5., "80,82 68,36");
    s.part("handlebar", |s| s.line(TYRE, 5., "58,26 74,24"));
    s.part("headlight", |s| s.circle(LAMP, 76., 32., 6.));
    s.blob(Body, "6,74 6,56 20,48 40,50 46,70 58,72 60,40 70,28 76,40 78,66 74,80 60,86 38,86 30,72");
    s.part("mudguard", |s| s.blob(Dark, "66,78 72,66 84,66 94,78 84,74"));
    s.part("saddle", |s| s.blob(TYRE, "8,46 26,42 46,44 44,52 26,51 12,53"));
    s.inside(|s| s.curve(Light, 2.6, "11,64 22,57 34,59"));
}

fn train(s: &mut Sketch) {
    s.part("smoke", |s| {
        s.circle(CREAM, 62., 8., 7.);
        s.circle(CREAM, 72., 6., 5.);
        s.circle(CREAM, 50., 6., 5.);
    });
    s.part("chimney", |s| s.poly(TYRE, "74,42 76,26 72,18 90,18 86,26 88,42"));
    s.part("dome", |s| s.slab(GOLD, (52., 32.), (64., 46.), 5.));
    s.part("cab", |s| {
        s.rect(Dark, 6., 26., 36., 74.);
        s.slab(TYRE, (2., 20.), (40., 28.), 3.);
        s.inside(|s| s.slab(GLASS, (12., 34.), (30., 50.), 2.));
    });
    s.part("boiler", |s| {
        s.slab(Body, (34., 40.), (94., 70.), 6.);
        s.inside(|s| {
            s.line(GOLD, 2.4, "50,41 50,69");
            s.line(GOLD, 2.4, "68,41 68,69");
        });
    });
    s.part("headlight", |s| s.circle(LAMP, 95., 50., 4.5));
    s.rect(TYRE, 4., 70., 96., 77.);
    s.poly(IRON, "90,74 100,94 84,94");
    wheel(s, 18., 84., 11.);
    wheel(s, 44., 84., 11.);
    wheel(s, 70., 84., 11.);
    s.inside(|s| s.line(CHERRY, 3., "18,86 70,86"));
    s.perch(21., 21.);
}

fn sailboat(s: &mut Sketch) {
    s.part("mast", |s| s.line(WOOD, 3.4, "50,4 50,80"));
    s.part("sail", |s| s.blob(CREAM, "47,12 42,34 20,68 30,71 47,70"));
    s.part("sail", |s| s.soft(Body, 2., "54,8 72,32 88,68 54,70"));
    s.inside(|s| s.poly(Light, "54,36 74,36 80,48 54,50"));
    s.part("flag", |s| s.poly(CHERRY, "50,2 62,6 50,10"));
    s.part("hull", |s| {
        s.soft(Body, 5., "6,76 96,76 82,96 20,96");
        s.inside(|s| s.line(CREAM, 3., "13,82 89,82"));
    });
}

fn canoe(s: &mut Sketch) {
    s.part("paddle", |s| {
        s.line(WOOD, 3.4, "34,20 62,70");
        s.tilted(GOLD, (32., 18.), (6., 12.), -30.);
    });
    s.rect(WOOD, 26., 55., 32., 62.);
    s.rect(WOOD, 68., 55., 74., 62.);
    s.part("hull", |s| {
        s.blob(Body, "2,42 10,52 30,60 50,61 70,60 90,52 98,42 96,60 84,76 50,81 16,76 4,60");
        s.inside(|s| {
            s.curve(Light, 3.2, "6,54 30,64 50,65.5 70,64 94,54");
            s.curve(Dark, 2., "14,70 50,76 86,70");
        });
    });
}

fn steamship(s: &mut Sketch) {
    for x in [32., 50., 68.] {
        s.part("funnel", |s| {
            s.poly(Body, &format!("{},46 {},16 {},16 {},46", x - 6., x - 5., x + 5., x + 6.));
            s.rect(TYRE, x - 5.6, 14., x + 5.6, 21.);
        });
    }
    s.part("deck", |s| {
        s.slab(CREAM, (18., 44.), (82., 62.), 3.);
        s.slab(CREAM, (28., 36.), (74., 48.), 3.);
    });
    for x in [26., 38., 50., 62., 74.] {
        s.part("window", |s| s.inside(|s| s.circle(IRON, x, 54., 3.)));
    }
    s.part("hull", |s| {
        s.soft(Body, 4., "0,58 100,54 88,92 12,92");
        s.inside(|s| {
            s.poly(Dark, "10,82 91,82 88,91 12,91");
            s.line(CREAM, 2.2, "5,65 95,62");
        });
    });
    s.part("anchor", |s| s.inside(|s| s.line(TYRE, 2.6, "86,68 86,76")));
}

fn submarine(s: &mut Sketch) {
    s.part("periscope", |s| s.line(IRON, 3.6, "50,36 50,12 60,12"));
    s.part("propeller", |s| {
        s.ellipse(GOLD, 5., 50., 3.6, 10.);
        s.ellipse(GOLD, 5., 72., 3.6, 10.);
    });
    s.part("tower", |s| s.soft(Dark, 5., "36,30 60,30 66,50 32,50"));
    s.poly(Dark, "8,48 24,52 24,70 8,74");
    s.blob(Body, "8,61 22,46 50,42 78,44 98,58 94,70 76,80 48,82 22,76");
    s.inside(|s| s.curve(Light, 3., "26,50 50,46.5 76,49"));
    for x in [36., 55., 74.] {
        s.part("window", |s| {
            s.inside(|s| {
                s.circle(GOLD, x, 62., 7.5);
                s.circle(GLASS, x, 62., 5.);
            });
        });
    }
    s.perch(48., 32.);
}

fn aeroplane(s: &mut Sketch) {
    s.part("wing", |s| s.poly(Dark, "46,46 34,20 44,20 66,46"));
    s.part("tail", |s| s.poly(Dark, "6,50 2,22 14,24 30,46"));
    s.blob(Body, "2,48 24,44 56,42 84,44 98,54 90,62 60,66 26,62");
    s.part("tail", |s| s.poly(Light, "8,53 2,64 12,64 26,55"));
    s.part("window", |s| s.inside(|s| s.soft(GLASS, 2., "82,47 90,48 95,53 84,53")));
    for x in [36., 46., 56., 66., 75.] {
        s.part("window", |s| s.inside(|s| s.circle(GLASS, x, 50., 2.6)));
    }
    s.part("engine", |s| s.slab(IRON, (44., 68.), (62., 78.), 4.));
    s.part("wing", |s| s.soft(Light, 2., "44,57 66,57 36,88 22,88"));
}

fn helicopter(s: &mut Sketch) {
    s.part("tail", |s| {
        s.poly(Dark, "44,46 6,44 4,52 44,66");
        s.poly(Body, "0,30 10,32 14,48 4,52");
    });
    s.line(IRON, 4., "62,36 62,22");
    s.part("rotor", |s| s.slab(TYRE, (22., 17.), (100., 22.), 2.5));
    s.part("skid", |s| s.curve(IRON, 3.4, "40,90 80,90 90,86"));
    s.line(IRON, 3., "54,76 50,90");
    s.line(IRON, 3., "72,76 76,90");
    s.blob(Body, "36,56 46,38 66,32 86,40 96,58 90,74 66,82 44,76");
    s.part("window", |s| s.inside(|s| s.blob(GLASS, "70,38 84,42 93,58 82,62 70,60")));
    s.part("door", |s| s.inside(|s| s.slab(Light, (50., 46.), (64., 74.), 4.)));
    s.part("rotor", |s| s.ring(STEEL, 6., 42., 7., 3.));
}

fn rocket(s: &mut Sketch) {
    s.part("flame", |s| {
        s.blob(BEAK, "40,80 60,80 58,92 50,100 42,92");
        s.inside(|s| s.blob(LAMP, "45,80 55,80 53,88 50,93 47,88"));
    });
    s.part("fin", |s| s.poly(CHERRY, "36,54 18,74 18,88 38,80"));
    s.part("fin", |s| s.poly(CHERRY, "64,54 82,74 82,88 62,80"));
    s.blob(Body, "50,2 62,18 68,42 66,66 60,82 40,82 34,66 32,42 38,18");
    s.part("nose", |s| s.inside(|s| s.blob(CHERRY, "50,2.5 57,10 61,19 50,22 39,19 43,10")));
    s.part("window", |s| {
        s.inside(|s| {
            s.circle(IRON, 50., 38., 10.);
            s.circle(GLASS, 50., 38., 7.);
        });
    });
    s.inside(|s| s.line(Dark, 3., "38,72 62,72"));
    s.part("fin", |s| s.inside(|s| s.slab(CHERRY, (47.5, 60.), (52.5, 84.), 2.)));
}

fn balloon(s: &mut Sketch) {
    s.part("rope", |s| s.line(BARK, 1.6, "36,62 43,84"));
    s.part("rope", |s| s.line(BARK, 1.6, "64,62 57,84"));
    s.part("envelope", |s| {
        s.blob(Body, "50,0 72,6 86,24 84,44 70,60 60,70 40,70 30,60 16,44 14,24 28,6");
        s.inside(|s| {
            s.blob(Light, "50,0.5 60,12 63,34 58,56 54,69 46,69 42,56 37,34 40,12");
            s.blob(Dark, "25,9 20,24 23,44 36,64 30,58 17,43 15.5,25");
            s.blob(Dark, "75,9 80,24 77,44 64,64 70,58 83,43 84.5,25");
        });
    });
    s.part("basket", |s| {
        s.soft(WOOD, 3., "40,83 60,83 58,98 42,98");
        s.inside(|s| s.line(GOLD, 2.4, "41,86 59,86"));
    });
}

fn airship(s: &mut Sketch) {
    s.part("fin", |s| s.poly(Dark, "2,22 18,28 26,44 6,44"));
    s.part("fin", |s| s.poly(Dark, "2,74 18,68 26,52 6,52"));
    s.part("gondola", |s| {
        s.soft(WOOD, 3., "38,66 66,66 60,80 42,80");
        s.inside(|s| {
            for x in [44., 50., 56.] {
                s.slab(GLASS, (x, 70.), (x + 4., 75.), 1.);
            }
        });
    });
    s.part("envelope", |s| {
        s.blob(Body, "4,48 22,32 50,26 78,32 98,48 78,64 50,70 22,64");
        s.inside(|s| {
            s.blob(Light, "10,45 30,36 52,33 78,37 94,47 70,43 40,43");
            s.curve(Dark, 2., "34,30 30,48 34,66");
            s.curve(Dark, 2., "66,30 70,48 66,66");
        });
    });
    s.part("fin", |s| s.poly(Dark, "0,46 18,44 18,52 0,50"));
}
