//! Prompt templates for class names. `{}` stands for the name.

use PromptFamily::{Meru, OpenAi};
use conifer_geometry::space;

use crate::{EmbeddingModel, Error, Result};

/// Joins each pair of texts with `a`, then each pair with `the`. Finally appends the texts after the semicolon.
macro_rules! a_the {
    ($(($before:literal, $after:literal)),* $(,)? $(; $($more:literal),*)?) => {
        [$(concat!($before, "a", $after),)* $(concat!($before, "the", $after),)* $($($more),*)?]
    };
}

/// Appends the class name to each text without an article, then with `a`, then with `the`.
macro_rules! bare_a_the {
    ($($before:literal),* $(,)?) => {
        [$(concat!($before, "{}."),)* $(concat!($before, "a {}."),)* $(concat!($before, "the {}.")),*]
    };
}

/// Publisher of the templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptFamily {
    /// CLIP's templates: data/prompts.md of openai/CLIP, and for ImageNet the eighty templates of its notebook "Prompt
    /// Engineering for ImageNet" (MIT).
    OpenAi,
    /// MERU's templates, which HyCoCLIP and PHyCLIP also use. Their code may not be copied, so this family has only
    /// templates that are also published elsewhere.
    Meru,
}

impl PromptFamily {
    /// All families.
    pub const ALL: [Self; 2] = [OpenAi, Meru];

    /// Name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            OpenAi => "openai",
            Meru => "meru",
        }
    }
}

/// Templates of a family for a data set of `conifer_datasets::DATA_SETS`. `None` if the data set has no classes or is
/// unknown.
pub fn for_data_set(family: PromptFamily, data_set: &str) -> Option<&'static [&'static str]> {
    find(family, data_set).map(|(templates, _)| templates)
}

/// Explains how the templates of [`for_data_set`] differ from those that the family published. `None` if they are the
/// same.
pub fn note(family: PromptFamily, data_set: &str) -> Option<&'static str> {
    find(family, data_set)?.1
}

/// Note for data sets for which MERU published only the number of templates, which equals OpenAI's.
const SAME_LENGTH: &str = "OpenAI's: of MERU's only their number is stated, and it is the same";

fn find(family: PromptFamily, data_set: &str) -> Option<(&'static [&'static str], Option<&'static str>)> {
    let stated = |templates| Some((templates, None));
    match (family, data_set) {
        (OpenAi, "imagenet") => stated(IMAGENET_80),
        (Meru, "imagenet") => stated(MERU_IMAGENET),
        (OpenAi, "food101") => stated(&["a photo of {}, a type of food."]),
        (Meru, "food101") => stated(&["food : {}.", "food porn : {}."]),
        (_, "cifar10" | "cifar100") => stated(CIFAR),
        (OpenAi, "cub2011") => {
            Some((&["a photo of a {}, a type of bird."], Some("OpenAI's for Birdsnap: it has none for CUB")))
        }
        (Meru, "cub2011") => stated(&["bird pics : {}.", "birding : {}.", "birds : {}.", "bird photography : {}."]),
        (OpenAi, "dtd") => stated(DTD),
        (Meru, "dtd") => Some((&["pics : {} texture."], Some("one of MERU's six: the others are not stated"))),
        (OpenAi, "flowers102") => stated(&["a photo of a {}, a type of flower."]),
        (Meru, "flowers102") => stated(&["flowers : {}."]),
        (OpenAi, _) => stated(shared(data_set)?),
        (Meru, _) => Some((shared(data_set)?, Some(SAME_LENGTH))),
    }
}

/// OpenAI's templates for data sets whose MERU templates are not published. Both families use them. `None` for other
/// data sets.
fn shared(data_set: &str) -> Option<&'static [&'static str]> {
    Some(match data_set {
        "sun397" | "stl10" => &["a photo of a {}.", "a photo of the {}."],
        "cars" => CARS,
        "aircraft" => &["a photo of a {}, a type of aircraft.", "a photo of the {}, a type of aircraft."],
        "pets" => &["a photo of a {}, a type of pet."],
        "caltech101" => CALTECH,
        "eurosat" => &bare_a_the!["a centered satellite photo of "],
        "resisc45" => RESISC,
        "country211" => COUNTRY,
        "mnist" => &["a photo of the number: \"{}\"."],
        "clevr" => &["a photo of {} objects."],
        "pcam" => &["this is a photo of {}"],
        "sst2" => &["a {} review of a movie."],
        _ => return None,
    })
}

const CIFAR: &[&str] = &a_the![
    ("a photo of ", " {}."),
    ("a blurry photo of ", " {}."),
    ("a black and white photo of ", " {}."),
    ("a low contrast photo of ", " {}."),
    ("a high contrast photo of ", " {}."),
    ("a bad photo of ", " {}."),
    ("a good photo of ", " {}."),
    ("a photo of ", " small {}."),
    ("a photo of ", " big {}."),
];

const CARS: &[&str] = &[
    "a photo of a {}.",
    "a photo of the {}.",
    "a photo of my {}.",
    "i love my {}!",
    "a photo of my dirty {}.",
    "a photo of my clean {}.",
    "a photo of my new {}.",
    "a photo of my old {}.",
];

const DTD: &[&str] = &a_the![
    ("a photo of ", " {} texture."),
    ("a photo of ", " {} pattern."),
    ("a photo of ", " {} thing."),
    ("a photo of ", " {} object."),
];

const CALTECH: &[&str] = &a_the![
    ("a photo of ", " {}."),
    ("a painting of ", " {}."),
    ("", " plastic {}."),
    ("a sculpture of ", " {}."),
    ("a sketch of ", " {}."),
    ("a tattoo of ", " {}."),
    ("", " toy {}."),
    ("a rendition of ", " {}."),
    ("", " embroidered {}."),
    ("", " cartoon {}."),
    ("", " {} in a video game."),
    ("", " plushie {}."),
    ("", " origami {}."),
    ("art of ", " {}."),
    ("graffiti of ", " {}."),
    ("a drawing of ", " {}."),
    ("a doodle of ", " {}."),
];

const RESISC: &[&str] = &bare_a_the![
    "satellite imagery of ",
    "aerial imagery of ",
    "satellite photo of ",
    "aerial photo of ",
    "satellite view of ",
    "aerial view of ",
];

const COUNTRY: &[&str] = &[
    "a photo i took in {}.",
    "a photo i took while visiting {}.",
    "a photo from my home country of {}.",
    "a photo from my visit to {}.",
    "a photo showing the country of {}.",
];

const MERU_IMAGENET: &[&str] = &[
    "i took a picture : itap of a {}.",
    "pics : a bad photo of the {}.",
    "pics : a origami {}.",
    "pics : a photo of the large {}.",
    "pics : a {} in a video game.",
    "pics : art of the {}.",
    "pics : a photo of the small {}.",
];

/// A single plain prompt.
pub const PHOTO: &[&str] = &["a photo of a {}."];

/// The bare class name.
pub const BARE: &[&str] = &["{}"];

/// The seven ImageNet templates that OpenAI's CLIP notebook selects as the best subset of its eighty (openai/CLIP,
/// MIT).
pub const IMAGENET_7: &[&str] = &[
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
];

/// The eighty ImageNet templates of OpenAI's CLIP notebook.
pub const IMAGENET_80: &[&str] = &a_the![
        ("a bad photo of ", " {}."),
        ("a sculpture of ", " {}."),
        ("a rendering of ", " {}."),
        ("graffiti of ", " {}."),
        ("a tattoo of ", " {}."),
        ("a photo of ", " hard to see {}."),
        ("a bright photo of ", " {}."),
        ("a photo of ", " clean {}."),
        ("a photo of ", " dirty {}."),
        ("a drawing of ", " {}."),
        ("a close-up photo of ", " {}."),
        ("a painting of ", " {}."),
        ("a cropped photo of ", " {}."),
        ("", " plastic {}."),
        ("a jpeg corrupted photo of ", " {}."),
        ("", " {} in a video game."),
        ("a doodle of ", " {}."),
        ("a photo of ", " {}."),
        ("a sketch of ", " {}."),
        ("", " origami {}."),
        ("a low resolution photo of ", " {}."),
        ("a photo of ", " large {}."),
        ("a rendition of ", " {}."),
        ("a photo of ", " nice {}."),
        ("a photo of ", " weird {}."),
        ("a blurry photo of ", " {}."),
        ("", " cartoon {}."),
        ("art of ", " {}."),
        ("", " embroidered {}."),
        ("a pixelated photo of ", " {}."),
        ("a good photo of ", " {}."),
        ("", " plushie {}."),
        ("a black and white photo of ", " {}."),
        ("a dark photo of ", " {}."),
        ("itap of ", " {}."),
        ("", " toy {}."),
        ("a photo of ", " cool {}."),
        ("a photo of ", " small {}."),
        ;
        "a photo of many {}.", "a photo of my {}.", "a photo of one {}.", "itap of my {}."
];

/// Prompt sets by the names that the command line accepts.
pub const SETS: &[(&str, &[&str])] =
    &[("photo", PHOTO), ("bare", BARE), ("imagenet7", IMAGENET_7), ("imagenet80", IMAGENET_80)];

/// Converts a label to words: `american_avocet` and `American-Avocet` become `american avocet`.
pub fn words(label: &str) -> String {
    label.replace(['_', '-'], " ").to_lowercase()
}

/// Prompts of one class. The name is inserted unchanged, because names such as `707-320` contain hyphens. See [`words`]
/// for labels.
pub fn fill(templates: &[String], name: &str) -> Vec<String> {
    templates.iter().map(|template| template.replace("{}", name)).collect()
}

/// Points of classes, `[names, dim]`. The point of a class is the mean of the points of its prompts.
///
/// # Errors
/// There is no template, a template lacks `{}`, or the model fails.
pub fn class_points<S: AsRef<str>>(
    embedder: &dyn EmbeddingModel,
    templates: &[String],
    names: &[S],
) -> Result<Vec<f32>> {
    if templates.is_empty() || templates.iter().any(|template| !template.contains("{}")) {
        return Err(Error::Invalid {
            name: "templates".into(),
            found: format!("{templates:?}"),
            expected: "at least one, each with {} for the class name".into(),
        });
    }
    let spec = embedder.spec();
    let space = space::<f32>(spec)?;
    let prompts: Vec<String> = names.iter().flat_map(|name| fill(templates, name.as_ref())).collect();
    let points = embedder.texts(&prompts)?;
    let mut centres = vec![0.0; names.len() * spec.dim];
    for (centre, ensemble) in centres.chunks_mut(spec.dim).zip(points.chunks(spec.dim * templates.len())) {
        space.mean(&ensemble.chunks(spec.dim).collect::<Vec<_>>(), centre);
    }
    Ok(centres)
}
