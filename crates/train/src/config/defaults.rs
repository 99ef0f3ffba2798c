//! Default values of the config sections.

use super::*;

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self::Train { vocab_size: 2048 }
    }
}

impl Default for ModelSection {
    fn default() -> Self {
        Self {
            init: None,
            init_visual: None,
            init_image_size: None,
            init_textual: None,
            new_projection: false,
            embed_dim: 64,
            visual: VisualConfig::preset("vit_nano").expect("a preset of this crate"),
            textual: TextualConfig::preset("text_nano").expect("a preset of this crate"),
            pixels: PixelStatistics::default(),
            crop: None,
            visual_adapter: None,
            textual_adapter: None,
            visual_lora: None,
            textual_lora: None,
            gradient_checkpointing: false,
        }
    }
}

impl Default for MethodSection {
    fn default() -> Self {
        Self { kind: "phyclip".to_owned(), settings: toml::Table::new() }
    }
}

impl Default for OptimConfig {
    fn default() -> Self {
        Self {
            lr: 5e-4,
            betas: [0.9, 0.98],
            eps: 1e-8,
            weight_decay: 0.2,
            schedule: "cosine".to_owned(),
            warmup_steps: 4000,
            clip_norm: 0.0,
            tower_lr_factor: 1.0,
            layer_decay: 1.0,
            accumulate: 1,
            reference: false,
        }
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 120_000,
            batch_size: 128,
            micro_batch: None,
            loss_rows: LossRows::All,
            ema: None,
            log_every: 10,
            checkpoint_every: 1000,
            keep: 2,
            freeze: Vec::new(),
            unfreeze: None,
            features: None,
            feature_store: None,
            out: PathBuf::from("runs/train"),
        }
    }
}

impl Default for EvalConfig {
    fn default() -> Self {
        Self {
            every: 0,
            benchmarks: vec!["cross_modal_retrieval".to_owned()],
            kind: None,
            path: None,
            split: None,
            options: BTreeMap::new(),
            tree: None,
            prompts: "photo".to_owned(),
            crop: None,
        }
    }
}
