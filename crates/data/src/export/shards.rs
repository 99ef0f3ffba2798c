//! Writes samples as shards.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{CropSettings, ExportFormat, photo_bytes};
use crate::error::{Error, Result};
use crate::grounded::GroundedRecord;
use crate::picture;
use crate::sample::{Broken, Cause, ImageRef, Picture, PixelLimits, Sample};
use crate::shard::{ShardSize, ShardWriter};
use crate::transform::{crop_pixels, white_pad};

/// (extension, content) of every member of a sample.
type EncodedMembers = Vec<(String, Vec<u8>)>;

pub(super) struct PairShards {
    out: NumberedWriter,
    limits: PixelLimits,
}

pub(super) struct BoxShards {
    out: NumberedWriter,
    cut: CropSettings,
    limits: PixelLimits,
}

/// Assigns running numbers as keys, because ids may contain dots or be paths.
struct NumberedWriter {
    writer: ShardWriter,
    next: u64,
}

impl PairShards {
    pub(super) fn create(folder: &Path, size: ShardSize, limits: &PixelLimits) -> Result<Self> {
        Ok(Self { out: NumberedWriter::create(folder, size)?, limits: *limits })
    }
}

impl ExportFormat for PairShards {
    type Ready = EncodedMembers;

    fn prepare(&self, sample: &Sample) -> Result<EncodedMembers, Broken> {
        let (image, caption) = pair(sample)?;
        let bytes = photo_bytes(image, &self.limits).map_err(|broken| broken.within(&sample.id))?;
        // The photo is a separate member, so the record does not name it. Crops have no member, so they are rejected.
        let bare = Sample { image: None, ..sample.clone() };
        let record = GroundedRecord::from_sample(&bare, |crop| {
            let detail = format!(
                "a phrase with a separate crop file, {}; expected boxes (write box shards instead)",
                crop.place()
            );
            Err(Broken::new(&sample.id, Cause::BadRecord, detail))
        })?;
        let json = serde_json::to_vec(&record)
            .map_err(|error| Broken::new(&sample.id, Cause::BadRecord, format!("{error}; expected a record")))?;
        Ok(vec![
            (picture::extension(&bytes).to_owned(), bytes),
            ("txt".to_owned(), caption.as_bytes().to_vec()),
            ("json".to_owned(), json),
        ])
    }

    fn put(&mut self, members: EncodedMembers) -> Result<()> {
        self.out.put(&members)
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        self.out.writer.finish()
    }
}

impl BoxShards {
    pub(super) fn create(folder: &Path, size: ShardSize, cut: CropSettings, limits: &PixelLimits) -> Result<Self> {
        if cut.side == 0 || cut.side > 4096 {
            return Err(Error::invalid("side", cut.side.to_string(), "1 to 4096 pixels"));
        }
        if !(1..=100).contains(&cut.quality) {
            return Err(Error::invalid("quality", cut.quality.to_string(), "1 to 100"));
        }
        Ok(Self { out: NumberedWriter::create(folder, size)?, cut, limits: *limits })
    }

    fn encode(&self, picture: &Picture) -> Result<Vec<u8>, Broken> {
        picture::encode_jpeg(&white_pad(picture, self.cut.side), self.cut.quality)
    }

    /// The picture of a phrase: its crop file, or its first box that is large enough. `None` if it has neither.
    fn part(&self, photo: &Picture, phrase: &crate::Phrase) -> Result<Option<Picture>, Broken> {
        if let Some(crop) = &phrase.crop {
            return crop.open(&self.limits).map(Some);
        }
        let large = |&[x1, y1, x2, y2]: &[u32; 4]| u64::from(x2 - x1) * u64::from(y2 - y1) > self.cut.min_area;
        let pixels = phrase.boxes.iter().map(|bbox| bbox.to_pixels(photo.width, photo.height)).find(large);
        Ok(pixels.map(|pixels| crop_pixels(photo, pixels)))
    }
}

impl ExportFormat for BoxShards {
    type Ready = EncodedMembers;

    fn prepare(&self, sample: &Sample) -> Result<EncodedMembers, Broken> {
        let (image, caption) = pair(sample)?;
        let named = |broken: Broken| broken.within(&sample.id);
        let photo = image.open(&self.limits).map_err(named)?;
        let mut members = vec![
            ("child.jpg".to_owned(), self.encode(&photo).map_err(named)?),
            ("child.txt".to_owned(), caption.as_bytes().to_vec()),
        ];
        let mut parents = EncodedMembers::new();
        let mut seen = HashSet::new();
        for phrase in &sample.phrases {
            if seen.contains(phrase.text.as_str()) {
                continue;
            }
            let Some(part) = self.part(&photo, phrase).map_err(named)? else { continue };
            let number = seen.len();
            seen.insert(phrase.text.as_str());
            parents.push((format!("parent{number:03}.jpg"), self.encode(&part).map_err(named)?));
            parents.push((format!("parent{number:03}.txt"), phrase.text.as_bytes().to_vec()));
        }
        if seen.is_empty() {
            let expected = format!("at least one box of more than {} pixels", self.cut.min_area);
            let detail = format!("{} phrases without such a box; expected {expected}", sample.phrases.len());
            return Err(Broken::new(&sample.id, Cause::NoBox, detail));
        }
        members.push(("numparents.txt".to_owned(), seen.len().to_string().into_bytes()));
        members.extend(parents);
        Ok(members)
    }

    fn put(&mut self, members: EncodedMembers) -> Result<()> {
        self.out.put(&members)
    }

    fn finish(self) -> Result<Vec<PathBuf>> {
        self.out.writer.finish()
    }
}

impl NumberedWriter {
    fn create(folder: &Path, size: ShardSize) -> Result<Self> {
        Ok(Self { writer: ShardWriter::new(folder, size)?, next: 0 })
    }

    fn put(&mut self, members: &EncodedMembers) -> Result<()> {
        let members: Vec<_> = members.iter().map(|(extension, content)| (extension.as_str(), &content[..])).collect();
        self.writer.write(&format!("{:09}", self.next), &members)?;
        self.next += 1;
        Ok(())
    }
}

fn pair(sample: &Sample) -> Result<(&ImageRef, &str), Broken> {
    let lacks = |cause, what: &str| Broken::new(&sample.id, cause, format!("no {what}; expected one"));
    let image = sample.image.as_ref().ok_or_else(|| lacks(Cause::NoImage, "photo"))?;
    let caption = sample.captions.first().ok_or_else(|| lacks(Cause::NoCaption, "caption"))?;
    Ok((image, caption))
}
