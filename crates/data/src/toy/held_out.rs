//! Pairs that only the split `held_out` shows: one colour and one background of each class. Whoever reads "a purple cow" right there has
//! put a colour and a class together that were never seen together.

use super::backdrop::Background;
use super::classes::Class;
use super::palette::Colour;

/// The colour in which the class is never seen elsewhere.
pub fn held_out_colour(class: Class) -> Colour {
    // 3 is prime to the ten colours: neighbours in the tree, which look alike, hold out different ones.
    Colour::ALL[(3 * class.index() + 5) % Colour::ALL.len()]
}

/// The background on which the class is never seen elsewhere.
pub fn held_out_background(class: Class) -> Background {
    let homes: Vec<Background> = homes(class).collect();
    homes[(5 * class.index() + 1) % homes.len()]
}

/// Whether the pair is left to the split `held_out`.
pub fn is_held_out(class: Class, colour: Colour, background: Background) -> bool {
    held_out_colour(class) == colour || held_out_background(class) == background
}

/// Every background of the class. Each habitat has at least three.
pub(crate) fn homes(class: Class) -> impl Iterator<Item = Background> {
    Background::ALL.iter().copied().filter(move |background| class.lives_in(*background))
}
