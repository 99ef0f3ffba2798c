//! Chains of taxa that lack ranks, and photos without captions.

use super::*;
use crate::sample::MissingRank;

/// A photo of a taxon; "-" is a rank without a name.
fn taxon(id: &str, names: [&str; 3]) -> Option<Sample> {
    let names = names.map(|name| if name == "-" { String::new() } else { name.to_owned() });
    let missing_ranks = MissingRank::of_names(&names, &["kingdom", "phylum", "class"]);
    let taxon = names.into_iter().filter(|name| !name.is_empty()).collect();
    Some(Sample { id: id.to_owned(), taxon, missing_ranks, captions: Vec::new(), ..sample(0) })
}

fn taxa_config(batch_size: usize) -> LoaderConfig {
    let chain = ChainChoice { of: ChainSource::Taxon, tiers: 3, ..ChainChoice::default() };
    LoaderConfig {
        views: vec![View::Chain],
        batch_size,
        data: DataConfig { chain, max_broken_share: 1.0, ..config().data },
        ..config()
    }
}

/// Token ids of text `row` of a batch of chains.
fn ids_of(chains: &ChainBatch, row: usize) -> &[u32] {
    &chains.texts.ids[row * chains.texts.len..][..chains.texts.end[row] as usize + 1]
}

#[test]
fn chains_use_the_ranks_that_have_a_name() {
    let samples = vec![
        taxon("whole", ["a", "dog", "cat"]),
        taxon("gap", ["a", "-", "snow"]),
        taxon("early", ["and", "-", "-"]),
        taxon("deep", ["and", "on", "cat"]),
    ];
    let batch = loader(samples, taxa_config(4)).next().unwrap().unwrap();
    let chains = batch.chains.unwrap();
    assert_eq!((chains.tiers, chains.texts.n), (3, 2 * 3 * 4));
    let tokens = tokenizer();
    for (column, id) in batch.ids.iter().enumerate() {
        // Each list holds the only possible negatives. The missing phylum in the kingdom "a" may be "dog", so no
        // negative is drawn from "a" for a sample of "a".
        let (length, right, wrong) = match id.as_str() {
            "whole" => (3, ["a", "a dog", "a dog cat"], ["and", "and on", "and on cat"]),
            "gap" => (2, ["a", "a snow", "a snow"], ["and", "and on cat", "and on cat"]),
            "early" => (1, ["and"; 3], ["a"; 3]),
            _ => (3, ["and", "and on", "and on cat"], ["a", "a dog", "a dog cat or a snow"]),
        };
        assert_eq!(chains.lengths[column], length, "{id}");
        for link in 0..3 {
            let row = 4 * link + column;
            assert_eq!(ids_of(&chains, row), tokens.encode(right[link], 12).unwrap(), "{id} {link}");
            let mut possible = wrong[link].split(" or ").map(|text| tokens.encode(text, 12).unwrap());
            assert!(possible.any(|it| it == ids_of(&chains, 12 + row)), "{id} {link}");
        }
    }
}

#[test]
fn missing_ranks_are_counted_and_not_broken() {
    let samples = vec![taxon("whole", ["a", "dog", "cat"]), taxon("gap", ["a", "-", "snow"]), taxon("none", ["-"; 3])];
    let chain = ChainChoice { negatives: false, ..taxa_config(2).data.chain };
    let mut found =
        loader(samples, LoaderConfig { data: DataConfig { chain, ..taxa_config(2).data }, ..taxa_config(2) });
    let ids: Vec<String> = take(&mut found, 8).into_iter().flat_map(|batch| batch.ids).collect();
    let report = found.report();
    let counts: Vec<_> = report.missing_ranks.iter().map(|(rank, count)| (&*rank.name, *count)).collect();
    let gaps = ids.iter().filter(|id| *id == "gap").count() as u64;
    assert!(gaps > 0 && !ids.contains(&"none".to_owned()), "{ids:?}");
    assert_eq!(counts, [("phylum", gaps)]);
    let expected = "sample `none`: no_chain: no rank of the taxon has a name; expected at least one";
    assert_eq!(report.examples.iter().map(Broken::to_string).collect::<Vec<_>>(), [expected]);
}

/// Photos alone have the same pixels as photos with captions, and need no captions.
#[test]
fn photos_alone_are_cut_as_with_captions() {
    let of = |views: Vec<View>, cache_pixels| {
        let augment = Augment { hflip: 0.5, rotation: 10.0, ..Augment::default() };
        let mut found = loader(
            samples(8),
            LoaderConfig { views, data: DataConfig { augment, cache_pixels, ..config().data }, ..config() },
        );
        found.next().unwrap().unwrap()
    };
    for cache in [None, Some(PixelCacheConfig::default())] {
        let (alone, pair) = (of(vec![View::Photo], cache), of(vec![View::Pair], cache));
        assert_eq!((&alone.ids, &alone.images), (&pair.ids, &pair.images));
        assert!(alone.texts.is_none() && pair.texts.is_some());
        // A pair includes its photo.
        assert_eq!(of(vec![View::Pair, View::Photo], cache), pair);
    }
    let without = || samples(8).into_iter().flatten().map(|it| Some(Sample { captions: Vec::new(), ..it })).collect();
    let mut found = loader(without(), LoaderConfig { views: vec![View::Photo], ..config() });
    assert_eq!((found.next().unwrap().unwrap().ids.len(), found.report().broken()), (4, 0));
    let mut found = loader(without(), LoaderConfig { views: vec![View::Pair], ..config() });
    assert!(found.next().unwrap().unwrap_err().to_string().contains("no_caption"));
}

/// One kingdom with two phyla of two classes each. The negative of a class is a sibling, or a child of the phylum's
/// sibling.
#[test]
fn hard_negatives_of_both_readings() {
    let samples = vec![
        taxon("1", ["a", "dog", "cat"]),
        taxon("2", ["a", "dog", "snow"]),
        taxon("3", ["a", "on", "cat"]),
        taxon("4", ["a", "on", "snow"]),
    ];
    // Two tiers: phylum and class. The kingdom is left out, because the only kingdom has no negative.
    let readings = [(HardNegative::Sibling, vec!["a dog snow"]), (HardNegative::Cousin, vec!["a on cat", "a on snow"])];
    let tokens = tokenizer();
    for (hard_kind, classes) in readings {
        let chain = ChainChoice { tiers: 2, hard_kind, ..taxa_config(4).data.chain };
        let batch = loader(
            samples.clone(),
            LoaderConfig { data: DataConfig { chain, ..taxa_config(4).data }, ..taxa_config(4) },
        )
        .next()
        .unwrap()
        .unwrap();
        let chains = batch.chains.unwrap();
        let column = batch.ids.iter().position(|id| id == "1").unwrap();
        let wrong = |link: usize| ids_of(&chains, 8 + 4 * link + column);
        assert_eq!(wrong(0), tokens.encode("a on", 12).unwrap(), "the phylum has one sibling and no cousin");
        let mut possible = classes.iter().map(|text| tokens.encode(text, 12).unwrap());
        assert!(possible.any(|it| it == wrong(1)), "{hard_kind:?}");
    }
}
