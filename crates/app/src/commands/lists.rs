use conifer_eval::BENCHMARKS;
use conifer_learn::methods::METHODS;
use serde_json::json;

use crate::output::{columns, print, print_json};

/// The registry of methods, as the README's table shows it.
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
        vec![it.name.into(), views.join(", "), (it.manifold)(512).kind, it.summary.into(), it.reference.into()]
    }));
    print(&columns(&rows))
}

/// The registry of benchmarks.
pub(crate) fn benchmarks(as_json: bool) -> anyhow::Result<()> {
    let needs = |needs: &[conifer_eval::Input]| needs.iter().map(|it| it.name()).collect::<Vec<_>>();
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
