use std::path::Path;

use anyhow::{Context as _, ensure};

/// The words of `--words` with their families, and the pairs of `--pair`.
pub(super) struct WordList {
    words: Vec<String>,
    /// The family of each word; `None` for a word without a family.
    families: Vec<Option<String>>,
    pairs: Vec<[usize; 2]>,
}

impl WordList {
    /// Reads the file. Words of pairs that the file lacks are added without a family.
    pub(super) fn read(path: &Path, pairs: &[String]) -> anyhow::Result<Self> {
        let place = || format!("--words {}", path.display());
        let text = std::fs::read_to_string(path).with_context(place)?;
        let mut list = WordList { words: Vec::new(), families: Vec::new(), pairs: Vec::new() };
        for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
            let (word, family) =
                line.split_once('\t').map_or((line, None), |(word, family)| (word, Some(family.trim())));
            let word = word.trim();
            ensure!(
                !list.words.iter().any(|it| it == word),
                "{}: the word `{word}` occurs twice; expected it once",
                place()
            );
            list.words.push(word.to_owned());
            list.families.push(family.filter(|it| !it.is_empty()).map(str::to_owned));
        }
        ensure!(!list.words.is_empty(), "{}: no word; expected one per line", place());
        for pair in pairs {
            let parts: Vec<&str> = pair.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
            let [a, b] = parts[..] else { anyhow::bail!("--pair {pair}: expected two words, such as dog,car") };
            let numbers = [a, b].map(|word| {
                list.words.iter().position(|it| it == word).unwrap_or_else(|| {
                    list.words.push(word.to_owned());
                    list.families.push(None);
                    list.words.len() - 1
                })
            });
            list.pairs.push(numbers);
        }
        Ok(list)
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn pairs(&self) -> &[[usize; 2]] {
        &self.pairs
    }

    /// The prompts of all words, then those of all pairs.
    pub(super) fn texts(&self, prompt: &str, pair_prompt: &str) -> anyhow::Result<Vec<String>> {
        let one = self.words.iter().map(|word| prompted("--prompt", prompt, &[word]));
        let two = self.pairs.iter().map(|pair| {
            let [a, b] = pair.map(|word| self.words[word].as_str());
            prompted("--pair-prompt", pair_prompt, &[a, b])
        });
        one.chain(two).collect()
    }

    /// Names of the families, sorted, and the family of each word. `None` if a word has none, or there are fewer than
    /// two families.
    pub(super) fn families(&self) -> Option<(Vec<String>, Vec<usize>)> {
        let of_words: Vec<&String> = self.families.iter().map(Option::as_ref).collect::<Option<_>>()?;
        let mut names: Vec<String> = of_words.iter().map(|it| (*it).clone()).collect();
        names.sort_unstable();
        names.dedup();
        let numbers = of_words.iter().filter_map(|it| names.binary_search(it).ok()).collect();
        (names.len() > 1).then_some((names, numbers))
    }
}

/// A prompt in which each `{}` is replaced by a word, in order. Fails if their numbers differ.
pub(super) fn prompted(option: &str, prompt: &str, words: &[&str]) -> anyhow::Result<String> {
    let found = prompt.matches("{}").count();
    ensure!(found == words.len(), "{option} `{prompt}` has {found} times {{}}; expected {}", words.len());
    Ok(words.iter().fold(prompt.to_owned(), |text, word| text.replacen("{}", word, 1)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn list(text: &str, pairs: &[&str]) -> anyhow::Result<WordList> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.txt");
        std::fs::write(&path, text).unwrap();
        WordList::read(&path, &pairs.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_families_and_pairs() {
        let words = list("dog\tmammals\n\ncar\tvehicles\ncat\tmammals\n", &["dog, car"]).unwrap();
        assert_eq!(words.families().unwrap(), (vec!["mammals".to_owned(), "vehicles".to_owned()], vec![0, 1, 0]));
        let texts = words.texts("a {}", "a {} and a {}").unwrap();
        assert_eq!(texts, ["a dog", "a car", "a cat", "a dog and a car"]);
        assert!(list("dog\tmammals\ncar\n", &[]).unwrap().families().is_none());
        assert!(list("dog\tmammals\n", &["dog,bus"]).unwrap().families().is_none());
    }

    #[test]
    fn bad_words_are_refused() {
        let refused = |text: &str, pairs: &[&str]| list(text, pairs).err().unwrap().to_string();
        assert!(refused("\n", &[]).contains("no word"));
        assert!(refused("dog\ndog\n", &[]).contains("`dog` occurs twice"));
        assert!(refused("dog\n", &["dog"]).contains("expected two words"));
        assert!(
            prompted("--prompt", "no place", &["a"]).unwrap_err().to_string().contains("--prompt `no place` has 0")
        );
    }
}
