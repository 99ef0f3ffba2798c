//! Runs on vectors that another program computed.

use conifer_data::transform::EvalCrop;
use conifer_data::vectors::{TextVectors, VectorMatrix};
use conifer_model::head::Tower;
use conifer_model::model::ModelPart;

use super::*;

const IMAGE_WIDTH: usize = 6;
const TEXT_WIDTH: usize = 4;

/// Writes a `.npy` file of pseudo-random f32 rows.
fn write_vectors(path: &Path, rows: usize, width: usize, seed: u64) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    let value = |i: usize| ((i as u64 * 2_654_435_761 + seed * 40_503) % 1009) as f32 / 504.5 - 1.0;
    bytes.extend((0..rows * width).flat_map(|i| value(i).to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

/// Writes vectors of 24 images with two boxes each, 24 captions and 8 phrases.
fn write_data(folder: &Path) {
    write_vectors(&folder.join("images.npy"), 72, IMAGE_WIDTH, 1);
    write_vectors(&folder.join("texts.npy"), 32, TEXT_WIDTH, 2);
    let row = |i: usize| {
        let boxed = |n: usize| format!("{i},{i},{},{}\n", 24 + 2 * i + n, 24 + (i + n) % 8);
        boxed(0) + &boxed(1)
    };
    fs::write(folder.join("table.csv"), "image,text,box,phrase\n".to_owned() + &(0..24).map(row).collect::<String>())
        .unwrap();
}

fn vector_config(folder: &Path, out: &str, more: &[&str]) -> Config {
    let table = folder.join("table.csv");
    let text = format!(
        "seed = 3
         [data]
         kind = 'features'
         path = '{}'
         options = {{ images = 'images.npy', texts = 'texts.npy' }}
         [model]
         embed_dim = 8
         visual_adapter = {{ input = 'standardise', widths = [12], dropout = 0.1 }}
         textual_adapter = {{ input = 'rms' }}
         [method]
         kind = 'hycoclip'
         [optim]
         lr = 1e-2
         warmup_steps = 1
         [train]
         steps = 5
         batch_size = 8
         log_every = 1
         checkpoint_every = 0",
        table.display()
    );
    let sets: Vec<String> = more.iter().map(|&it| it.to_owned()).collect();
    let mut config = Config::parse("vectors.toml", &text, &sets).unwrap();
    config.train.out = folder.join(out);
    config
}

fn vector_trainer(folder: &Path, out: &str) -> Trainer {
    let config = vector_config(folder, out, &[]);
    let source = source_of(&config);
    Trainer::new(config, source, &Device::flex()).unwrap()
}

fn source_of(config: &Config) -> Arc<dyn Source> {
    conifer_datasets::open(&config.source()).unwrap().into()
}

#[test]
fn a_head_is_trained_on_vectors_and_resumes_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_data(at);
    let mut straight = vector_trainer(at, "straight");
    let config = straight.config();
    assert_eq!(config.model.visual.vector_width(), Some(IMAGE_WIDTH));
    assert_eq!(config.model.textual.vector_width(), Some(TEXT_WIDTH));
    assert_eq!(config.train.freeze, [ModelPart::Visual, ModelPart::Textual]);
    assert_eq!(config.train.features, Some(true));
    let (outcome, losses) = run(&mut straight, u64::MAX);
    assert_eq!((outcome, losses.len()), (Outcome::Finished, 5));
    assert!(losses.iter().all(|loss| loss.is_finite()) && straight.broken().broken() == 0);
    assert_eq!(straight.features.as_ref().unwrap().rows(), [72, 32]);

    run(&mut vector_trainer(at, "stopped"), 2);
    let source = source_of(straight.config());
    let mut resumed = Trainer::resume(&at.join("stopped"), source, &Device::flex()).unwrap();
    assert_eq!(resumed.step(), 2);
    let (_, rest) = run(&mut resumed, u64::MAX);
    assert_eq!(rest, losses[2..]);
    let (straight, stopped) = (newest(&at.join("straight")), newest(&at.join("stopped")));
    assert!(!straight.contains_key(checkpoint::TOKENIZER));
    assert!(straight == stopped, "not the same bits after a stop");

    write_vectors(&at.join("texts.npy"), 32, TEXT_WIDTH, 5);
    let other = source_of(&vector_config(at, "other", &[]));
    let message = Trainer::resume(&at.join("stopped"), other, &Device::flex()).err().unwrap().to_string();
    assert!(message.contains("other data"), "{message}");
}

#[test]
fn a_model_of_vectors_embeds_vectors_and_known_texts() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_data(at);
    let mut trainer = vector_trainer(at, "run");
    run(&mut trainer, u64::MAX);
    let source = source_of(trainer.config());
    let embedder = Embedder::open(&at.join("run"), &Device::flex()).unwrap();
    let texts = ["text 3", "text 30"];
    let message = embedder.texts(&texts, &mut |_, _| {}).unwrap_err().to_string();
    assert!(message.contains("a vector instead of a text: this model reads vectors"), "{message}");
    let narrow = VectorMatrix::new(2, vec![1.0, 0.0]).unwrap();
    let narrow = Arc::new(TextVectors::new(narrow, &["a".to_owned()]).unwrap());
    let message = Embedder::open(&at.join("run"), &Device::flex()).unwrap().with_text_vectors(narrow).unwrap_err();
    let message = message.to_string();
    assert!(message.contains("is of width 2; expected 4, the width that this model reads"), "{message}");

    let vectors = source.text_vectors().unwrap();
    let embedder = embedder.with_text_vectors(vectors.clone()).unwrap();
    let points = embedder.texts(&texts, &mut |_, _| {}).unwrap();
    let rows: Vec<Vec<f32>> = texts.iter().map(|text| vectors.get(text).unwrap().to_vec()).collect();
    assert_eq!(points, embedder.vectors(&rows, Tower::Text).unwrap());
    let trained = Embedder::new("now", trainer.model(), trainer.manifest(), trainer.tokenizer().clone()).unwrap();
    assert_eq!(points, trained.texts(&texts, &mut |_, _| {}).unwrap());
    assert_eq!(embedder.root().unwrap(), Root::Origin);

    let images: Vec<ImageRef> = (0..3).map(|index| source.get(index).unwrap().image.unwrap()).collect();
    let points = embedder.images(&images, EvalCrop::Center, &mut |_, _| {}).unwrap();
    let rows: Vec<Vec<f32>> = images.iter().map(|image| image.vector(IMAGE_WIDTH).unwrap().to_vec()).collect();
    assert_eq!(points, embedder.vectors(&rows, Tower::Image).unwrap());

    let wrong = [images[0].clone(), ImageRef::File("a.jpg".into()), ImageRef::Vector(vec![0.0; 9].into())];
    let message = embedder.images(&wrong, EvalCrop::Center, &mut |_, _| {}).unwrap_err().to_string();
    assert!(message.contains("2 of 3 photographs cannot be read"), "{message}");
    assert!(message.contains("a photo; expected a vector of width 6"), "{message}");
    for (row, words) in [(vec![0.0; 5], "of width 5; expected 6"), (vec![f32::NAN; 6], "expected a finite number")] {
        let message = embedder.vectors(&[row], Tower::Image).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn vectors_that_do_not_fit_the_model_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_data(at);
    let refusal = |config: Config, source: Arc<dyn Source>| {
        Trainer::new(config, source, &Device::flex()).err().unwrap().to_string()
    };
    let wide = vector_config(at, "a", &["model.visual={kind='vectors',width=7}"]);
    let source = source_of(&wide);
    let message = refusal(wide, source);
    assert!(
        message.contains("`model.visual.width` is 7; expected 6, the width of the vectors of the data"),
        "{message}"
    );
    let message = refusal(vector_config(at, "b", &[]), squares());
    assert!(message.contains("`model.visual.kind` is vectors; expected an encoder, or data with vectors"), "{message}");
    // If the root is a text, its vector must be among the texts of the data.
    let sets = ["root.kind=text", "root.text=a dog"];
    let other = vector_config(at, "c", &sets);
    let source = source_of(&other);
    let message = refusal(other, source);
    assert!(message.contains("text \"a dog\": it has no vector; expected one of the 32 texts"), "{message}");
}
