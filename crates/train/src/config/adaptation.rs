//! Checks of the settings for fine-tuning encoders: low-rank updates, layer-wise learning rates, gradual unfreezing.

use conifer_model::model::ModelPart;

use super::{Config, at_least_one, within};
use crate::error::{Error, Result};

impl Config {
    /// Checks `[model.*_lora]`, `optim.tower_lr_factor`, `optim.layer_decay` and `[train.unfreeze]`.
    pub(super) fn check_adaptation(&self) -> Result<()> {
        let model = &self.model;
        let towers = [
            ("visual", ModelPart::Visual, &model.visual_lora, model.visual.vector_width()),
            ("textual", ModelPart::Textual, &model.textual_lora, model.textual.vector_width()),
        ];
        for (tower, part, lora, vector_width) in towers {
            let Some(lora) = lora else { continue };
            let section = format!("model.{tower}_lora");
            lora.check(&section)?;
            if vector_width.is_some() {
                let expected = "no value, because this tower reads vectors and has no weights";
                return Err(Error::invalid(section, "set", expected));
            }
            if self.train.freeze.contains(&part) {
                let expected = format!("no {tower}, because {section} already freezes all but the low-rank updates");
                return Err(Error::invalid("train.freeze", tower, expected));
            }
        }
        within("optim.tower_lr_factor", self.optim.tower_lr_factor, |x| x > 0.0, "more than 0")?;
        within("optim.layer_decay", self.optim.layer_decay, |x| x > 0.0 && x <= 1.0, "more than 0, at most 1")?;
        self.check_unfreeze()
    }

    fn check_unfreeze(&self) -> Result<()> {
        let Some(unfreeze) = &self.train.unfreeze else { return Ok(()) };
        at_least_one("train.unfreeze.every", unfreeze.every)?;
        at_least_one("train.unfreeze.blocks", unfreeze.blocks as u64)?;
        if unfreeze.every >= self.train.steps {
            let expected = format!("less than train.steps = {}, or nothing is unfrozen", self.train.steps);
            return Err(Error::invalid("train.unfreeze.every", unfreeze.every, expected));
        }
        if unfreeze.towers.is_empty() {
            return Err(Error::invalid("train.unfreeze.towers", "empty", "visual, textual or both"));
        }
        for part in &unfreeze.towers {
            let (tower, lora) = match part {
                ModelPart::Visual => ("visual", &self.model.visual_lora),
                ModelPart::Textual => ("textual", &self.model.textual_lora),
                _ => {
                    let found = serde_json::json!(part).as_str().unwrap_or_default().to_owned();
                    return Err(Error::invalid("train.unfreeze.towers", found, "visual, textual or both"));
                }
            };
            let other = match (self.train.freeze.contains(part), lora) {
                (true, _) => "in train.freeze, which freezes this encoder for the whole run".to_owned(),
                (false, Some(_)) => {
                    format!("adapted by model.{tower}_lora, which freezes its weights for the whole run")
                }
                (false, None) => continue,
            };
            return Err(Error::invalid("train.unfreeze.towers", tower, format!("an encoder that is not {other}")));
        }
        Ok(())
    }
}
