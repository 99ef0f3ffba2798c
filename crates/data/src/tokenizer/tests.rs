#![allow(clippy::unwrap_used)]
use std::io::Write;
use std::path::PathBuf;

use super::*;

const CAPTIONS: [&str; 4] = [
    "A black dog runs in the snow.",
    "The dog and the black cat",
    "two dogs run; a cat runs",
    "A man's dog, 10 cats & the snow",
];

fn shared(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} not found", path.display());
    None
}

fn clip() -> Option<Tokenizer> {
    let path = shared("data/clip_bpe/bpe_simple_vocab_16e6.txt.gz")?;
    Some(Tokenizer::from_merges(&path, None).unwrap())
}

/// Compares 499 texts with the ids of the published tokenizer (goldens/README.md), also after a round trip through
/// `tokenizer.json`.
#[test]
fn golden_texts_have_the_published_ids() {
    #[derive(serde::Deserialize)]
    struct GoldenText {
        text: String,
        ids: Vec<u32>,
    }
    let (Some(clip), Some(path)) = (clip(), shared("goldens/tokenizer/clip_tokenizer.json")) else {
        return;
    };
    let goldens: Vec<GoldenText> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(goldens.len(), 499);
    assert_eq!((clip.vocab_size(), clip.start_of_text(), clip.end_of_text()), (49_408, Some(49_406), 49_407));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    clip.save(&file).unwrap();
    let again = Tokenizer::open(&file).unwrap();
    for GoldenText { text, ids } in goldens {
        assert_eq!(clip.encode(&text, 1000).unwrap(), ids, "{text:?}");
        assert_eq!(again.encode(&text, 1000).unwrap(), ids, "{text:?} after a round trip");
    }
}

#[test]
fn a_trained_tokenizer_has_clips_layout() {
    let trained = Tokenizer::train(CAPTIONS, 530).unwrap();
    assert_eq!(trained.vocab_size(), 530);
    assert_eq!((trained.start_of_text(), trained.end_of_text()), (Some(528), 529));
    // Ids 0..256 are the bytes from "!" on, and the next 256 ids are the same bytes at the end of a word: "a</w>" is
    // 256 + ('a' - '!').
    assert_eq!(trained.encode("z", 77).unwrap(), [528, 256 + 89, 529]);
}

/// Pairs in `CAPTIONS`, counted by hand after a split as in CLIP: "d o" (dog, dog, dogs, dog), "t h" and "h e</w>"
/// (the) occur 4 times each, all other pairs less often. The tie goes to the pair with the smaller ids, "d o".
#[test]
fn the_most_frequent_pair_is_merged_first() {
    let first = train::learn_merges(CAPTIONS, 1).unwrap();
    assert_eq!(first, [("d".to_owned(), "o".to_owned())]);
}

#[test]
fn training_depends_on_the_captions_only() {
    let forward = train::learn_merges(CAPTIONS, 100).unwrap();
    let backward = train::learn_merges(CAPTIONS.iter().rev(), 100).unwrap();
    assert_eq!(forward, backward);
    assert!(forward.len() < 100, "pairs that occur once are not merged");
    let names: std::collections::BTreeSet<String> = forward.iter().map(|(a, b)| format!("{a}{b}")).collect();
    assert_eq!(names.len(), forward.len());
}

/// The naive implementation recounts all pairs before each merge.
#[test]
fn training_equals_the_naive_algorithm() {
    let text = "the black dog runs the black cat runs in snow no dogs no cats in the backyard \
                on cars that ran and ran the banana";
    let mut words: Vec<Vec<String>> = text
        .split(' ')
        .map(|word| {
            let mut tokens: Vec<String> = word.chars().map(String::from).collect();
            tokens.last_mut().unwrap().push_str("</w>");
            tokens
        })
        .collect();
    let mut tokens = clip::base_tokens();
    let mut naive = Vec::new();
    loop {
        let mut counts = std::collections::BTreeMap::new();
        for word in &words {
            for pair in word.windows(2) {
                let id = |token: &String| tokens.iter().position(|known| known == token).unwrap();
                *counts.entry((id(&pair[0]), id(&pair[1]))).or_insert(0) += 1;
            }
        }
        let best = *counts.values().max().unwrap();
        if best < 2 {
            break;
        }
        let (&(left, right), _) = counts.iter().find(|(_, count)| **count == best).unwrap();
        let (left, right) = (tokens[left].clone(), tokens[right].clone());
        let token = format!("{left}{right}");
        for word in &mut words {
            let mut i = 0;
            while i + 1 < word.len() {
                if word[i] == left && word[i + 1] == right {
                    word[i].clone_from(&token);
                    word.remove(i + 1);
                }
                i += 1;
            }
        }
        tokens.push(token);
        naive.push((left, right));
    }
    assert!(naive.len() > 15, "{naive:?}");
    assert_eq!(train::learn_merges([text], 1000).unwrap(), naive);
}

#[test]
fn saving_keeps_every_id() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    let trained = Tokenizer::train(CAPTIONS, 560).unwrap();
    trained.save(&file).unwrap();
    let again = Tokenizer::open(&file).unwrap();
    assert_eq!(again.vocab_size(), trained.vocab_size());
    for text in ["", "Black DOGS!!", "schÃ¶n &amp; “gut”", "日本語 <|endoftext|> 12"] {
        assert_eq!(again.encode(text, 77).unwrap(), trained.encode(text, 77).unwrap(), "{text:?}");
    }
}

#[test]
fn empty_and_long_texts() {
    let trained = Tokenizer::train(CAPTIONS, 560).unwrap();
    let (start, end) = (trained.start_of_text().unwrap(), trained.end_of_text());
    assert_eq!(trained.encode("", 77).unwrap(), [start, end]);
    assert_eq!(trained.encode(" \u{a0}\n ", 2).unwrap(), [start, end]);
    let long = "the black dog ".repeat(3334);
    let ids = trained.encode(&long, 77).unwrap();
    assert_eq!((ids.len(), ids[0], ids[76]), (77, start, end));
    assert_eq!(ids[..76], trained.encode(&long, 100_000).unwrap()[..76]);
    let message = trained.encode("a", 1).unwrap_err().to_string();
    assert!(message.contains("`context` is 1; expected at least 2"), "{message}");
}

#[test]
fn batches_equal_single_texts() {
    let trained = Tokenizer::train(CAPTIONS, 560).unwrap();
    let batch = trained.encode_batch(&CAPTIONS, 8).unwrap();
    assert_eq!((batch.n, batch.len), (4, 8));
    for (row, caption) in batch.ids.chunks(8).zip(CAPTIONS) {
        assert_eq!(row, trained.encode(caption, 8).unwrap());
    }
}

#[test]
fn merges_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let plain = write("merges.txt", b"#version: 0.2\nd o\ndo g</w>\n\n");
    let tokenizer = Tokenizer::open(&plain).unwrap();
    assert_eq!(tokenizer.vocab_size(), 516);
    // 512 + 2 merges: the second merge has id 513, and start and end are 514 and 515.
    assert_eq!(tokenizer.encode("dog", 77).unwrap(), [514, 513, 515]);
    assert_eq!(Tokenizer::from_merges(&plain, Some(515)).unwrap().vocab_size(), 515);

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"d o\n").unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(Tokenizer::open(&write("merges.txt.gz", &packed)).unwrap().vocab_size(), 515);

    let cases: [(PathBuf, Option<usize>, &str); 6] = [
        (write("three", b"d o\na b c\n"), None, "line 2: \"a b c\"; expected two tokens"),
        (write("unknown", b"do g\n"), None, "do"),
        (write("torn", &packed[..packed.len() - 9]), None, "expected byte pairs"),
        (plain.clone(), Some(600), "`vocab_size` is 600; expected at most 516"),
        (plain, Some(513), "`vocab_size` is 513; expected at least 514"),
        (folder.path().join("nowhere"), None, "cannot read"),
    ];
    for (path, size, expected) in cases {
        let message = Tokenizer::from_merges(&path, size).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

/// A word-level model with [CLS] and [SEP]. It is not CLIP's encoding, so the text is not cleaned, and its own
/// template is used.
#[test]
fn other_tokenizer_json_files_work() {
    let json = |processor: &str| {
        format!(
            r#"{{"version":"1.0","padding":null,"added_tokens":[],"normalizer":null,"decoder":null,
            "truncation":{{"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0}},
            "pre_tokenizer":{{"type":"WhitespaceSplit"}},"post_processor":{processor},
            "model":{{"type":"WordLevel","unk_token":"[UNK]",
            "vocab":{{"[UNK]":0,"[CLS]":1,"[SEP]":2,"Dog":3,"dog":4}}}}}}"#
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    std::fs::write(&file, json(r#"{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}"#)).unwrap();
    let words = Tokenizer::open(&file).unwrap();
    assert_eq!(words.encode("Dog dog cat dog", 77).unwrap(), [1, 3, 4, 0, 4, 2]);
    assert_eq!(words.encode("Dog dog cat dog", 4).unwrap(), [1, 3, 4, 2]);
    assert_eq!((words.vocab_size(), words.start_of_text(), words.end_of_text()), (5, Some(1), 2));

    std::fs::write(&file, json("null")).unwrap();
    let message = Tokenizer::open(&file).unwrap_err().to_string();
    assert!(message.contains("0 tokens before and 0 after"), "{message}");
    std::fs::write(&file, "{}").unwrap();
    let message = Tokenizer::open(&file).unwrap_err().to_string();
    assert!(message.contains("expected a tokenizer.json"), "{message}");
}
