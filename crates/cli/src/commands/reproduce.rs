//! `conifer reproduce`: runs the trainings and measurements that decide claims of the papers, and writes a page with
//! the verdicts.

mod claim;
mod embedded;
mod execute;
mod plan;
mod report;
mod result;

use std::fs::File;

use anyhow::{Context as _, ensure};
use burn::tensor::Device;
use conifer_files::Lock;
use serde_json::json;

use self::claim::NamedClaims;
use self::result::ClaimResult;
use crate::arguments::ReproduceArgs;
use crate::output::{columns, note, print, print_json};
use crate::signal;

pub(crate) fn run(args: &ReproduceArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let claims = claim::chosen(&args.claims, args.quick)?;
    if args.claims.iter().any(|it| it == "list") {
        return list(&claims, as_json);
    }
    let plan = plan::plan(claims, args)?;
    let place = || args.out.display().to_string();
    std::fs::create_dir_all(&args.out).with_context(place)?;
    let lock = args.out.join("lock");
    let lock = File::create(&lock).and_then(Lock::take).with_context(|| lock.display().to_string())?;
    let _lock =
        lock.with_context(|| format!("{} is in use by another `conifer reproduce`; expected another --out", place()))?;

    let (trainings, measurements) = plan::job_count(&plan);
    note(&format!("{} claims: {trainings} runs, {measurements} measurements", plan.claims.len()));
    for (planned, cause) in plan.claims.iter().filter_map(|it| Some((it, it.first_cause()?))) {
        note(&format!("{}: not run: {cause}", planned.name));
    }
    let failed = execute::execute(&plan, signal::stop_flag()?.as_ref(), device)?;
    let results = result::results(&plan, &failed, args.seeds);
    report::write(&args.out, &results, args.seeds)?;
    if let Some(document) = &args.update {
        report::update(document, &results, args.seeds)?;
    }
    if as_json {
        print_json(&results)?;
    } else {
        print(&columns(&table(&results)))?;
        print(&format!("\n{}\n", args.out.join("claims.html").display()))?;
    }
    let missing: Vec<_> = results.iter().filter(|it| !it.was_run()).collect();
    let causes: Vec<_> = missing.iter().map(|it| format!("{}: {}", it.name, it.reason)).collect();
    ensure!(missing.is_empty(), "{} of {} claims were not run: {}", missing.len(), results.len(), causes.join("; "));
    Ok(())
}

fn table(results: &[ClaimResult]) -> Vec<Vec<String>> {
    let mut rows = vec![["claim", "verdict", "difference", "95 % interval"].map(String::from).to_vec()];
    rows.extend(results.iter().map(|claim| {
        let (difference, interval) = claim.comparison.as_ref().map_or_else(Default::default, |it| {
            (format!("{:+.4}", it.difference), format!("{:+.4} .. {:+.4}", it.interval[0], it.interval[1]))
        });
        vec![claim.name.clone(), claim.verdict.to_owned(), difference, interval]
    }));
    rows
}

/// Prints the claims.
fn list(claims: &NamedClaims, as_json: bool) -> anyhow::Result<()> {
    let mut rows =
        vec![["claim", "data", "runs for each seed", "quick", "place", "sentence"].map(String::from).to_vec()];
    let mut all = Vec::new();
    for (name, claim) in claims {
        let claim = match claim {
            Ok(claim) => claim,
            Err(cause) => anyhow::bail!("{name}: {cause}"),
        };
        let data = match claim.needed_data() {
            names if names.is_empty() => "toy world".to_owned(),
            names => names.join(", "),
        };
        all.push(json!({
            "name": name, "paper": claim.paper, "sentence": claim.sentence, "place": claim.place, "quick": claim.quick,
            "data": claim.needed_data(), "row": claim.test.row, "shown": claim.show, "explanation": claim.explanation,
            "runs": claim.runs.iter().map(|(run, it)| json!({ "run": run, "config": it.config, "encoder": it.encoder, "set": it.set, "init": it.init })).collect::<Vec<_>>(),
        }));
        let quick = if claim.quick { "quick" } else { "" };
        let runs = claim.runs.len().to_string();
        rows.push(vec![name.clone(), data, runs, quick.to_owned(), claim.place.clone(), claim.sentence.clone()]);
    }
    if as_json { print_json(&all) } else { print(&columns(&rows)) }
}
