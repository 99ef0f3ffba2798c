//! The distilled model of `build hierarchies`: a T5 that is fine-tuned on hierarchies and then continues others.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_construct::distil::{
    DistilEpoch, DistilPair, DistilTask, Distiller, TierGenerator, TierRequest, distil_pairs,
};
use conifer_construct::llm::ReadingDirection;
use conifer_construct::{Error, Result};
use conifer_data::batch::TokenBatch;
use conifer_data::tokenizer::Tokenizer;
use conifer_model::checkpoint::hub;
use conifer_model::checkpoint::t5_folder::{self, T5Folder};
use conifer_model::model::tokens;
use conifer_model::params::Init;
use conifer_model::seq2seq::{DrawRequest, GeneratedIds, SamplingSettings, T5Model, T5ModelConfig};
use conifer_train::sequences::{SequencePair, SequenceTrainer};
use sha2::{Digest as _, Sha256};

use crate::output::note;

/// Delimiters of the tiers, as in the paper: special tokens, so that no text of a model contains them.
const FORWARD: &str = "\u{2192}";
const BACKWARD: &str = "\u{2190}";
/// Sampling temperature of the paper.
const TEMPERATURE: f64 = 1.0;
/// Maximum number of tokens of an answer.
const LONGEST: usize = 128;
/// Maximum number of texts that are drawn together.
const BATCH: usize = 64;
/// Smallest context that holds four shortened tiers.
const MIN_CONTEXT: usize = 24;

/// Settings of the fine-tuning.
#[derive(Clone, Copy, Debug)]
pub(super) struct DistilSettings {
    pub(super) epochs: usize,
    pub(super) batch: usize,
    pub(super) lr: f64,
}

/// Fine-tunes a T5.
pub(super) struct T5Distiller {
    base: T5Base,
    settings: DistilSettings,
    name: String,
    identity: String,
    device: Device,
}

/// The model before it is fine-tuned.
enum T5Base {
    /// A folder with weights.
    Folder(PathBuf),
    /// The config.json of a new model. Its vocabulary is learned from the hierarchies.
    Config(PathBuf),
}

impl T5Distiller {
    /// Checks the model that --distil names, so that a mistake is found before the first stage runs.
    pub(super) fn new(reference: &Path, settings: DistilSettings, device: &Device) -> anyhow::Result<Self> {
        let place = || format!("--distil {}", reference.display());
        let is_config = reference.is_file() && reference.extension().is_some_and(|it| it == "json");
        let (base, hash) = if is_config {
            t5_folder::read_config(reference).with_context(place)?;
            (T5Base::Config(reference.to_owned()), hash_of(&[reference.to_owned()])?)
        } else {
            let folder = hub::locate(reference).with_context(place)?;
            delimited(t5_folder::open(&folder, device).with_context(place)?).with_context(place)?;
            let hash = folder_hash(&folder)?;
            (T5Base::Folder(folder), hash)
        };
        let name = reference.file_name().map_or_else(place, |name| name.to_string_lossy().into_owned());
        let identity = format!("{hash} {settings:?}");
        Ok(Self { base, settings, name: format!("{name}, distilled"), identity, device: device.clone() })
    }

    fn start(&self, task: &DistilTask<'_>) -> anyhow::Result<DelimitedT5> {
        let device = self.device.clone().autodiff();
        match &self.base {
            T5Base::Folder(folder) => delimited(t5_folder::open(folder, &device)?),
            T5Base::Config(path) => {
                let config = t5_folder::read_config(path)?;
                let texts = task.hierarchies.iter().flatten();
                let tokenizer = Tokenizer::unigram(texts, config.vocabulary.saturating_sub(2))
                    .with_context(|| format!("{}: vocab_size is {}", path.display(), config.vocabulary))?;
                let mut init = Init::seeded(task.seed, &device);
                let model = T5Model::new(&config, &mut init)?;
                init.check()?;
                t5_folder::check_tokenizer(&tokenizer, &config, path)?;
                delimited(T5Folder { model, tokenizer })
            }
        }
    }

    fn train(&self, task: &DistilTask<'_>) -> anyhow::Result<Vec<DistilEpoch>> {
        let DistilSettings { epochs, batch, lr } = self.settings;
        let DelimitedT5 { model, tokenizer, arrows } = self.start(task)?;
        let texts = TierTokens { tokenizer: &tokenizer, arrows, config: model.config().clone() };
        let mut trainer = SequenceTrainer::new(model, lr)?;
        let mut done = Vec::new();
        for epoch in 1..=epochs {
            let pairs: Vec<SequencePair> = distil_pairs(task.hierarchies, task.seed, epoch)
                .iter()
                .map(|pair| texts.pair(pair))
                .collect::<anyhow::Result<_>>()?;
            let mut sum = 0.0;
            for pairs in pairs.chunks(batch) {
                if task.stop.load(Ordering::Relaxed) {
                    return Err(Error::Stopped.into());
                }
                let loss;
                (trainer, loss) = trainer.step(pairs)?;
                sum += loss;
            }
            let updates = pairs.len().div_ceil(batch);
            let loss = sum / updates as f64;
            note(&format!("distil: epoch {epoch} of {epochs}: {updates} updates, mean loss {loss:.3} nats per token"));
            done.push(DistilEpoch { epoch, loss, updates });
        }
        t5_folder::save(task.folder, trainer.model(), &tokenizer)?;
        Ok(done)
    }
}

impl Distiller for T5Distiller {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn distil(&self, task: &DistilTask<'_>) -> Result<Vec<DistilEpoch>> {
        self.train(task).map_err(|error| match error.downcast() {
            Ok(error) => error,
            Err(error) => Error::Model(format!("--distil: {error:#}")),
        })
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn TierGenerator>> {
        let opened = T5TierGenerator::open(folder, self.name.clone(), &self.device);
        Ok(Box::new(opened.map_err(|error| {
            Error::Model(format!("cannot open the distilled model: {error:#}; delete distil.jsonl to train it again"))
        })?))
    }
}

/// A T5 that continues hierarchies.
pub(super) struct T5TierGenerator {
    model: T5Model,
    tokenizer: Tokenizer,
    arrows: [u32; 2],
    name: String,
    identity: String,
}

impl T5TierGenerator {
    /// Opens a folder that --distil wrote.
    pub(super) fn open(folder: &Path, name: String, device: &Device) -> anyhow::Result<Self> {
        let opened = t5_folder::open(folder, device)?;
        let known = [FORWARD, BACKWARD].iter().all(|arrow| opened.tokenizer.id(arrow).is_some());
        ensure!(
            known,
            "{}: its tokenizer has no tokens `{FORWARD}` and `{BACKWARD}`; expected a model that --distil wrote",
            folder.display()
        );
        let DelimitedT5 { model, tokenizer, arrows } = delimited(opened)?;
        Ok(Self { model, tokenizer, arrows, name, identity: folder_hash(folder)? })
    }

    fn draw(&self, requests: &[TierRequest]) -> anyhow::Result<Vec<Vec<String>>> {
        let texts = TierTokens { tokenizer: &self.tokenizer, arrows: self.arrows, config: self.model.config().clone() };
        let mut rows: HashMap<(ReadingDirection, &[String]), usize> = HashMap::new();
        let mut inputs = Vec::new();
        let mut draws = Vec::with_capacity(requests.len());
        for request in requests {
            let key = (request.direction, request.given.as_slice());
            let input = match rows.get(&key) {
                Some(row) => *row,
                None => {
                    inputs.push(texts.input(request.direction, &request.given)?);
                    rows.insert(key, inputs.len() - 1);
                    inputs.len() - 1
                }
            };
            draws.push(DrawRequest { input, seed: request.seed });
        }
        let stop = if requests.iter().all(|it| it.next_only) { self.arrows.to_vec() } else { Vec::new() };
        let settings = SamplingSettings { temperature: TEMPERATURE, longest: LONGEST, stop };
        let batch = TokenBatch::from_rows(&inputs, self.model.config().end);
        let found = self.model.generate(tokens(&batch, &self.model.device()), &draws, &settings)?;
        found.iter().map(|text| texts.tiers(text)).collect()
    }
}

impl TierGenerator for T5TierGenerator {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn generate(&self, requests: &[TierRequest]) -> Result<Vec<Vec<String>>> {
        let mut found = Vec::with_capacity(requests.len());
        // Requests that end at the next tier are not mixed with others, because the ids that end a text differ.
        for alike in requests.chunk_by(|a, b| a.next_only == b.next_only) {
            for batch in alike.chunks(BATCH) {
                let drawn = self.draw(batch);
                found.extend(drawn.map_err(|error| Error::Model(format!("the distilled model: {error:#}")))?);
            }
        }
        Ok(found)
    }
}

/// A T5 whose tokenizer has the delimiters of tiers.
struct DelimitedT5 {
    model: T5Model,
    tokenizer: Tokenizer,
    /// Ids of the delimiters of both directions.
    arrows: [u32; 2],
}

/// Adds the delimiters to the tokenizer. The table of words must have rows for them; Flan-T5 has 28 spare ones.
fn delimited(folder: T5Folder) -> anyhow::Result<DelimitedT5> {
    let T5Folder { model, tokenizer } = folder;
    let tokenizer = tokenizer.with_tokens(&[FORWARD, BACKWARD])?;
    let config = model.config();
    ensure!(
        tokenizer.vocab_size() <= config.vocabulary,
        "the tokenizer has {} ids with the delimiters of tiers; expected at most {}, the vocab_size of the model",
        tokenizer.vocab_size(),
        config.vocabulary
    );
    ensure!(
        config.context >= MIN_CONTEXT,
        "n_positions of the model is {}; expected at least {MIN_CONTEXT}",
        config.context
    );
    let id = |token: &str| tokenizer.id(token).with_context(|| format!("the tokenizer has no token `{token}`"));
    let arrows = [id(FORWARD)?, id(BACKWARD)?];
    Ok(DelimitedT5 { model, tokenizer, arrows })
}

/// Converts tiers to token ids and back.
struct TierTokens<'a> {
    tokenizer: &'a Tokenizer,
    arrows: [u32; 2],
    config: T5ModelConfig,
}

impl TierTokens<'_> {
    fn pair(&self, pair: &DistilPair) -> anyhow::Result<SequencePair> {
        let mut label = self.joined(pair.direction, &pair.rest)?;
        // The last tier is followed by the end, not by a delimiter.
        label.pop();
        label.push(self.config.end);
        Ok(SequencePair { input: self.input(pair.direction, &pair.given)?, label })
    }

    /// `T1 -> T2 ->`, or the delimiter alone, and the end.
    fn input(&self, direction: ReadingDirection, given: &[String]) -> anyhow::Result<Vec<u32>> {
        let mut ids = self.joined(direction, given)?;
        if ids.is_empty() {
            ids.push(self.arrow(direction));
        }
        ids.push(self.config.end);
        Ok(ids)
    }

    /// Each tier and the delimiter. If all together exceed the context, each tier is shortened.
    fn joined(&self, direction: ReadingDirection, tiers: &[String]) -> anyhow::Result<Vec<u32>> {
        let mut parts = tiers.iter().map(|tier| self.text(tier)).collect::<anyhow::Result<Vec<_>>>()?;
        if parts.iter().map(|part| part.len() + 1).sum::<usize>() + 1 > self.config.context {
            parts.iter_mut().for_each(|part| part.truncate(self.config.context / 5));
        }
        let arrow = self.arrow(direction);
        Ok(parts.into_iter().flat_map(|part| part.into_iter().chain([arrow])).collect())
    }

    /// The ids of a text without start and end.
    fn text(&self, text: &str) -> anyhow::Result<Vec<u32>> {
        let mut ids = self.tokenizer.encode(&text.replace([FORWARD, BACKWARD].map(char_of), " "), usize::MAX)?;
        ids.pop();
        if self.tokenizer.start_of_text().is_some() {
            ids.remove(0);
        }
        Ok(ids)
    }

    /// The tiers of an answer; none if it has no end.
    fn tiers(&self, answer: &GeneratedIds) -> anyhow::Result<Vec<String>> {
        if !answer.ended {
            return Ok(Vec::new());
        }
        let parts = answer.ids.split(|id| self.arrows.contains(id));
        parts.map(|ids| Ok(self.tokenizer.decode(ids)?.trim().to_owned())).collect()
    }

    fn arrow(&self, direction: ReadingDirection) -> u32 {
        match direction {
            ReadingDirection::Forward => self.arrows[0],
            ReadingDirection::Backward => self.arrows[1],
        }
    }
}

fn char_of(token: &str) -> char {
    token.chars().next().unwrap_or(' ')
}

/// SHA-256 of the files that determine a model.
pub(super) fn folder_hash(folder: &Path) -> anyhow::Result<String> {
    let names = ["config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json"];
    hash_of(&names.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file()).collect::<Vec<_>>())
}

fn hash_of(files: &[PathBuf]) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        loop {
            match file.read(&mut piece).with_context(|| format!("cannot read {}", path.display()))? {
                0 => break,
                count => hash.update(&piece[..count]),
            }
        }
    }
    Ok(hex::encode(hash.finalize()))
}
