//! Pairs that occur only in the split `held_out`: one colour and one background of each class. They test compositional
//! generalisation: a model that reads "a purple cow" correctly has combined a colour and a class that it never saw
//! together.

use super::backdrop::Background;
use super::classes::ToyClass;
use super::palette::Colour;

/// The colour in which the class occurs in the split `held_out` only.
pub fn held_out_colour(class: ToyClass) -> Colour {
    // Neighbouring classes of the tree look alike. Their indices are consecutive, so they hold out different colours: 3
    // is coprime to 10, the number of colours.
    Colour::ALL[(3 * class.index() + 5) % Colour::ALL.len()]
}

/// The background on which the class occurs in the split `held_out` only.
pub fn held_out_background(class: ToyClass) -> Background {
    let backgrounds: Vec<Background> = backgrounds_of(class).collect();
    backgrounds[(5 * class.index() + 1) % backgrounds.len()]
}

/// Returns whether the combination occurs in the split `held_out` only.
pub fn is_held_out(class: ToyClass, colour: Colour, background: Background) -> bool {
    held_out_colour(class) == colour || held_out_background(class) == background
}

/// Every background on which the class can occur. Each habitat fits at least three backgrounds.
pub(crate) fn backgrounds_of(class: ToyClass) -> impl Iterator<Item = Background> {
    Background::ALL.iter().copied().filter(move |background| class.lives_in(*background))
}
