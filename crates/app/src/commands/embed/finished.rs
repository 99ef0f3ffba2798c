//! A finished set at `--out`: the same command has nothing left to do, another one must not replace it unasked.

use std::path::Path;

use anyhow::{Context as _, bail};
use conifer_space::points::{Difference, Draft, StoredSet, first_difference};

use super::Job;

/// The number of rows of the set that this job has finished at `out`, if it has.
///
/// # Errors
/// A finished set of another job, naming the first setting that differs; a set that does not say what made it; one that is damaged.
pub(crate) fn finished_rows(job: &Job<'_>, out: &Path) -> anyhow::Result<Option<usize>> {
    // Who began to replace a set was asked then.
    if Draft::is_begun(out) || !out.join("manifest.json").is_file() {
        return Ok(None);
    }
    let name = out.display();
    let advice = || format!("{name} holds a finished set (--overwrite replaces it, another --out keeps it)");
    let set = StoredSet::open(out).with_context(advice)?;
    let Some(before) = StoredSet::identity(out).with_context(advice)? else {
        let made = &set.source;
        bail!(
            "{}: what made it is `{}` from `{}`; expected the settings of a `conifer embed`, to be compared with these",
            advice(),
            made.model,
            made.data
        );
    };
    match first_difference(&before, &job.identity()?) {
        None => Ok(Some(set.len())),
        Some(Difference { name, before, after }) => {
            bail!("{}: its `{name}` is `{before}`; expected `{after}`, as asked for now", advice())
        }
    }
}
