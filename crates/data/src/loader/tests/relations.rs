//! Batches of boxes and their part-of relations.

use super::*;

fn edges(samples: Vec<Option<Sample>>, choice: EdgeChoice) -> crate::batch::EdgeBatch {
    let config = LoaderConfig {
        views: vec![View::Edges],
        batch_size: samples.len(),
        data: DataConfig { edges: choice, ..config().data },
        ..config()
    };
    take(&mut loader(samples, config), 1).remove(0).edges.unwrap()
}

/// One photo per sample. Each box is a part of the photo and of the boxes around it. Boxes of the same classes from
/// other photos are added.
#[test]
fn edge_batches_contain_relations() {
    let bbox = |x1: f32, x2: f32| BBox { x1, y1: 0.1, x2, y2: 0.9 };
    let phrase = |text: &str, boxes: Vec<BBox>| Phrase { text: text.to_owned(), boxes, ..Phrase::default() };
    let with = |number: u64, phrases: Vec<Phrase>| Some(Sample { phrases, ..sample(number) });
    let nested =
        || vec![phrase("bicycle", vec![bbox(0.0, 0.8)]), phrase("wheel", vec![bbox(0.1, 0.4), bbox(0.9, 1.0)])];
    let alone = EdgeChoice { cross: 0, ..EdgeChoice::default() };

    let one = edges(vec![with(0, nested())], alone);
    assert_eq!((one.things.clone(), one.images.unwrap().n), (vec![0, 1, 2, 3], 4));
    assert_eq!(one.parts, [[0, 1], [0, 2], [0, 3], [1, 2]], "only the first wheel is inside the bicycle");

    // A group of wheels is a part of the photo only. An explicit `part_of` in the data holds regardless of the
    // positions of the boxes.
    let mut group = nested();
    group[1].group_of = true;
    assert_eq!(edges(vec![with(0, group.clone())], alone).parts, [[0, 1], [0, 2], [0, 3]]);
    let rule = crate::parts::PartRule { drop_groups: false, ..alone.rule };
    assert_eq!(edges(vec![with(0, group)], EdgeChoice { rule, ..alone }).parts.len(), 4);
    let mut declared = nested();
    declared[1].part_of = Some(0);
    assert_eq!(edges(vec![with(0, declared)], alone).parts, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]]);

    // Two crops of a box have the same id. At most `boxes` boxes are drawn.
    let twice = edges(vec![with(0, nested())], EdgeChoice { copies: 2, ..alone });
    assert_eq!(twice.things, [0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(twice.parts, one.parts);
    assert_eq!(edges(vec![with(0, nested())], EdgeChoice { boxes: 2, ..alone }).images.unwrap().n, 3);

    // Cross-image: each photo gets the wheel of the other photo, which has the same id everywhere.
    let wheel = |number| with(number, vec![phrase("wheel", vec![bbox(0.1, 0.7)])]);
    let crossed = edges(vec![wheel(0), wheel(1)], EdgeChoice { cross: 1, ..alone });
    assert_eq!(crossed.things, [0, 1, 2, 3, 2, 1]);
    assert_eq!(crossed.parts.len(), 4, "both photos hold both wheels: {:?}", crossed.parts);
    // No other photo has a cat.
    let lonely =
        edges(vec![wheel(0), with(1, vec![phrase("cat", vec![bbox(0.1, 0.7)])])], EdgeChoice { cross: 3, ..alone });
    assert_eq!((lonely.images.unwrap().n, lonely.parts.len()), (4, 2));

    // A sample without a large enough box is broken.
    let small = with(1, vec![phrase("speck", vec![bbox(0.5, 0.505)])]);
    let config = LoaderConfig {
        views: vec![View::Edges],
        batch_size: 1,
        data: DataConfig { max_broken_share: 1.0, edges: alone, ..config().data },
        ..config()
    };
    let mut loader = loader(vec![small, wheel(0)], config);
    assert!(take(&mut loader, 2).iter().all(|batch| batch.ids == ["s0"]));
    assert_eq!(loader.report().broken(), 1);
}

#[test]
fn edges_do_not_depend_on_threads_or_cache() {
    let run = |workers: usize, cache: Option<PixelCacheConfig>| {
        let edges = EdgeChoice { cross: 2, copies: 2, ..EdgeChoice::default() };
        let config = LoaderConfig {
            views: vec![View::Edges],
            data: DataConfig { workers, edges, cache_pixels: cache, ..config().data },
            ..config()
        };
        take(&mut loader(samples(9), config), 5)
    };
    let plain = run(1, None);
    assert_eq!(plain, run(3, None));
    let room = |bytes| Some(PixelCacheConfig { bytes, shorter_side: 1.5 });
    assert_eq!(run(1, room(0)), run(3, room(1 << 20)), "the size of the cache changes nothing");
    assert_ne!(plain[0].edges, plain[2].edges);
}

/// Every region of a batch is listed by [`RegionReader`], and the first row has the same boxes as in a batch of
/// pixels.
#[test]
fn edges_name_regions_that_the_reader_lists() {
    let choice = EdgeChoice { cross: 2, copies: 2, ..EdgeChoice::default() };
    let config =
        LoaderConfig { views: vec![View::Edges], data: DataConfig { edges: choice, ..config().data }, ..config() };
    let pixels = take(&mut loader(samples(9), config.clone()), 1).remove(0).edges.unwrap();
    let mut named = loader(samples(9), config.clone());
    named.name_regions(RegionMode { copies: 3, ..RegionMode::default() });
    let edges = take(&mut named, 1).remove(0).edges.unwrap();
    let regions = edges.regions.unwrap();
    assert!(edges.images.is_none() && pixels.regions.is_none());
    assert_eq!(regions.len(), edges.things.len());
    // A row draws its boxes before its other random values, so the boxes of the first row equal those of the batch of
    // pixels.
    assert_eq!(edges.things[..3], pixels.things[..3]);
    let source = Arc::new(MemorySource(samples(9)));
    let reader = RegionReader::new(source, config, EvalCrop::default(), 3);
    let listed: Vec<HashedRegion> = (0..9).flat_map(|sample| reader.regions(sample).unwrap()).collect();
    assert!(regions.iter().all(|region| listed.iter().any(|it| it.region == *region)), "{regions:?}");
    assert!(regions.iter().any(|region| region.part > EDGE_PARTS) && regions.iter().any(|region| region.part == 0));
    assert!(regions.iter().any(|region| region.copy > 0));
    // The crop of a box has the pixels of its rectangle: it differs from the whole photo.
    let of_first: Vec<HashedRegion> = listed.iter().filter(|it| it.region.sample == 0).copied().collect();
    let rows = reader.pixels(0, &of_first).unwrap();
    let boxed = of_first.iter().position(|it| it.region.part > EDGE_PARTS).unwrap();
    assert_ne!(rows[0], rows[boxed]);
    // Boxes of a broken photo are not drawn for other photos.
    let broken = Broken::new("s1", Cause::UndecodableImage, "x");
    let broken = Arc::new((1..9).map(|sample| (sample, broken.clone())).collect());
    let config = LoaderConfig {
        views: vec![View::Edges],
        batch_size: 1,
        data: DataConfig { edges: choice, max_broken_share: 1.0, ..self::config().data },
        ..self::config()
    };
    let mut named = loader(samples(9), config);
    named.name_regions(RegionMode { copies: 1, broken });
    for batch in take(&mut named, 3) {
        assert!(batch.edges.unwrap().regions.unwrap().iter().all(|region| region.sample == 0));
    }
}
