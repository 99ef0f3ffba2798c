use conifer_eval::BENCHMARKS;
use conifer_geometry::SPACES;
use conifer_model::checkpoint::towers::{TOWER_FORMATS, TowerFormat};
use conifer_model::encoders::ENCODERS;
use conifer_model::head::Tower;
use conifer_train::methods::METHODS;
use serde_json::json;

use crate::output::{columns, print, print_json};

/// Prints the registry of training methods, as in the table of docs/guide.md.
pub(crate) fn methods(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let rows: Vec<_> = METHODS
            .iter()
            .map(|it| {
                let views: Vec<_> = it.views.iter().map(|view| view.name()).collect();
                json!({ "name": it.name, "summary": it.summary, "reference": it.reference, "views": views, "terms": it.terms,
                        "manifold": (it.manifold)(512).kind })
            })
            .collect();
        return print_json(&rows);
    }
    let mut rows = vec![["method", "views", "space", "what", "source"].map(String::from).to_vec()];
    rows.extend(METHODS.iter().map(|it| {
        let views: Vec<_> = it.views.iter().map(|view| view.name()).collect();
        vec![
            it.name.into(),
            views.join(", "),
            (it.manifold)(512).kind.to_string(),
            it.summary.into(),
            it.reference.into(),
        ]
    }));
    print(&columns(&rows))
}

/// Prints the registry of benchmarks.
pub(crate) fn benchmarks(as_json: bool) -> anyhow::Result<()> {
    let needs = |needs: &[conifer_eval::RequiredInput]| needs.iter().map(|it| it.name()).collect::<Vec<_>>();
    if as_json {
        let rows: Vec<_> = BENCHMARKS
            .iter()
            .map(|it| json!({ "name": it.name(), "summary": it.summary(), "reference": it.reference(), "needs": needs(it.needs()) }))
            .collect();
        return print_json(&rows);
    }
    let mut rows = vec![["benchmark", "needs", "what", "source"].map(String::from).to_vec()];
    rows.extend(
        BENCHMARKS
            .iter()
            .map(|it| vec![it.name().into(), needs(it.needs()).join(", "), it.summary().into(), it.reference().into()]),
    );
    print(&columns(&rows))
}

/// Prints the registry of encoders; with `long` also the layouts of pretrained weights.
pub(crate) fn encoders(long: bool, as_json: bool) -> anyhow::Result<()> {
    let reads = |side| match side {
        Tower::Image => "photos",
        Tower::Text => "texts",
    };
    if as_json {
        let rows: Vec<_> = ENCODERS
            .iter()
            .map(|it| json!({ "name": it.name, "reads": reads(it.tower), "summary": it.summary, "presets": (it.presets)() }))
            .collect();
        if !long {
            return print_json(&rows);
        }
        let layout = |it: &TowerFormat| json!({ "name": it.name, "reads": reads(it.tower()), "summary": it.summary, "weights": it.weights });
        let layouts: Vec<_> = TOWER_FORMATS.iter().map(layout).collect();
        return print_json(&json!({ "encoders": rows, "pretrained": layouts }));
    }
    let mut rows = vec![["encoder", "reads", "presets", "what"].map(String::from).to_vec()];
    rows.extend(
        ENCODERS
            .iter()
            .map(|it| vec![it.name.into(), reads(it.tower).into(), (it.presets)().join(", "), it.summary.into()]),
    );
    print(&columns(&rows))?;
    if !long {
        return Ok(());
    }
    print(
        "\nPretrained weights, for model.visual.init and model.textual.init (a file, a folder or a name on the hub):\n",
    )?;
    for it in TOWER_FORMATS {
        print(&format!("\n{} ({}): {}\n    {}\n", it.name, reads(it.tower()), it.summary, it.weights))?;
    }
    print("\nThe towers of whole models can be used in the same way; `conifer convert --help` lists their layouts.\n")
}

/// Prints the registry of spaces.
pub(crate) fn spaces(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let rows: Vec<_> = SPACES
            .iter()
            .map(|it| json!({ "name": it.kind, "summary": it.summary, "factored": it.factored, "curved": it.curved }))
            .collect();
        return print_json(&rows);
    }
    let mut rows = vec![["space", "factors", "curvatures", "what"].map(String::from).to_vec()];
    rows.extend(SPACES.iter().map(|it| {
        let (factors, curvatures) =
            (if it.factored { "any" } else { "1" }, if it.curved { "one a factor" } else { "none" });
        vec![it.kind.into(), factors.into(), curvatures.into(), it.summary.into()]
    }));
    print(&columns(&rows))
}
