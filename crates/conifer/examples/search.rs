//! Searches a set of embeddings: by distance, below and above a point (by exterior angle), inside a cone, and by depth,
//! with filters.
//!
//! `cargo run --release -p conifer --example search`. The example needs no tensor engine, so
//! `--no-default-features` builds it, too.
#![allow(clippy::print_stdout)]

mod shared;

use conifer::embeddings::Modality;
use conifer::index::{Cone, Direction, Filter, FlatIndex, Gate, Query, Ranking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let set = shared::small_tree();
    let index = FlatIndex::new(&set)?;
    let show = |title: &str, query: &str, ranking: Ranking, filter: &Filter<'_>| -> Result<(), conifer::index::Error> {
        let row = set.ids.iter().position(|id| id == query).unwrap_or_default();
        let hits = index.top_k(&Query::row(&set, row), ranking, 4, filter)?.concat();
        println!("\n{title} \"{query}\"");
        for hit in hits {
            println!("  {:<12} {:.3}", set.ids[hit.row], hit.score);
        }
        Ok(())
    };
    let photos = Filter::Modality(&[Modality::Image]);
    let texts = Filter::Modality(&[Modality::Text]);
    let row = |id: &str| set.ids.iter().position(|it| it == id).unwrap_or_default();

    show("nearest to", "dog", Ranking::Distance, &Filter::All)?;
    show("photos narrower than", "animal", Ranking::Angle(Direction::Down), &photos)?;
    show("texts broader than", "dog/1.jpg", Ranking::Angle(Direction::Up), &texts)?;
    // The gate selects the rows, and the ranking orders them.
    show("from general to specific below", "animal", Ranking::Depth(Gate::Angle(Direction::Down, 0.8)), &Filter::All)?;
    // Filters combine: photos inside the cone of "animal", but not inside that of "dog", at a limited depth.
    let (animal, dog) =
        (Filter::Inside(Query::row(&set, row("animal")), Cone::default()), Query::row(&set, row("dog")));
    let not_dog = Filter::Inside(dog, Cone::default());
    let wanted = [photos, animal, Filter::Not(&not_dog), Filter::Depth(0.5, 3.0)];
    show("animals that are no dogs, nearest to", "animal", Ranking::Distance, &Filter::And(&wanted))?;
    // A filter can also select values of a column.
    let reviewed = Filter::Column { column: &set.columns["reviewed"], wanted: &["yes"] };
    show("reviewed rows nearest to", "vehicle", Ranking::Distance, &reviewed).map_err(Into::into)
}
