//! Sets of photos with boxes, which leave out boxes as the evaluations do.

use super::*;

/// The text of each phrase of the first sample.
fn texts(source: &dyn Source) -> Vec<String> {
    source.get(0).unwrap().phrases.into_iter().map(|it| it.text).collect()
}

#[test]
fn voc_detection() {
    let folder = FixtureFolder::new();
    let base = "voc_detection/VOCdevkit/VOC2007";
    folder.write(&format!("{base}/JPEGImages/000001.jpg"), jpeg(100, 50));
    let object = |name: &str, difficult: u8| {
        format!(
            "<object><name>{name}</name><difficult>{difficult}</difficult>\
             <bndbox><xmin>1</xmin><ymin>1</ymin><xmax>50</xmax><ymax>50</ymax></bndbox></object>"
        )
    };
    let size = "<size><width>100</width><height>50</height></size>";
    let page = format!("<annotation>{size}{}{}</annotation>", object("dog", 0), object("cat", 1));
    folder.write(&format!("{base}/Annotations/000001.xml"), page);
    folder.write(&format!("{base}/ImageSets/Main/test.txt"), "000001\n");
    let source = open(&folder, "voc_detection").unwrap();
    assert_eq!((source.len(), source.complete(), texts(source.as_ref())), (1, Some(4952), vec!["dog".to_owned()]));
    assert_eq!(source.left_out().unwrap(), "without 1 boxes that the options of the importer leave out");
}

#[test]
fn openimages_parts() {
    let folder = FixtureFolder::new();
    folder.write("openimages_parts/test/a.jpg", jpeg(100, 50));
    let rows = [
        "ImageID,LabelName,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside",
        "a,/m/1,0,0.5,0,0.5,0,0,1,0,1",
        "a,/m/1,0,0.5,0,0.5,1,0,0,0,0",
        "a,/m/1,0,0.5,0,0.5,0,1,0,0,0",
        "a,/m/1,0,0.5,0,0.5,0,0,0,1,0",
        "a,/m/1,0,0.09,0,0.1,0,0,0,0,0",
        "a,/m/1,0,1,0,0.91,0,0,0,0,0",
    ];
    folder.write("openimages_parts/test-annotations-bbox.csv", rows.join("\n"));
    folder.write("openimages_parts/class-descriptions-boxable.csv", "/m/1,Dog\n");
    let source = open(&folder, "openimages_parts").unwrap();
    assert_eq!(texts(source.as_ref()), ["Dog"]);
    assert_eq!(source.left_out().unwrap(), "without 5 boxes that the options of the importer leave out");
}
