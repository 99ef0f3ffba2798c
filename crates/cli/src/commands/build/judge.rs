//! The judge that `--judge` names.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use burn::tensor::{Device, activation};
use conifer_construct::entailment::{EndpointEntailment, Entailment, EntailmentScores, as_picture};
use conifer_construct::{Error, Result};
use conifer_data::batch::TokenBatch;
use conifer_data::tokenizer::Tokenizer;
use conifer_model::checkpoint::bart_folder;
use conifer_model::model::tokens;
use conifer_model::seq2seq::BartClassifier;

use super::distiller::folder_hash;

/// Timeout of a request to an endpoint.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The judge of a run; `None` for the rules.
pub(super) fn open(reference: &Path, device: &Device) -> anyhow::Result<Option<Box<dyn Entailment>>> {
    let text = reference.to_string_lossy();
    if text == "rules" {
        return Ok(None);
    }
    if text.contains("://") {
        return Ok(Some(Box::new(EndpointEntailment::new(&text, TIMEOUT)?)));
    }
    let judge = BartEntailment::open(reference, device).with_context(|| format!("--judge {text}"))?;
    Ok(Some(Box::new(judge)))
}

/// BART that was fine-tuned on MNLI.
struct BartEntailment {
    model: BartClassifier,
    tokenizer: Tokenizer,
    /// Numbers of the classes entailment and contradiction.
    classes: [usize; 2],
    name: String,
    identity: String,
}

impl BartEntailment {
    fn open(reference: &Path, device: &Device) -> anyhow::Result<Self> {
        let opened = bart_folder::open(reference, device)?;
        let tokenizer = opened.tokenizer()?;
        let classes = [opened.class("entailment")?, opened.class("contradiction")?];
        let name = reference.file_name().unwrap_or(reference.as_os_str()).to_string_lossy().into_owned();
        let identity = folder_hash(&opened.folder)?;
        Ok(Self { model: opened.model, tokenizer, classes, name, identity })
    }

    fn scores(&self, premise: &str, hypothesis: &str) -> anyhow::Result<EntailmentScores> {
        let context = self.model.config().context;
        let ids = self.tokenizer.encode_pair(&as_picture(premise), &as_picture(hypothesis), context)?;
        // The pair ends with its last token; the end token also stands between the texts.
        let batch = TokenBatch { n: 1, len: ids.len(), end: vec![ids.len() as u32 - 1], ids };
        let logits = self.model.logits(tokens(&batch, &self.model.device()))?;
        let found: Vec<f32> = activation::softmax(logits, 1).into_data().iter::<f32>().collect();
        let [entailment, contradiction] = self.classes.map(|class| found[class]);
        Ok(EntailmentScores { entailment, contradiction })
    }
}

impl Entailment for BartEntailment {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn judge(&self, premise: &str, hypothesis: &str) -> Result<EntailmentScores> {
        self.scores(premise, hypothesis).map_err(|error| Error::Model(format!("--judge {}: {error:#}", self.name)))
    }
}
