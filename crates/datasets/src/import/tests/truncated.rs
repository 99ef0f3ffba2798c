//! Truncated archives: the decoder returns the same error on every call, so the importer has to stop by itself.

use super::*;

/// The first half of the compressed text. The text is pseudo-random, so the rows before the cut remain readable.
fn first_half(text: &str) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    packed[..packed.len() / 2].to_vec()
}

/// The number of samples before the cut, and the error at the cut.
fn read_until_the_cut(spec: &ImportSpec) -> (usize, Broken) {
    let all: Vec<_> = read(spec).unwrap().take(100_000).collect();
    assert!(all.len() < 100_000, "the importer does not stop");
    let mut faults: Vec<_> = all.iter().filter_map(|it| it.as_ref().err()).collect();
    let last = faults.pop().unwrap().clone();
    assert!(faults.is_empty(), "{faults:?}");
    (all.len() - 1, last)
}

#[test]
fn a_truncated_archive_is_one_error() {
    let folder = FixtureFolder::new();
    folder.write("images/a.jpg", jpeg(16, 16));
    let record = |i: u64| {
        let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "{{\"id\": {i}, \"file\": \"images/a.jpg\", \"width\": 16, \"height\": 16, \"letterbox\": {{\"scale\": 1, \"pad_x\": 0, \"pad_y\": 0}},\
             \"tiers\": [\"thing\", \"{word:x}\"], \"captions\": [\"{word:x}\"], \"boxes\": []}}\n"
        )
    };
    let records = folder.write("records.jsonl.gz", first_half(&(0..20_000).map(record).collect::<String>()));
    let (samples, fault) = read_until_the_cut(&spec("hierarcaps_joined", &[("records", records)]));
    assert!(samples > 1_000 && fault.cause == Cause::BadRecord, "{samples}: {fault}");

    let row = |i: u64| {
        let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        folder.write(&format!("photos/{word:x}.jpg"), jpeg(8, 8));
        format!("{word:x},xclick,{word:x},1,0,0.5,0,0.5,0,0,0,0,0\n")
    };
    let header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n";
    let text = header.to_owned() + &(0..2_000).map(row).collect::<String>();
    let boxes = folder.write("boxes.csv.gz", first_half(&text));
    let (samples, fault) =
        read_until_the_cut(&spec("openimages", &[("images", folder.path().join("photos")), ("boxes", boxes)]));
    assert!(samples > 100 && fault.cause == Cause::MissingFile, "{samples}: {fault}");
}
