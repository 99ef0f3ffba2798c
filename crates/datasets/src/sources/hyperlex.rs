//! HyperLex (Vulic et al. 2017): word pairs with human ratings of "to what degree is X a type of Y?".

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use conifer_data::{Broken, Cause, Error, Result, Sample, Source, SourceEntry, SourceSpec, Tiers, View};
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub(super) const ENTRY: SourceEntry = SourceEntry {
    kind: "hyperlex",
    summary: "HyperLex: graded pairs of a specific and a general word",
    inputs: "path: hyperlex-all.txt (or another file of its format), or the folder that holds it; split: N (nouns) or V (verbs)",
    read: |spec| Ok(Box::new(HyperLexPairs::open(spec)?)),
};

/// The columns that are read. In the file, the scores of the individual raters follow.
const COLUMNS: [&str; 6] = ["WORD1", "WORD2", "POS", "TYPE", "AVG_SCORE", "AVG_SCORE_0_10"];

/// The pairs of a file. A sample has the chain WORD2, WORD1 (in the paper, WORD1 is X and WORD2 is Y, the general
/// word). Its grade is the mean rating from 0 to 10. Its label is the WordNet relation between the words ("hyp-1",
/// "cohyp", ...; the prefix "r-" marks the direction from Y to X). Its split is "N" or "V".
pub struct HyperLexPairs {
    path: PathBuf,
    /// Lines with their numbers in the file, from 1.
    lines: Vec<(usize, String)>,
    fingerprint: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HyperLexOptions {}

impl HyperLexPairs {
    /// Reads the file, which has a few thousand lines.
    ///
    /// # Errors
    /// The file cannot be read, has another header, contains a pair twice, or has no pair (of the split).
    pub fn open(spec: &SourceSpec) -> Result<Self> {
        let HyperLexOptions {} = spec.parse_options()?;
        let path = spec.need_path()?;
        let path = if path.is_dir() { path.join("hyperlex-all.txt") } else { path.clone() };
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let mut lines =
            text.strip_prefix('\u{feff}').unwrap_or(&text).lines().zip(1..).map(|(line, number)| (number, line));
        let head = lines.next().map_or("", |(_, line)| line);
        if !head.split_whitespace().take(COLUMNS.len()).eq(COLUMNS) {
            return Err(Error::format(
                place(&path, 1),
                format!("{head:?}"),
                format!("a header: {}", COLUMNS.join(" ")),
            ));
        }
        let mut seen = HashMap::new();
        let mut kept = Vec::new();
        let mut hash = Sha256::new();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let fields: Vec<_> = line.split_whitespace().take(COLUMNS.len()).collect();
            if spec.split.as_deref().is_some_and(|split| fields.get(2) != Some(&split)) {
                continue;
            }
            if let Some(before) = seen.insert((fields.first().copied(), fields.get(1).copied()), number) {
                return Err(Error::format(
                    place(&path, number),
                    format!("{line:?}"),
                    format!("each pair once (line {before} has the same pair)"),
                ));
            }
            hash.update(fields.join(" "));
            hash.update("\n");
            kept.push((number, line.to_owned()));
        }
        if kept.is_empty() {
            let expected = spec.split.as_ref().map_or_else(
                || "at least one pair after the header".to_owned(),
                |split| format!("pairs of split `{split}` (N or V)"),
            );
            return Err(Error::Empty { place: format!("`{}`", path.display()), expected });
        }
        Ok(Self { path, lines: kept, fingerprint: hex::encode(hash.finalize()) })
    }
}

impl Source for HyperLexPairs {
    fn name(&self) -> &str {
        ENTRY.kind
    }

    fn len(&self) -> usize {
        self.lines.len()
    }

    fn get(&self, index: usize) -> Result<Sample, Broken> {
        let (number, line) = &self.lines[index];
        sample(line).map_err(|detail| Broken::new(place(&self.path, *number), Cause::BadRecord, detail))
    }

    fn views(&self) -> &[View] {
        &[View::Chain]
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

fn place(path: &Path, number: usize) -> String {
    format!("line {number} of `{}`", path.display())
}

/// Parses a line. The error describes the fault.
fn sample(line: &str) -> Result<Sample, String> {
    let fields: Vec<_> = line.split_whitespace().take(COLUMNS.len()).collect();
    let [specific, general, class, relation, _, grade] = fields[..] else {
        return Err(format!("{} fields in {line:?}; expected {}", fields.len(), COLUMNS.join(" ")));
    };
    if !["N", "V"].contains(&class) {
        return Err(format!("POS is `{class}`; expected N or V"));
    }
    let value = grade.parse().ok().filter(|value| (0.0..=10.0).contains(value));
    let value = value.ok_or_else(|| format!("AVG_SCORE_0_10 is `{grade}`; expected a number from 0 to 10"))?;
    Ok(Sample {
        id: format!("{specific} {general}"),
        tiers: Some(Tiers { positive: vec![general.to_owned(), specific.to_owned()], negative: Vec::new() }),
        grade: Some(value),
        label: Some(relation.to_owned()),
        split: Some(class.to_owned()),
        ..Sample::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use conifer_data::fixtures::{FixtureFolder, shared_data};

    use super::*;
    use crate::sources::open;

    const TEXT: &str = "WORD1 WORD2 POS TYPE AVG_SCORE AVG_SCORE_0_10 STD SCORES..\n\
        trout fish N hyp-1 6.00 10.0 0.00 6 6 6\nfish trout N r-hyp-1 1.50 2.5 0.10 1 2\n\nadvance take V no-rel 1.42 2.37 1.66 3 0\n";

    fn spec(path: &Path, split: Option<&str>) -> SourceSpec {
        let split = split.map(str::to_owned);
        SourceSpec { kind: "hyperlex".to_owned(), path: Some(path.to_owned()), split, ..SourceSpec::default() }
    }

    #[test]
    fn the_second_word_is_the_general_one() {
        let folder = FixtureFolder::new();
        folder.write("hyperlex-all.txt", TEXT);
        let source = open(&spec(folder.path(), None)).unwrap();
        assert_eq!((source.len(), source.views()), (3, &[View::Chain][..]));
        let trout = source.get(0).unwrap();
        assert_eq!(trout.tiers.unwrap().positive, ["fish", "trout"]);
        assert_eq!(
            (trout.grade, trout.label.as_deref(), trout.split.as_deref()),
            (Some(10.0), Some("hyp-1"), Some("N"))
        );
        assert_eq!((source.get(1).unwrap().id, source.get(2).unwrap().grade), ("fish trout".to_owned(), Some(2.37)));
        let verbs = open(&spec(&folder.path().join("hyperlex-all.txt"), Some("V"))).unwrap();
        assert_eq!((verbs.len(), verbs.get(0).unwrap().id), (1, "advance take".to_owned()));
        assert_ne!(verbs.fingerprint(), source.fingerprint());
    }

    #[test]
    fn malformed_input_is_reported() {
        let folder = FixtureFolder::new();
        let write = |text: &str| folder.write("pairs.txt", text);
        let fails = |path: &Path, split| open(&spec(path, split)).err().unwrap().to_string();
        assert!(fails(&write("a b N hyp-1 6.00 10.0\n"), None).contains("expected a header: WORD1 WORD2"));
        let text = fails(&write(&TEXT.replace("fish trout", "trout fish")), None);
        assert!(text.contains("line 3 of ") && text.contains("line 2 has the same pair"), "{text}");
        let text = fails(&write(TEXT), Some("A"));
        assert!(text.contains("pairs of split `A` (N or V)"), "{text}");
        assert!(
            fails(&write("WORD1 WORD2 POS TYPE AVG_SCORE AVG_SCORE_0_10\n"), None)
                .contains("one pair after the header")
        );
        for (good, bad, message) in [
            ("10.0", "10.5", "AVG_SCORE_0_10 is `10.5`"),
            ("N hyp-1", "A hyp-1", "POS is `A`"),
            ("hyp-1 6.00 10.0 0.00 6 6 6", "hyp-1", "4 fields in"),
        ] {
            let source = open(&spec(&write(&TEXT.replacen(good, bad, 1)), None)).unwrap();
            let broken = source.get(0).unwrap_err();
            assert!(broken.cause == Cause::BadRecord && broken.sample.starts_with("line 2 of "), "{broken}");
            assert!(broken.detail.contains(message), "{broken}");
        }
    }

    /// Totals as stated in the README of HyperLex; relations as counted with `cut -d' ' -f4 | sort | uniq -c`.
    #[test]
    fn the_pairs_as_published() {
        let Some(folder) = shared_data("hyperlex") else { return };
        let source = open(&spec(&folder, None)).unwrap();
        let samples: Vec<_> = (0..source.len()).map(|index| source.get(index).unwrap()).collect();
        samples.iter().for_each(|sample| sample.check().unwrap());
        assert_eq!(samples.len(), 2616);
        assert_eq!(samples.iter().map(|it| &it.id).collect::<BTreeSet<_>>().len(), 2616);
        let of = |label: &str| -> Vec<f64> {
            let those = samples.iter().filter(|it| it.label.as_deref() == Some(label));
            those.map(|it| it.grade.unwrap()).collect()
        };
        assert_eq!((of("hyp-1").len(), of("r-hyp-1").len(), of("no-rel").len()), (384, 98, 290));
        // Raters judge whether WORD1 is a type of WORD2. The mean rating is 7.86 where WordNet has WORD2 above WORD1,
        // and 4.75 in the opposite direction.
        let mean = |grades: Vec<f64>| grades.iter().sum::<f64>() / grades.len() as f64;
        assert!((mean(of("hyp-1")) - 7.86479).abs() < 1e-4 && (mean(of("r-hyp-1")) - 4.75408).abs() < 1e-4);
        for (split, count) in [("N", 2163), ("V", 453)] {
            assert_eq!(open(&spec(&folder, Some(split))).unwrap().len(), count);
        }
    }
}
