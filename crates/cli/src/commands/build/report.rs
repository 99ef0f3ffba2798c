//! The report of `build hierarchies`: what entered and left each stage.

use std::path::Path;

use conifer_construct::llm::LlmUsage;
use conifer_construct::pipeline::{
    HierarchyRow, PUBLISHED_WORDS, Pipeline, Stage, StageReport, TierLengths, WorkFolder,
};
use conifer_viz::{Block, Report};
use serde::Serialize;

use super::stage_tables::{dropped_sections, stage_table, write_report};

/// Maximum number of hierarchies on the page.
const SHOWN: usize = 20;

/// Counts of the stages, token counts, and lengths of the tiers.
#[derive(Serialize)]
pub(super) struct BuildReport {
    pub(super) stages: Vec<StageReport>,
    /// Number of prompts and tokens of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) llm: Option<LlmUsage>,
    /// Mean number of words by tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lengths: Option<TierLengths>,
    /// Mean number of words by tier of the published hierarchies.
    pub(super) published_words: [f64; 4],
    #[serde(skip)]
    examples: Vec<HierarchyRow>,
}

impl BuildReport {
    /// The report of finished stages; `ends` is true if the hierarchies are complete.
    pub(super) fn new(stages: Vec<StageReport>, pipeline: &Pipeline<'_>, ends: bool) -> anyhow::Result<Self> {
        let mut report = Self {
            stages,
            llm: pipeline.llm().map(|llm| llm.usage()),
            lengths: None,
            published_words: PUBLISHED_WORDS,
            examples: Vec::new(),
        };
        if ends {
            let work = WorkFolder::open(pipeline.work())?;
            report.lengths = Some(TierLengths::of(work.rows(Stage::Negatives)?)?);
            report.examples = work.rows(Stage::Negatives)?.take(SHOWN).collect::<Result<_, _>>()?;
        }
        Ok(report)
    }

    /// Writes report.json and report.html.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        write_report(folder, self, &self.page())
    }

    fn page(&self) -> Report {
        let mut table = stage_table(&self.stages);
        let head = table.remove(0);
        let mut summary = vec![Block::Table { head, rows: table }];
        if let Some(usage) = self.llm {
            summary.push(Block::Text(format!(
                "This run asked the model {} times and took {} answers from disk; {} requests were repeated. Tokens: {} of prompts, {} of answers.",
                usage.asked, usage.stored, usage.repeated, usage.prompt_tokens, usage.answer_tokens
            )));
        }
        if let Some(lengths) = self.lengths {
            let row = |name: &str, means: [f64; 4]| {
                [name.to_owned()].into_iter().chain(means.map(|mean| format!("{mean:.2}"))).collect()
            };
            summary.push(Block::Text("Mean number of words by tier:".to_owned()));
            summary.push(Block::Table {
                head: ["", "tier 1", "tier 2", "tier 3", "tier 4"].map(str::to_owned).to_vec(),
                rows: vec![
                    row("positive", lengths.positive),
                    row("negative", lengths.negative),
                    row("HierarCaps, positive", self.published_words),
                ],
            });
        }
        let mut sections = vec![("Stages".to_owned(), summary)];
        if !self.examples.is_empty() {
            let rows = self.examples.iter().map(|row| {
                let negative = row.negative.as_ref().map(|it| it.join(" => ")).unwrap_or_default();
                vec![row.id.clone(), row.positive.join(" => "), negative]
            });
            let head = ["id", "positive", "negative"].map(str::to_owned).to_vec();
            sections.push(("Hierarchies".to_owned(), vec![Block::Table { head, rows: rows.collect() }]));
        }
        sections.extend(dropped_sections(&self.stages));
        Report {
            title: "Caption hierarchies".to_owned(),
            subtitle: "What entered and left each stage, with up to ten examples of each cause.".to_owned(),
            sections,
        }
    }
}
