//! `conifer factors`: norms of texts in the factors of a product space (PHyCLIP Sec. 4.3), as a page and as files.

mod photos;
mod words;

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use burn::tensor::Device;
use conifer_embeddings::Modality;
use conifer_index::{Query, Snapshot, conjunction};
use conifer_viz::figures::{FigureFont, FigureTable, figure};
use conifer_viz::{Block, FactorSpecialisation, FamilyShare, ProductFactors, Report, factor_specialisation};
use serde_json::{Value, json};

use crate::arguments::FactorsArgs;
use crate::embedder::ModelEmbedder;
use crate::output::{print, print_json};
use crate::request::open_rows;
use photos::PhotoShelf;
use words::WordList;

/// Maximum number of texts drawn on the page; the table has all texts.
const DRAWN: usize = 40;

/// The texts with their points and their depths in every factor.
struct MeasuredTexts {
    texts: Vec<String>,
    points: Vec<Vec<f32>>,
    /// `[texts, factors]`.
    depths: Vec<f64>,
    factors: usize,
}

pub(crate) fn run(args: &FactorsArgs, as_json: bool, device: &Device) -> anyhow::Result<()> {
    let out = &args.out;
    let is_free = |_: &Path| bail!("the folder exists; expected a new one");
    ensure!(!out.exists(), "--out {} exists; expected a new folder", out.display());
    let words = WordList::read(&args.words, &args.pairs)?;
    let texts = words.texts(&args.prompt, &args.pair_prompt)?;
    let embedder = ModelEmbedder::open(&args.checkpoint, device)?;
    let (model, root) = (embedder.inner(), embedder.inner().root()?);
    let factors = ProductFactors::new(model.spec(), &root)?;
    ensure!(
        factors.count() > 1,
        "{}: the space is {}; expected a product of several hyperboloids",
        args.checkpoint.display(),
        model.spec()
    );
    let set = args.set.as_deref().map(open_rows).transpose().context("--set")?;
    if let (Some(set), Some(path)) = (&set, &args.set) {
        set.check()?;
        embedder.check_made(&set.spec, &set.source).with_context(|| format!("--set {}", path.display()))?;
    }
    let bar = crate::progress::bar("texts", texts.len());
    let points = model.texts(&texts, &mut |done, _| bar.set_position(done as u64))?;
    bar.finish_and_clear();
    let points: Vec<Vec<f32>> = points.chunks_exact(model.spec().dim).map(<[f32]>::to_vec).collect();
    let depths = points.iter().flat_map(|it| factors.depths(it)).map(f64::from).collect();
    let measured = MeasuredTexts { texts, points, depths, factors: factors.count() };

    let specialisation = words.families().and_then(|(names, family_of)| {
        let norms = &measured.depths[..family_of.len() * measured.factors];
        let found =
            factor_specialisation(norms, measured.factors, &family_of, names.len(), args.permutations, args.seed)?;
        Some((names, found))
    });
    let shelf = match &set {
        Some(set) => Some(PhotoShelf::open(args, set)?),
        None => None,
    };
    let table = measured.table()?;
    let page = page(args, &words, &measured, specialisation.as_ref(), shelf.as_ref(), &factors)?;
    let drawing = measured.drawing()?;
    let report = json!({
        "format": "conifer factors",
        "model": model.name(),
        "space": model.spec(),
        "prompt": args.prompt,
        "texts": measured.texts.len(),
        "specialisation": specialisation.as_ref().map(|(names, it)| specialisation_json(names, it, args)),
    });
    let font = FigureFont::default();
    conifer_files::create_folder(out, is_free, |fresh| {
        std::fs::write(fresh.join("factors.html"), page.html())?;
        std::fs::write(fresh.join("factors.csv"), table.csv(|_| String::new()))?;
        std::fs::write(fresh.join("factors.svg"), drawing.svg())?;
        std::fs::write(fresh.join("factors.png"), drawing.png(&font)?)?;
        std::fs::write(fresh.join("factors.json"), serde_json::to_vec_pretty(&report)?)?;
        anyhow::Ok(())
    })
    .with_context(|| out.display().to_string())?;
    if as_json {
        return print_json(&report);
    }
    let mut lines = vec![format!("{} texts in {} factors", measured.texts.len(), measured.factors)];
    lines.extend(specialisation.iter().map(|(_, it)| in_words(it)));
    print(&format!("{}\n{}\n", lines.join("\n"), out.join("factors.html").display()))
}

impl MeasuredTexts {
    fn row(&self, text: usize) -> &[f64] {
        &self.depths[text * self.factors..(text + 1) * self.factors]
    }

    /// A row per text and factor.
    fn table(&self) -> anyhow::Result<FigureTable> {
        self.rows(self.texts.len())
    }

    fn rows(&self, count: usize) -> anyhow::Result<FigureTable> {
        let entry = figure("factor-norms").context("figure factor-norms")?;
        let mut table = FigureTable::new(entry.columns);
        for (at, text) in self.texts.iter().take(count).enumerate() {
            for (factor, depth) in self.row(at).iter().enumerate() {
                table.push(vec![text.as_str().into(), (factor as f64).into(), (*depth).into()])?;
            }
        }
        Ok(table)
    }

    fn drawing(&self) -> anyhow::Result<conifer_viz::figures::Drawing> {
        let entry = figure("factor-norms").context("figure factor-norms")?;
        Ok((entry.draw)(&self.rows(DRAWN)?, &FigureFont::default())?)
    }

    /// The factor with the largest depth of a text.
    fn best(&self, text: usize) -> usize {
        let row = self.row(text);
        (0..self.factors).fold(0, |best, factor| if row[factor] > row[best] { factor } else { best })
    }
}

fn in_words(it: &FactorSpecialisation) -> String {
    format!(
        "families have {:.1} % of their norm in their best factor, {:.1} % by chance (p = {:.4})",
        100.0 * it.mean_share,
        100.0 * it.mean_share_by_chance,
        it.p
    )
}

fn specialisation_json(names: &[String], it: &FactorSpecialisation, args: &FactorsArgs) -> Value {
    let family = |(name, it): (&String, &FamilyShare)| json!({ "family": name, "words": it.members, "factor": it.factor, "share": it.share, "p": it.p });
    json!({
        "mean_share": it.mean_share,
        "mean_share_by_chance": it.mean_share_by_chance,
        "p": it.p,
        "permutations": args.permutations,
        "seed": args.seed,
        "families": names.iter().zip(&it.families).map(family).collect::<Vec<_>>(),
    })
}

fn page(
    args: &FactorsArgs,
    words: &WordList,
    measured: &MeasuredTexts,
    specialisation: Option<&(Vec<String>, FactorSpecialisation)>,
    shelf: Option<&PhotoShelf<'_>>,
    factors: &ProductFactors,
) -> anyhow::Result<Report> {
    let text = |text: &str| Block::Text(text.to_owned());
    let row = |at: usize| {
        let best = measured.best(at);
        let total: f64 = measured.row(at).iter().sum();
        let share = if total > 0.0 { 100.0 * measured.row(at)[best] / total } else { 0.0 };
        vec![
            measured.texts[at].clone(),
            best.to_string(),
            format!("{:.3}", measured.row(at)[best]),
            format!("{share:.1} %"),
        ]
    };
    let head = ["text", "best factor", "distance from the root there", "share of the sum over factors"];
    let mut norms = vec![Block::Chart(measured.drawing()?.svg())];
    if measured.texts.len() > DRAWN {
        norms.push(Block::Text(format!("The first {DRAWN} of {} texts; factors.csv has all.", measured.texts.len())));
    }
    norms
        .push(Block::Table { head: head.map(String::from).into(), rows: (0..measured.texts.len()).map(row).collect() });
    let mut sections = vec![("Norms".to_owned(), norms)];
    if let Some((names, found)) = specialisation {
        let row = |(name, it): (&String, &FamilyShare)| {
            let [share, p] = [format!("{:.1} %", 100.0 * it.share), format!("{:.4}", it.p)];
            vec![name.clone(), it.members.to_string(), it.factor.to_string(), share, p]
        };
        let head = ["family", "words", "best factor", "share of the norm", "p"].map(String::from).into();
        let rows = names.iter().zip(&found.families).map(row).collect();
        let how = format!(
            "p is the share of {} permutations of the families over the words with at least this share. The p of single families are not \
             corrected for their number.",
            args.permutations
        );
        sections.push((
            "Do factors specialise?".to_owned(),
            vec![Block::Text(in_words(found) + "."), Block::Table { head, rows }, text(&how)],
        ));
    }
    if let Some(shelf) = shelf {
        let mut blocks = Vec::new();
        for (at, pair) in words.pairs().iter().enumerate() {
            let both = words.len() + at;
            let [a, b] = pair.map(|word| &measured.points[word]);
            let joined = conjunction(&Query::new(shelf.spec(), &[a.as_slice(), b].concat()))?;
            let titles = [
                format!("largest norm of each factor: {} | {}", measured.texts[pair[0]], measured.texts[pair[1]]),
                measured.texts[both].clone(),
            ];
            for (title, point) in titles.into_iter().zip([&joined, &measured.points[both]]) {
                blocks.push(Block::Strip { heading: title, figures: shelf.nearest(point)? });
            }
        }
        if !blocks.is_empty() {
            sections.push(("Photos of two words".to_owned(), blocks));
        }
        sections.push(("Photos of a factor".to_owned(), shelf.of_factors(factors, measured, args.seed)));
    }
    Ok(Report {
        title: "Factors".to_owned(),
        subtitle: format!(
            "{} texts in {} factors of {}",
            measured.texts.len(),
            measured.factors,
            args.checkpoint.display()
        ),
        sections,
    })
}

/// Row numbers of the photos of a set.
fn photo_rows(set: &Snapshot) -> Vec<usize> {
    (0..set.len()).filter(|row| set.modality[*row] == Modality::Image).collect()
}
