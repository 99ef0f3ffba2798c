//! Fruit and snacks.

use super::{ClassSpec, Habitat::*, class};
use crate::palette::*;
use crate::shape::Sketch;

const ORCHARD: [&str; 3] = ["food", "fruit", "orchard fruit"];
const TROPICAL: [&str; 3] = ["food", "fruit", "tropical fruit"];
const BERRY: [&str; 3] = ["food", "fruit", "berry"];
const SWEET: [&str; 3] = ["food", "snack", "sweet snack"];
const SAVOURY: [&str; 3] = ["food", "snack", "savoury snack"];

pub(super) const FOOD: &[ClassSpec] = &[
    class("apple", ORCHARD, Land, apple).small(),
    class("pear", ORCHARD, Land, pear).small(),
    class("cherry", ORCHARD, Land, cherry).small(),
    class("banana", TROPICAL, Land, banana).small(),
    class("pineapple", TROPICAL, Land, pineapple).small(),
    class("strawberry", BERRY, Land, strawberry).small(),
    class("grape", BERRY, Land, grape).small(),
    class("cake", SWEET, Land, cake).small(),
    class("ice cream", SWEET, Land, ice_cream).small(),
    class("pizza", SAVOURY, Land, pizza).small(),
    class("hamburger", SAVOURY, Land, hamburger).small(),
];

fn apple(s: &mut Sketch) {
    s.part("stem", |s| s.curve(BARK, 4., "50,28 51,14 58,6"));
    s.part("leaf", |s| s.blob(LEAF, "54,18 66,6 84,8 76,20 62,24"));
    s.blob(Body, "50,26 68,20 86,32 90,54 80,82 64,96 50,92 36,96 20,82 10,54 14,32 32,20");
    s.inside(|s| {
        s.blob(Light, "22,38 32,30 36,36 26,48 22,60 18,50");
        s.curve(Dark, 2.6, "42,28 50,32 58,28");
    });
}

fn pear(s: &mut Sketch) {
    s.part("stem", |s| s.curve(BARK, 4., "50,16 51,8 58,2"));
    s.part("leaf", |s| s.blob(LEAF, "53,12 64,2 80,6 72,16 60,18"));
    s.blob(Body, "50,12 62,18 66,36 78,56 82,76 70,94 50,98 30,94 18,76 22,56 34,36 38,18");
    s.inside(|s| {
        s.blob(Light, "30,60 36,54 38,64 34,78 30,82 26,74");
        s.circle(Dark, 60., 72., 1.6);
        s.circle(Dark, 68., 80., 1.6);
        s.circle(Dark, 56., 84., 1.6);
    });
}

fn cherry(s: &mut Sketch) {
    s.part("stem", |s| s.curve(MOSS, 3., "30,66 34,40 54,10"));
    s.part("stem", |s| s.curve(MOSS, 3., "72,74 70,44 54,10"));
    s.part("leaf", |s| s.blob(LEAF, "54,12 68,2 92,8 82,22 64,22"));
    s.circle(Body, 28., 74., 20.);
    s.circle(Body, 72., 80., 19.);
    s.inside(|s| {
        s.tilted(Light, (21., 67.), (4., 7.), 30.);
        s.tilted(Light, (65., 73.), (4., 7.), 30.);
    });
}

fn banana(s: &mut Sketch) {
    s.blob(Dark, "84,10 90,30 84,58 62,82 34,90 12,84 8,78 34,76 58,60 72,36 76,12");
    s.blob(Body, "80,10 84,28 76,52 56,72 30,82 10,80 8,74 32,68 52,54 68,32 72,12");
    s.inside(|s| s.curve(Light, 3.4, "20,74 40,68 58,52 70,32"));
    s.part("stem", |s| s.soft(BARK, 2., "71,3 81,1 84,14 73,16"));
    s.part("tip", |s| s.blob(BARK, "6,73 12,75 12,85 7,83"));
}

fn pineapple(s: &mut Sketch) {
    for (ink, leaf) in [
        (MOSS, "50,36 34,26 26,10 42,18"),
        (MOSS, "50,36 66,26 74,10 58,18"),
        (LEAF, "46,38 26,32 18,20 36,24"),
        (LEAF, "54,38 74,32 82,20 64,24"),
        (LEAF, "42,36 44,14 50,0 56,14 58,36"),
    ] {
        s.part("leaf", |s| s.poly(ink, leaf));
    }
    s.blob(Body, "50,32 68,36 78,56 74,82 62,96 50,98 38,96 26,82 22,56 32,36");
    s.inside(|s| {
        for line in [
            "38,37 70,87",
            "28,45 62,95",
            "24,60 48,97",
            "52,34 76,72",
            "62,37 30,87",
            "72,45 38,95",
            "76,60 52,97",
            "48,34 24,72",
        ] {
            s.line(Dark, 2., line);
        }
    });
}

fn strawberry(s: &mut Sketch) {
    s.blob(Body, "50,24 72,20 88,32 86,52 70,80 50,98 30,80 14,52 12,32 28,20");
    s.inside(|s| {
        for (x, y) in
            [(28., 42.), (44., 46.), (60., 46.), (74., 40.), (34., 60.), (50., 62.), (66., 60.), (42., 76.), (57., 77.)]
        {
            s.ellipse(LAMP, x, y, 2., 3.2);
        }
    });
    s.part("leaf", |s| {
        s.blob(LEAF, "50,12 62,16 84,16 76,28 62,26 56,38 50,28 44,38 38,26 24,28 16,16 38,16");
    });
    s.part("stem", |s| s.curve(MOSS, 4., "50,18 51,8 56,3"));
}

fn grape(s: &mut Sketch) {
    s.part("stem", |s| s.curve(BARK, 4., "50,26 50,12 58,4"));
    s.part("leaf", |s| s.blob(LEAF, "52,18 58,6 70,8 80,4 86,14 78,20 76,30 64,24"));
    for (ink, x, y) in [
        (Dark, 50., 88.),
        (Dark, 40., 74.),
        (Body, 60., 74.),
        (Dark, 30., 58.),
        (Body, 50., 60.),
        (Dark, 70., 58.),
        (Body, 22., 40.),
        (Dark, 40., 43.),
        (Body, 60., 43.),
        (Dark, 78., 40.),
        (Body, 50., 31.),
    ] {
        s.circle(ink, x, y, 11.);
        s.inside(|s| s.circle(Light, x - 3.5, y - 3.5, 2.8));
    }
}

fn cake(s: &mut Sketch) {
    for x in [34., 50., 66.] {
        s.part("candle", |s| {
            s.line(GLASS, 4., &format!("{x},30 {x},18"));
            s.ellipse(BEAK, x, 10., 3., 5.);
        });
    }
    s.ellipse(STEEL, 50., 91., 48., 7.);
    s.slab(Body, (10., 56.), (90., 92.), 6.);
    s.slab(Body, (22., 28.), (78., 60.), 6.);
    s.part("icing", |s| {
        s.blob(CREAM, "22,34 30,27 50,26 70,27 78,34 77,44 72,38 66,46 58,38 50,47 42,38 34,46 28,38 23,44");
        s.blob(CREAM, "10,62 20,56 50,56 80,56 90,62 89,74 82,65 74,75 64,66 56,76 48,66 38,76 30,66 20,75 11,68");
    });
    s.perch(50., 30.);
}

fn ice_cream(s: &mut Sketch) {
    s.part("cone", |s| {
        s.soft(GOLD, 2., "28,48 72,48 50,99");
        s.inside(|s| {
            for line in ["38,49 56,84", "52,49 62,70", "62,49 44,84", "48,49 38,70"] {
                s.line(WOOD, 1.6, line);
            }
        });
    });
    s.part("scoop", |s| {
        s.circle(Body, 50., 28., 23.);
        s.blob(Body, "24,38 50,34 76,38 78,48 68,46 62,53 54,48 46,55 38,48 30,52 22,46");
        s.inside(|s| {
            s.tilted(Light, (40., 19.), (5., 8.), 40.);
            for (x, y) in [(54., 20.), (62., 30.), (46., 32.)] {
                s.line(LAMP, 2.4, &format!("{x},{y} {},{}", x + 3., y + 2.));
            }
        });
    });
    s.part("cherry", |s| s.circle(CHERRY, 52., 5., 6.));
}

fn pizza(s: &mut Sketch) {
    s.part("crust", |s| s.blob(WOOD, "4,24 14,12 50,6 86,12 96,24 88,32 50,26 12,32"));
    s.soft(Body, 3., "10,27 50,21 90,27 52,98");
    s.inside(|s| s.blob(Light, "18,32 50,28 82,32 74,46 64,42 54,50 42,42 28,48"));
    for (x, y) in [(36., 40.), (62., 42.), (50., 66.)] {
        s.part("salami", |s| {
            s.inside(|s| {
                s.circle(CHERRY, x, y, 8.);
                s.circle(ROSY, x - 2., y - 2., 2.);
            });
        });
    }
    s.inside(|s| {
        s.tilted(MOSS, (48., 50.), (4., 2.), 30.);
        s.tilted(MOSS, (56., 80.), (3.4, 1.8), -30.);
    });
}

fn hamburger(s: &mut Sketch) {
    s.part("bun", |s| s.slab(Dark, (10., 74.), (90., 92.), 8.));
    s.part("patty", |s| s.slab(BARK, (7., 62.), (93., 76.), 6.));
    s.part("cheese", |s| s.poly(LAMP, "8,58 92,58 80,64 70,72 58,64 8,64"));
    s.part("lettuce", |s| {
        s.blob(LEAF, "4,54 20,50 80,50 96,54 94,62 84,58 76,64 66,58 56,64 46,58 36,64 26,58 16,64 6,60")
    });
    s.part("bun", |s| {
        s.blob(Body, "8,50 12,30 30,16 50,13 70,16 88,30 92,50 50,54");
        s.inside(|s| {
            for (x, y) in [(32., 28.), (48., 22.), (64., 28.), (40., 36.), (58., 37.), (74., 38.), (25., 40.)] {
                s.ellipse(CREAM, x, y, 2.8, 1.8);
            }
        });
    });
}
