//! The schedule of each parameter of the towers: its learning rate, and the step at which it is unfrozen.

use std::collections::{BTreeMap, BTreeSet};

use conifer_model::model::{Model, ModelPart};
use conifer_model::params::{ParamInfo, set_trainable};

use crate::config::Config;
use crate::optim::ParamSchedule;
use crate::unfreeze::UnfreezeConfig;

/// The schedule of each parameter of both towers. Adapters, projections and head learn from the first step on with the
/// learning rate of the step.
#[derive(Debug)]
pub(super) struct TowerSchedules {
    by_name: BTreeMap<String, ParamSchedule>,
    /// Steps at which parameters are unfrozen.
    starts: BTreeSet<u64>,
    unfrozen: Vec<ModelPart>,
}

impl TowerSchedules {
    /// Computes the schedules. A parameter of layer l of a tower with L blocks has the learning rate of the step times
    /// `tower_lr_factor * layer_decay^(L + 1 - l)`.
    pub(super) fn new(config: &Config, model: &Model) -> Self {
        let unfreeze = config.train.unfreeze.as_ref();
        let unfrozen = unfreeze.map(|it| it.towers.clone()).unwrap_or_default();
        let mut by_name = BTreeMap::new();
        let towers = [
            ("visual", ModelPart::Visual, model.visual.layer_ids()),
            ("textual", ModelPart::Textual, model.textual.layer_ids()),
        ];
        for (tower, part, layers) in towers {
            let unfreeze: Option<&UnfreezeConfig> = unfreeze.filter(|it| it.towers.contains(&part));
            for (name, layer) in layers.iter() {
                let above = (layers.blocks() + 1).saturating_sub(layer);
                let schedule = ParamSchedule {
                    lr_factor: config.optim.tower_lr_factor * config.optim.layer_decay.powi(above as i32),
                    start: unfreeze.map_or(0, |it| it.start(layer, layers.blocks())),
                };
                by_name.insert(format!("{tower}.{name}"), schedule);
            }
        }
        let starts = by_name.values().map(|it| it.start).collect();
        Self { by_name, starts, unfrozen }
    }

    /// The schedule of a parameter of the model.
    pub(super) fn of(&self, name: &str) -> ParamSchedule {
        self.by_name.get(name).copied().unwrap_or(ParamSchedule { lr_factor: 1.0, start: 0 })
    }

    /// True if the set of frozen parameters changes after `step` updates. [`TowerSchedules::unfreeze`] must then be
    /// called.
    pub(super) fn changes_at(&self, step: u64) -> bool {
        !self.unfrozen.is_empty() && self.starts.contains(&step)
    }

    /// In the encoders that are unfrozen gradually, makes the parameters trainable that learn after `step` updates, and
    /// freezes the others.
    pub(super) fn unfreeze(&self, mut model: Model, step: u64) -> Model {
        let learns = |tower: &str, param: &ParamInfo<'_>| self.of(&format!("{tower}.{}", param.name)).start <= step;
        for part in &self.unfrozen {
            match part {
                ModelPart::Visual => model.visual = set_trainable(model.visual, |param| learns("visual", param)),
                ModelPart::Textual => model.textual = set_trainable(model.textual, |param| learns("textual", param)),
                _ => {}
            }
        }
        model
    }
}
