//! Prompt templates; `{}` stands for the class name.

/// One plain prompt.
pub const PHOTO: &[&str] = &["a photo of a {}."];

/// The bare class name.
pub const BARE: &[&str] = &["{}"];

/// The seven ImageNet templates that OpenAI's CLIP notebook found to be the best subset of its eighty (openai/CLIP, MIT).
pub const IMAGENET_7: &[&str] = &[
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
];

/// Named sets, as the command line offers them.
pub const SETS: &[(&str, &[&str])] = &[("photo", PHOTO), ("bare", BARE), ("imagenet7", IMAGENET_7)];

/// A label as words: `american_avocet` and `American-Avocet` read `american avocet`.
pub fn words(label: &str) -> String {
    label.replace(['_', '-'], " ").to_lowercase()
}

/// The prompts of one class.
pub fn fill(templates: &[String], label: &str) -> Vec<String> {
    templates.iter().map(|template| template.replace("{}", &words(label))).collect()
}
