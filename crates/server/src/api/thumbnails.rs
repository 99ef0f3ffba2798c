//! `GET /api/rows/{row}/thumbnail`: the picture of a row as a small JPEG.
//!
//! A row refers to a sample, and the sample refers to a file. No part of a request becomes a file path.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use conifer_data::sample::guarded;
use conifer_data::transform::{crop_box, shrink};
use conifer_data::{BBox, Broken, PixelLimits, Source, encode_jpeg};
use conifer_embeddings::Modality;

use crate::Server;
use crate::api::extract::{QueryParams, RowNumber};
use crate::api::requests::ThumbnailParams;
use crate::body::typed;
use crate::error::{HttpError, HttpResult};
use crate::reporter::Reporter;
use crate::set::state::{SAMPLE, ServedSet};
use crate::start_error::{Error, Result};

/// JPEG quality, 1 to 100.
const QUALITY: u8 = 85;

/// The source of the pictures of the rows.
#[derive(Default)]
pub(crate) struct Thumbnails {
    source: Option<Box<dyn Source>>,
    /// Index of the sample that each row shows.
    sample_of: Vec<Option<u32>>,
    /// Rows whose unreadable picture was already reported.
    reported: Mutex<HashSet<usize>>,
    reporter: Option<Arc<dyn Reporter>>,
}

impl Thumbnails {
    /// Matches the rows with the samples of `source` by sample id.
    ///
    /// # Errors
    /// The set has no column `sample`.
    pub(crate) fn new(source: Box<dyn Source>, rows: &ServedSet, reporter: Arc<dyn Reporter>) -> Result<Self> {
        let samples = rows.columns.get(SAMPLE).ok_or_else(|| {
            Error::invalid(
                "--data",
                format!("the set has no column `{SAMPLE}`, which links rows to photos"),
                "a set that `conifer embed` made, which writes it",
            )
        })?;
        let total = source.len();
        let mut number_by_id: HashMap<String, u32> = HashMap::with_capacity(total);
        for (index, number) in (0..total).zip(0_u32..) {
            // Skip samples that cannot be read; their rows have no picture.
            if let Ok(sample) = guarded(|| format!("{}[{index}]", source.name()), || source.get(index))
                && sample.image.is_some()
            {
                number_by_id.entry(sample.id).or_insert(number);
            }
            if index % 1000 == 0 {
                reporter.progress(index, total);
            }
        }
        reporter.progress(total, total);
        let shown = |row: usize| match rows.modality[row] {
            Modality::Image => true,
            Modality::BoxImage => rows.bounds(row).is_some(),
            Modality::Text | Modality::BoxText => false,
        };
        let sample_of = (0..rows.len())
            .map(|row| if shown(row) { number_by_id.get(&samples[row]).copied() } else { None })
            .collect();
        Ok(Self { source: Some(source), sample_of, reported: Mutex::default(), reporter: Some(reporter) })
    }

    /// Returns true if the server has a source of pictures.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn count(&self) -> usize {
        self.sample_of.iter().flatten().count()
    }

    pub(crate) fn has(&self, row: usize) -> bool {
        self.sample_of.get(row).is_some_and(Option::is_some)
    }

    /// Encodes the picture of a row as JPEG, with a shorter side of at most `size` pixels. The picture of a box is its
    /// part of the photo, unless `whole` is set.
    fn jpeg(&self, rows: &ServedSet, row: usize, params: &ThumbnailParams) -> HttpResult<Vec<u8>> {
        let (size, whole) = (params.size()?, params.whole.unwrap_or(false));
        let sample = self.sample_of.get(row).copied().flatten();
        let (Some(source), Some(sample)) = (&self.source, sample) else {
            return Err(HttpError::absent(format!("row {row} has no picture")));
        };
        let picture = guarded(
            || format!("row {row}"),
            || {
                let sample = source.get(sample as usize)?;
                let Some(picture) = sample.photo(&PixelLimits::default())? else { return Ok(None) };
                let picture = match rows.bounds(row).filter(|_| !whole) {
                    Some([x, y, w, h]) => {
                        let (x2, y2) = ((x + w).min(1.0), (y + h).min(1.0));
                        crop_box(&picture, &BBox { x1: x, y1: y, x2, y2 })
                    }
                    None => picture,
                };
                encode_jpeg(&shrink(&picture, size).unwrap_or(picture), QUALITY).map(Some)
            },
        );
        // A file may change while the server runs. The error may contain its path and content, so it goes only to the
        // log of the operator.
        match picture {
            Ok(Some(picture)) => Ok(picture),
            Ok(None) => Err(HttpError::absent(format!("row {row} has no picture"))),
            Err(broken) => {
                self.report(row, &broken);
                Err(HttpError::absent(format!(
                    "the picture of row {row} cannot be read any more; the reason is in the server's log"
                )))
            }
        }
    }

    /// Reports an error to the operator, once per row, because a client may request the same picture repeatedly.
    fn report(&self, row: usize, broken: &Broken) {
        if let Some(reporter) = &self.reporter
            && self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(row)
        {
            reporter.note(&format!("picture of row {row}: {broken}"));
        }
    }
}

pub(crate) async fn thumbnail(
    State(server): State<Arc<Server>>,
    RowNumber(row): RowNumber,
    QueryParams(params): QueryParams<ThumbnailParams>,
) -> HttpResult {
    server.state.check_row(row)?;
    let jpeg = server.work(move |server| server.thumbnails.jpeg(&server.state, row, &params)).await?;
    let mut response = typed("image/jpeg", jpeg);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600"));
    Ok(response)
}
