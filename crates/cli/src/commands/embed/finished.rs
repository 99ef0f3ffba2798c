//! Checks for a finished set at `--out`. If the same command made it, there is nothing to do. A set of another command
//! is replaced only with --overwrite.

use std::path::Path;

use anyhow::{Context as _, bail};
use conifer_embeddings::{Draft, SettingDifference, StoredSet, first_difference};

use super::EmbedJob;

/// The number of rows of the finished set at `out` if this job made it, or `None` if there is no finished set or a
/// draft that replaces it has begun.
///
/// # Errors
/// The set was made by another job (the message names the first setting that differs), does not record its settings, or
/// is damaged.
pub(crate) fn finished_rows(job: &EmbedJob<'_>, out: &Path) -> anyhow::Result<Option<usize>> {
    // An unfinished draft means that an earlier command was allowed to replace the set.
    if Draft::is_begun(out) || !out.join("manifest.json").is_file() {
        return Ok(None);
    }
    let name = out.display();
    let advice = || format!("{name} holds a finished set (--overwrite replaces it, another --out keeps it)");
    let set = StoredSet::open(out).with_context(advice)?;
    let Some(before) = StoredSet::identity(out).with_context(advice)? else {
        let made = &set.source;
        bail!(
            "{}: it names model `{}` and data `{}`, but not the `conifer embed` settings that made it, so they cannot be compared",
            advice(),
            made.model,
            made.data
        );
    };
    match first_difference(&before, &job.identity()?) {
        None => Ok(Some(set.len())),
        Some(SettingDifference { name, before, after }) => {
            bail!("{}: its `{name}` is `{before}`; expected `{after}`, the value of this command", advice())
        }
    }
}
