#![allow(clippy::unwrap_used)]
use std::path::PathBuf;

use conifer_data::fixtures::{FixtureFolder, jpeg, shared_data};
use conifer_data::{Cause, ImageRef, PixelLimits, View};
use serde_json::json;

use super::*;

fn spec(kind: &str, path: impl Into<PathBuf>, options: serde_json::Value) -> SourceSpec {
    let options = serde_json::from_value(options).unwrap();
    SourceSpec { kind: kind.to_owned(), path: Some(path.into()), options, ..SourceSpec::default() }
}

fn message(spec: &SourceSpec) -> String {
    open(spec).err().unwrap().to_string()
}

const TABLE: &str = "image,order,genus,species,name,set\n\
    a.jpg,Passeriformes,Turdus,merula,\"Blackbird, common\",train\n\
    b.jpg,Passeriformes,Turdus,,Thrush,train\n\
    ,Passeriformes,Turdus,merula,,train\n\
    c.jpg,Galliformes\n\
    d.jpg,Galliformes,Turdus,alba,,test\n";

#[test]
fn a_column_for_each_rank() {
    let folder = FixtureFolder::new();
    folder.write("photos/a.jpg", jpeg(20, 10));
    let path = folder.write("table.csv", TABLE);
    let ranks = json!({"ranks": ["order", "genus", "species"], "caption": "name", "folder": "photos"});
    let source = open(&spec("taxon_table", &path, ranks.clone())).unwrap();
    assert_eq!((source.len(), source.views()), (5, &[View::Pair, View::Chain][..]));
    let one = source.get(0).unwrap();
    assert_eq!(one.taxon, ["Passeriformes", "Turdus", "merula"]);
    assert_eq!(
        (one.label.as_deref(), &one.captions[..]),
        (Some("Turdus merula"), &["Blackbird, common".to_owned()][..])
    );
    assert_eq!(one.image.unwrap().open(&PixelLimits::default()).unwrap().width, 20);
    // The same genus name in two orders is allowed.
    assert_eq!(source.get(4).unwrap().taxon, ["Galliformes", "Turdus", "alba"]);
    let fault = |index: usize| source.get(index).unwrap_err().to_string();
    let place = |line: u32| format!("line {line} of `{}`", path.display());
    // A rank without a name is missing.
    let two = source.get(1).unwrap();
    assert_eq!((&two.taxon[..], two.label.as_deref()), (&one.taxon[..2], Some("Turdus")));
    assert_eq!(two.missing_ranks.iter().map(|it| (it.position, &*it.name)).collect::<Vec<_>>(), [(2, "species")]);
    assert_eq!(fault(2), format!("sample `{}`: no_image: `image` is empty; expected a file", place(4)));
    assert_eq!(fault(3), format!("sample `c.jpg`: bad_record: {}: 2 fields; expected 6", place(5)));

    let mut test = spec("taxon_table", &path, ranks);
    test.split = Some("test".to_owned());
    assert!(message(&test).starts_with("data: `split_column` is not given; expected a column"));
    test.options.insert("split_column".to_owned(), json!("set"));
    test.options.insert("label".to_owned(), json!("genus"));
    let source = open(&test).unwrap();
    let one = source.get(0).unwrap();
    assert_eq!((source.len(), one.label.as_deref(), one.split.as_deref()), (1, Some("Turdus"), Some("test")));
    test.split = Some("val".to_owned());
    assert!(message(&test).ends_with("holds no sample; expected rows of split `val`"));
}

#[test]
fn ranks_from_a_second_table() {
    let folder = FixtureFolder::new();
    let path = folder.write(
        "photos.tsv",
        "file\tlabel\tkingdom\nx.jpg\tABBOTTS BABBLER\tAnimalia\ny.jpg\tPhoenix\tAnimalia\nz.jpg\tTwin\tAnimalia\n",
    );
    folder.write("birds.csv", "comName,order,sciName\nAbbott's Babbler,Passeriformes,Malacocincla abbotti\nTwin,A,a\ntwin,A,b\nOther,A,c\nother,A,c\n");
    let joined = json!({"image": "file", "ranks": ["kingdom", "order", "sciName"], "taxonomy": "birds.csv", "key": "label", "taxonomy_key": "comName"});
    let source = open(&spec("taxon_table", &path, joined.clone())).unwrap();
    assert_eq!(source.get(0).unwrap().taxon, ["Animalia", "Passeriformes", "Malacocincla abbotti"]);
    let other = folder.path().join("birds.csv");
    let fault = |index: usize| source.get(index).unwrap_err().detail;
    let place = |line: u32| format!("line {line} of `{}`", path.display());
    assert_eq!(
        fault(1),
        format!("{}: `Phoenix` is not in `{}`; expected one of its 3 names", place(3), other.display())
    );
    let expected = format!("`Twin` is in lines 3 and 4 of `{}` with different ranks; expected one", other.display());
    assert_eq!(fault(2), format!("{}: {expected}", place(4)));

    let mut half = joined;
    half.as_object_mut().unwrap().remove("key");
    assert!(message(&spec("taxon_table", &path, half)).contains("`taxonomy, key, taxonomy_key` is only some of them"));
}

/// A rank is missing in the middle, at the start, or everywhere. The label is the binomial if genus and species are
/// present, otherwise the last name.
#[test]
fn missing_ranks_and_common_names() {
    let folder = FixtureFolder::new();
    let rows = "image,class,genus,species,name\n1.jpg,Aves,,merula,blackbird\n2.jpg,,Turdus,merula,\n3.jpg,,,,\n4.jpg,Aves,Turdus,merula,x\n";
    let path = folder.write("gaps.csv", rows);
    let options = json!({"ranks": "class,genus,species", "common_name": "name"});
    let source = open(&spec("taxon_table", &path, options)).unwrap();
    let read = |index: usize| source.get(index).unwrap();
    let missing = |index: usize| read(index).missing_ranks.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!((read(0).taxon.join(">"), read(0).label.as_deref()), ("Aves>merula".to_owned(), Some("merula")));
    assert_eq!((read(0).ranked_taxon().join(">"), missing(0)), ("Aves>>merula".to_owned(), vec!["genus".to_owned()]));
    assert_eq!((read(1).label.as_deref(), missing(1)), (Some("Turdus merula"), vec!["class".to_owned()]));
    assert_eq!((read(3).label.as_deref(), missing(3)), (Some("Turdus merula"), Vec::new()));
    assert_eq!([read(0).common_name.as_deref(), read(1).common_name.as_deref()], [Some("blackbird"), None]);
    let expected = "no_chain: line 4 of `PATH`: no name at the ranks class, genus, species; expected at least one";
    let expected = expected.replace("PATH", &path.display().to_string());
    assert_eq!(source.get(2).unwrap_err().to_string(), format!("sample `3.jpg`: {expected}"));
    let error = message(&spec("taxon_table", &path, json!({"ranks": "class", "common_name": "common"})));
    assert!(error.contains("no column `common`"), "{error}");
}

#[test]
fn invalid_taxonomies_are_rejected() {
    let folder = FixtureFolder::new();
    let path = folder.write("t.csv", "image,a,b,a2,b\nx.jpg,A,B,C,D\n");
    let with = |ranks: serde_json::Value| message(&spec("taxon_table", &path, json!({"ranks": ranks})));
    assert_eq!(with(json!([])), "data: `ranks` is not given; expected columns from general to specific");
    assert_eq!(
        with(json!(["a", "a2", "a"])),
        "data: `ranks` is [`a`, `a2`, `a`] with `a` twice; expected each rank once"
    );
    assert_eq!(with(json!(["a", ""])), "data: `ranks` is [`a`, ``]; expected names of columns, none of them empty");
    let place = format!("data: line 1 of `{}`: ", path.display());
    assert_eq!(with(json!(["a", "genus"])), format!("{place}no column `genus`; expected one of image, a, b, a2, b"));
    assert_eq!(with(json!(["a", "b"])), format!("{place}column `b` twice; expected one of image, a, b, a2, b"));
    let error = message(&spec("taxon_table", &path, json!({"ranks": ["a"], "image": "photo"})));
    assert!(error.contains("no column `photo`"), "{error}");

    // The cycle is A > B (line 2), B > C (line 3), C > A (line 5). E is below the cycle and not on it.
    let path = folder.write("c.csv", "image,r,s\n1,A,B\n2,B,C\n3,B,C\n4,C,A\n5,C,E\n6,E,F\n7,Z,A\n");
    let error = message(&spec("taxon_table", &path, json!({"ranks": ["r", "s"]})));
    for (link, line) in [("`A` > `B`", 2), ("`B` > `C`", 3), ("`C` > `A`", 5)] {
        assert!(error.contains(&format!("{link} (line {line} of `{}`)", path.display())), "{error}");
    }
    assert!(error.starts_with("data: hierarchy: a cycle, ") && error.ends_with("; expected no cycle"), "{error}");
    assert!(!error.contains("`E`") && !error.contains("`Z`"), "{error}");
    let path = folder.write("d.csv", "image,r,s,t\n1,A,B,A\n2,A,A,B\n");
    let source = open(&spec("taxon_table", &path, json!({"ranks": ["r", "s", "t"]}))).unwrap();
    assert!(source.get(0).unwrap_err().detail.ends_with("`A` is above itself in A > B > A; expected no cycle"));
    assert_eq!(source.get(1).unwrap().taxon, ["A", "A", "B"]);
}

#[test]
fn birds_as_published() {
    let Some(path) = shared_data("birds525/index.tsv") else { return };
    let ranks = ["kingdom", "phylum", "class", "order", "family", "genus", "species"];
    let source = open(&spec("taxon_table", &path, json!({"image": "file", "ranks": ranks, "label": "label"}))).unwrap();
    let one = source.get(0).unwrap();
    let expected = ["Animalia", "Chordata", "Aves", "Passeriformes", "Pellorneidae", "Malacocincla", "abbotti"];
    assert_eq!((one.taxon, one.label.as_deref()), (expected.map(str::to_owned).to_vec(), Some("ABBOTTS BABBLER")));
    assert!(matches!(one.image, Some(ImageRef::File(path)) if path.is_file()));
    assert_eq!((0..source.len()).filter(|&it| source.get(it).is_err()).count(), 0);

    // The same photos, joined with the eBird taxonomy by their common names.
    let joined = json!({"image": "file", "ranks": ["order", "familySciName", "sciName"],
        "taxonomy": "ebird_taxonomy.csv", "key": "common_name", "taxonomy_key": "comName"});
    let other = open(&spec("taxon_table", &path, joined)).unwrap();
    assert_eq!(other.get(0).unwrap().taxon, ["Passeriformes", "Pellorneidae", "Malacocincla abbotti"]);
    assert_eq!((0..other.len()).filter(|&it| other.get(it).is_err()).count(), 0);
}

/// Two birds have the epithet "abbotti"; their ranks give a tree without an edge file.
#[test]
fn species_labels_are_binomials() {
    let folder = FixtureFolder::new();
    let rows = "file,genus,species,common\n1.jpg,Malacocincla,abbotti,Babbler\n2.jpg,Papasula,abbotti,Booby\n";
    let path = folder.write("birds.csv", rows);
    let labels = |options: serde_json::Value| {
        let source = open(&spec("taxon_table", &path, options)).unwrap();
        let labels: Vec<_> = (0..source.len()).map(|it| source.get(it).unwrap().label.unwrap()).collect();
        (labels, source.class_tree().unwrap())
    };
    // The list of ranks may also be a string with names separated by commas.
    for ranks in [json!("genus, species"), json!(["genus", "species"])] {
        let (found, tree) = labels(json!({"image": "file", "ranks": ranks}));
        assert_eq!(found, ["Malacocincla abbotti", "Papasula abbotti"]);
        let parent = tree.parent(tree.get("Papasula abbotti").unwrap()).unwrap();
        assert_eq!(tree.name(parent), "Papasula");
    }
    let (found, tree) = labels(json!({"image": "file", "ranks": "genus,species", "label": "common"}));
    assert_eq!(found, ["Babbler", "Booby"]);
    assert!(tree.is_leaf(tree.get("Booby").unwrap()));
    // One species name includes the genus, and one is in capitals.
    let path = folder.write("b.csv", "image,Genus,Species\n1.jpg,Turdus,Turdus merula\n2.jpg,SULA,NEBOUXII\n");
    let source = open(&spec("taxon_table", &path, json!({"ranks": "Genus,Species"}))).unwrap();
    let labels: Vec<_> = (0..2).map(|it| source.get(it).unwrap().label.unwrap()).collect();
    assert_eq!(labels, ["Turdus merula", "SULA NEBOUXII"]);
    let message = message(&spec("taxon_table", &path, json!({"ranks": 7})));
    assert!(message.contains("a list of names, or names separated by commas"), "{message}");
}

const CATEGORY: &str = r#"{"id": 7, "kingdom": "Animalia", "phylum": "Chordata", "class": "Aves", "order": "Passeriformes",
    "family": "Turdidae", "genus": "Turdus", "specific_epithet": "merula", "name": "Turdus merula",
    "common_name": "Common Blackbird"}"#;

#[test]
fn inat_json() {
    let folder = FixtureFolder::new();
    let images = r#"{"id": 1, "file_name": "val/x/1.jpg"}, {"id": 2, "file_name": "val/x/2.jpg"}, {"id": 3, "file_name": "val/x/3.jpg"}"#;
    let annotations = r#"{"image_id": 1, "category_id": 7}, {"image_id": 2, "category_id": 8}"#;
    let text = format!("{{\"images\": [{images}], \"annotations\": [{annotations}], \"categories\": [{CATEGORY}]}}");
    let path = folder.write("val.json", &text);
    let source = open(&spec("inat_json", &path, json!({}))).unwrap();
    assert_eq!((source.len(), source.views()), (3, &[View::Photo, View::Chain][..]));
    let one = source.get(0).unwrap();
    assert_eq!(one.common_name.as_deref(), Some("Common Blackbird"));
    assert_eq!(one.taxon, ["Animalia", "Chordata", "Aves", "Passeriformes", "Turdidae", "Turdus", "merula"]);
    assert_eq!(one.label.as_deref(), Some("Turdus merula"));
    assert_eq!(one.image, Some(ImageRef::File(folder.path().join("val/x/1.jpg"))));
    let fault = |index: usize| source.get(index).unwrap_err().detail;
    let place = |id: u32| format!("image {id} of `{}`: ", path.display());
    assert_eq!(fault(1), place(2) + "category 8; expected one of the 1 categories");
    assert_eq!(fault(2), place(3) + "no annotation; expected one with a category");

    let text = message(&spec("inat_json", folder.write("a.json", text.replace("phylum", "phyla")), json!({})));
    assert!(text.contains("missing field `phylum` at line 3"), "{text}");
}

#[test]
fn inat_folders() {
    let folder = FixtureFolder::new();
    let names = "00007_Animalia_Arthropoda_Arachnida_Araneae_Araneidae_Agalenatea_redii";
    folder.write(&format!("val/{names}/1.jpg"), jpeg(4, 4));
    folder.write("val/spiders/2.jpg", jpeg(4, 4));
    let mut val = spec("inat_folders", folder.path(), json!({}));
    val.split = Some("val".to_owned());
    let source = open(&val).unwrap();
    let one = source.get(0).unwrap();
    assert_eq!((one.taxon.len(), one.label.as_deref()), (7, Some("Agalenatea redii")));
    assert_eq!(one.taxon.join("_"), names.split_once('_').unwrap().1);
    let fault = source.get(1).unwrap_err();
    assert_eq!(fault.detail, "folder `spiders`; expected NNNNN_Kingdom_Phylum_Class_Order_Family_Genus_species");
    assert_eq!((fault.cause, &*fault.sample), (Cause::BadRecord, "spiders/2.jpg"));

    // A JSON file without categories gives the same taxon.
    let json = format!("{{\"images\": [{{\"id\": 1, \"file_name\": \"val/{names}/1.jpg\"}}]}}");
    let source = open(&spec("inat_json", folder.write("test.json", json), json!({}))).unwrap();
    assert_eq!(source.get(0).unwrap().taxon, one.taxon);
}

#[test]
fn inat_as_published() {
    let Some(path) = shared_data("taxonomy/inat2021_classes0-99/val_20.json") else { return };
    let source = open(&spec("inat_json", path, json!({}))).unwrap();
    let labels: std::collections::BTreeSet<_> = (0..source.len()).map(|it| source.get(it).unwrap().label).collect();
    assert_eq!((source.len(), labels.len()), (1200, 100));
}

#[test]
fn tree_of_life() {
    let folder = FixtureFolder::new();
    let photo = jpeg(8, 8);
    let taxon = "Animalia Chordata Aves Passeriformes Turdidae Turdus merula";
    let sentence = format!("a photo of {taxon} merula with common name Blackbird.");
    let path = folder.shard(&[
        ("a", &[("jpg", &photo), ("taxonomic_name.txt", taxon.as_bytes()), ("com.txt", b"a photo of Blackbird.\n")]),
        ("b", &[("jpg", &photo), ("taxon.txt", sentence.as_bytes())]),
        ("c", &[("jpg", &photo), ("taxon.txt", b"a photo of Animalia Chordata.")]),
        ("d", &[("jpg", &photo), ("taxon.txt", b"a photo of .")]),
        ("e", &[("jpg", &photo), ("sci.txt", b"a photo of Turdus merula.")]),
    ]);
    let tags = b"a photo of kingdom Animalia phylum Chordata class Aves order Passeriformes family Turdidae genus Turdus species merula.";
    let gap = b"a photo of kingdom Animalia phylum Chordata family Turdidae genus Turdus species merula.";
    let other = FixtureFolder::new();
    let tagged = other.shard(&[
        ("a", &[("jpg", &photo), ("taxontag.txt", &tags[..]), ("taxonomic_name.txt", b"Animalia")]),
        ("b", &[("jpg", &photo), ("taxontag.txt", &gap[..]), ("common_name.txt", b"blackbird\n")]),
        ("c", &[("jpg", &photo), ("taxontag.txt", b"a photo of Turdus."), ("taxonomic_name.txt", taxon.as_bytes())]),
        (
            "d",
            &[("jpg", &photo), ("taxontag.txt", b"a photo of kingdom Animalia family Turdidae genus Turdus species .")],
        ),
        ("e", &[("jpg", &photo), ("taxontag.txt", b"a photo of kingdom phylum class order family genus species.")]),
    ]);
    let tagged = open(&spec("tree_of_life", &tagged, json!({}))).unwrap();
    let names = |index: usize| tagged.get(index).unwrap().taxon.join(" ");
    assert_eq!([names(0), names(1), names(2)], [taxon, "Animalia Chordata Turdidae Turdus merula", taxon]);
    let gap = tagged.get(1).unwrap();
    assert_eq!(
        gap.missing_ranks.iter().map(|it| (it.position, &*it.name)).collect::<Vec<_>>(),
        [(2, "class"), (3, "order")]
    );
    assert_eq!((gap.label.as_deref(), gap.common_name.as_deref()), (Some("Turdus merula"), Some("blackbird")));
    let above = tagged.get(3).unwrap();
    assert_eq!((above.taxon.len(), above.missing_ranks.len(), above.label.as_deref()), (3, 4, Some("Turdus")));
    let none = tagged.get(4).unwrap_err();
    assert_eq!(none.cause, Cause::NoChain);
    assert!(tagged.get(0).unwrap().missing_ranks.is_empty() && tagged.get(0).unwrap().common_name.is_none());

    let source = open(&spec("tree_of_life", &path, json!({}))).unwrap();
    assert_eq!((source.len(), source.views()), (5, &[View::Pair, View::Chain][..]));
    let one = source.get(0).unwrap();
    assert_eq!((one.taxon.join(" "), one.label.as_deref()), (taxon.to_owned(), Some("Turdus merula")));
    assert_eq!(one.captions, ["a photo of Blackbird."]);
    let two = source.get(1).unwrap();
    assert_eq!((two.taxon.len(), &*two.taxon[6], two.captions), (7, "merula merula", vec![sentence]));
    let three = source.get(2).unwrap();
    assert_eq!((three.taxon.len(), three.label.as_deref()), (2, Some("Chordata")));
    let fault = source.get(3).unwrap_err();
    assert_eq!(fault.cause, Cause::NoChain);
    assert!(fault.detail.starts_with("taxon is \"a photo of .\"; expected names"), "{fault}");
    assert!(source.get(4).unwrap_err().detail.contains("expected `.taxon.txt`"));
}
