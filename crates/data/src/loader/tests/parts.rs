//! Batches that several loaders read together.

use std::ops::Range;
use std::sync::{Barrier, Mutex};

use super::*;

/// Runs `work` on `count` threads. Each thread has a loader that reads one part, and `gather` exchanges bytes between
/// the threads.
fn on_parts<T: Send>(
    count: usize,
    new: &(dyn Fn() -> Loader + Sync),
    work: impl Fn(Loader, &mut dyn FnMut(&[u8]) -> Vec<Vec<u8>>) -> T + Sync,
) -> Vec<T> {
    let sent = Mutex::new(vec![Vec::new(); count]);
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let start = |number| {
            let (sent, barrier, work) = (&sent, &barrier, &work);
            scope.spawn(move || {
                let mut loader = new();
                loader.read_part(number, count);
                work(loader, &mut |mine| {
                    sent.lock().unwrap()[number] = mine.to_vec();
                    barrier.wait();
                    let all = sent.lock().unwrap().clone();
                    barrier.wait();
                    all
                })
            })
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks that the parts hold all rows of `whole`, in order, and no other pixels.
fn check_images(whole: Option<&ImageBatch>, parts: &[Option<&ImageBatch>]) {
    let Some(whole) = whole else {
        assert!(parts.iter().all(Option::is_none));
        return;
    };
    let mut held: Vec<Range<usize>> = Vec::new();
    for part in parts.iter().map(|part| part.unwrap()) {
        assert_eq!((part.n, part.size), (whole.n, whole.size));
        assert_eq!(part.data.len(), part.held.len() * 3 * part.size * part.size);
        assert_eq!(part.rows(part.held.clone()), whole.rows(part.held.clone()));
        held.push(part.held.clone());
    }
    assert_eq!(held.into_iter().flatten().collect::<Vec<_>>(), (0..whole.n).collect::<Vec<_>>());
}

#[test]
fn parts_join_to_the_batches_of_one_loader() {
    for views in [vec![View::Pair], vec![View::Boxes], vec![View::Edges], vec![View::Pair, View::Chain]] {
        // Sample 5 is broken; the last batch of an epoch has two rows.
        let new = || {
            let chained = |number| Sample { taxon: vec!["a".to_owned(), format!("dog {number}")], ..sample(number) };
            let mut samples: Vec<_> = (0..18).map(|number| Some(chained(number))).collect();
            samples[5] = Some(Sample { image: None, taxon: Vec::new(), ..sample(5) });
            let chain = ChainChoice { of: ChainSource::Taxon, negatives: false, ..config().data.chain };
            let data = DataConfig { max_broken_share: 1.0, drop_last: false, chain, ..config().data };
            loader(samples, LoaderConfig { views: views.clone(), data, ..config() })
        };
        let mut one = new();
        let whole = take(&mut one, 10);
        assert!(one.report().broken() > 0);
        for count in [1, 3, 5] {
            let parts = on_parts(count, &new, |mut loader, gather| {
                let found: Vec<_> = (0..10).map(|_| loader.next_joined(gather).unwrap()).collect();
                (found, loader.report().clone())
            });
            assert!(parts.iter().all(|(_, report)| report == one.report()), "{views:?}");
            for (number, whole) in whole.iter().enumerate() {
                let parts: Vec<&Batch> = parts.iter().map(|(batches, _)| &batches[number]).collect();
                for part in &parts {
                    assert_eq!((&part.ids, &part.texts, &part.box_texts), (&whole.ids, &whole.texts, &whole.box_texts));
                    assert_eq!(part.chains, whole.chains);
                    let edges = |batch: &Batch| batch.edges.as_ref().map(|it| (it.things.clone(), it.parts.clone()));
                    assert_eq!(edges(part), edges(whole));
                }
                let of = |images: fn(&Batch) -> Option<&ImageBatch>| {
                    check_images(images(whole), &parts.iter().map(|part| images(part)).collect::<Vec<_>>());
                };
                of(|batch| batch.images.as_ref());
                of(|batch| batch.box_images.as_ref());
                of(|batch| batch.edges.as_ref()?.images.as_ref());
            }
        }
    }
}

#[test]
fn too_many_broken_samples_are_an_error_of_all_parts() {
    let new = || {
        let samples = (0..12).map(|number| Some(Sample { image: None, ..sample(number) })).collect();
        loader(samples, config())
    };
    let messages = on_parts(2, &new, |mut loader, gather| loader.next_joined(gather).unwrap_err().to_string());
    assert_eq!(messages[0], messages[1]);
    assert!(messages[0].contains("no_image"), "{}", messages[0]);
}
