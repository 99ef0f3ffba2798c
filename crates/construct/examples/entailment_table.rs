//! Measures the rules of entailment on HierarCaps: how many of the published neighbours they accept and how many of the
//! published negatives they accept wrongly, on two halves of the photos. Tune the rules on one half only.
//!
//!     cargo run --release -p conifer-construct --example entailment_table -- hierarcaps_test_expanded.csv.gz [WORDNET]
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use conifer_construct::entailment::{Entailment, RuleEntailment};
use conifer_construct::{Hypernyms, Tagger, WordNetNouns, text};

/// Tiers of a row.
type TierTexts = [String; 4];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("expected the path of hierarcaps_test_expanded.csv.gz")?;
    let wordnet = args.next().map(|folder| WordNetNouns::read(Path::new(&folder))).transpose()?;
    let nouns = Arc::new(Hypernyms::new(wordnet));
    let judge = RuleEntailment::new(Arc::new(Tagger::new(Arc::clone(&nouns))), nouns);
    let file = File::open(&path)?;
    let reader: Box<dyn Read> =
        if path.ends_with(".gz") { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut table = csv::Reader::from_reader(reader);
    let mut halves: [Vec<(TierTexts, TierTexts)>; 2] = Default::default();
    let mut words = [0.0; 4];
    let (mut rows, mut incomplete) = (0, 0);
    for record in table.records() {
        let record = record?;
        let tiers = |column: usize| -> Option<TierTexts> {
            let tiers: Vec<_> = record.get(column)?.split(" => ").map(|it| it.trim().to_owned()).collect();
            tiers.try_into().ok()
        };
        let (Some(positive), Some(negative)) = (tiers(0), tiers(1)) else {
            incomplete += 1;
            continue;
        };
        rows += 1;
        for (sum, tier) in words.iter_mut().zip(&positive) {
            *sum += text::word_count(tier) as f64;
        }
        // All rows of a photo are in the same half.
        let photo = record.get(2).unwrap_or_default();
        let half = photo.bytes().map(usize::from).sum::<usize>() % 2;
        halves[half].push((positive, negative));
    }
    println!(
        "{rows} rows, {incomplete} without four tiers; mean words by tier {:.2?}",
        words.map(|sum| sum / f64::from(rows))
    );
    for (name, rows) in ["first half", "second half"].iter().zip(&halves) {
        let mut accepted = [0_usize; 3];
        let mut wrong = [0_usize; 4];
        let mut contradicted = [0_usize; 4];
        for (positive, negative) in rows {
            for tier in 0..3 {
                accepted[tier] += usize::from(judge.is_more_general(&positive[tier], &positive[tier + 1])?);
                wrong[tier] += usize::from(judge.is_more_general(&negative[tier], &positive[tier + 1])?);
            }
            // The fourth negative tier has the caption as its only positive text.
            wrong[3] += usize::from(judge.judge(&positive[3], &negative[3])?.entailment > 0.5);
            for tier in 0..4 {
                contradicted[tier] += usize::from(judge.contradict(&positive[tier], &negative[tier])?);
            }
        }
        let percent = |counts: &[usize]| -> Vec<String> {
            counts.iter().map(|count| format!("{:.1}", 100.0 * *count as f64 / rows.len() as f64)).collect()
        };
        let mean = |counts: &[usize]| 100.0 * counts.iter().sum::<usize>() as f64 / (counts.len() * rows.len()) as f64;
        println!("{name}: {} rows", rows.len());
        println!("  positive neighbours accepted %  {:?}  mean {:.1}", percent(&accepted), mean(&accepted));
        println!(
            "  negative neighbours accepted %  {:?}  mean of the first three {:.1}",
            percent(&wrong),
            mean(&wrong[..3])
        );
        println!("  negatives contradicted %        {:?}  mean {:.1}", percent(&contradicted), mean(&contradicted));
    }
    Ok(())
}
