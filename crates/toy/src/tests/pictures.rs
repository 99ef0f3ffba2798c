//! Tests of drawings, boxes and pixels.

use conifer_data::{BBox, ImageRef, Picture};
use tiny_skia::Pixmap;

use super::*;
use crate::figure::Tint;
use crate::palette::Rgb;

/// Bounding box (left, top, right, bottom) of the pixels for which `changed` is true.
fn extent(changed: impl Fn(u32, u32) -> bool, side: u32) -> [u32; 4] {
    let mut extent = [side, side, 0, 0];
    for y in 0..side {
        for x in (0..side).filter(|x| changed(*x, y)) {
            extent = [extent[0].min(x), extent[1].min(y), extent[2].max(x + 1), extent[3].max(y + 1)];
        }
    }
    extent
}

/// Bounding box of one object rendered on a transparent canvas; counts pixels that are at least half covered.
fn alone(object: &SceneObject, side: u32) -> [u32; 4] {
    let mut canvas = Pixmap::new(side, side).unwrap();
    let b = object.bounds;
    let bounds = [b.x1, b.y1, b.x2, b.y2].map(|v| v * side as f32);
    let tint = Tint { body: object.colour.rgb(), rim: Rgb(0, 0, 0) };
    object.class.figure().unwrap().paint(&mut canvas.as_mut(), bounds, object.flip, tint);
    extent(|x, y| canvas.pixel(x, y).unwrap().alpha() > 127, side)
}

#[test]
fn rendering_is_deterministic() {
    let world = world(ToySplit::Train);
    let once: Vec<_> = (0..24).map(|i| world.sample(i)).collect();
    let parallel: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|t| {
                let world = &world;
                scope.spawn(move || (0..6).map(|i| world.sample(4 * i + t)).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (i, sample) in once.iter().enumerate() {
        assert_eq!(*sample, parallel[i % 4][i / 4]);
        let Some(ImageRef::Pixels(picture)) = &sample.image else { unreachable!("the toy world makes pixels") };
        assert_eq!((picture.width, picture.height, picture.rgb.len()), (64, 64, 64 * 64 * 3));
    }
}

#[test]
fn boxes_are_tight() {
    let side = 256;
    let gallery = world(ToySplit::Train).gallery(1).unwrap();
    let every_class = (0..gallery.len()).map(|index| gallery.scene(index));
    for scene in every_class.chain(scenes(ToySplit::Train, 60)) {
        for object in &scene.objects {
            let drawn = alone(object, side);
            let b = object.bounds;
            for (found, truth) in drawn.into_iter().zip([b.x1, b.y1, b.x2, b.y2].map(|v| v * side as f32)) {
                // Half covered pixels are within half a pixel of the outline. Thin tips cover less than half a pixel
                // and end earlier.
                assert!((found as f32 - truth).abs() <= 2.0, "{object:?}: {drawn:?} and {truth}");
            }
        }
    }
}

#[test]
fn objects_change_only_their_box_and_shadow() {
    let side = 128;
    for scene in scenes(ToySplit::Val, 40).filter(|scene| scene.objects.len() == 1) {
        let empty = Scene { objects: Vec::new(), ..scene.clone() };
        let [with, without] = [&scene, &empty].map(|scene| render(scene, side));
        let changed = |x: u32, y: u32| {
            let at = 3 * (y * side + x) as usize;
            with.rgb[at..at + 3] != without.rgb[at..at + 3]
        };
        let b = scene.objects[0].bounds;
        let [x1, y1, x2, y2] = extent(changed, side).map(|v| v as f32 / side as f32);
        let slack = 1.5 / side as f32;
        assert!(x1 >= b.x1 - slack && x2 <= b.x2 + slack && y1 >= b.y1 - slack, "{scene:?}");
        // The shadow's vertical radius is 0.06 of the object's width plus 0.008.
        assert!(y2 <= b.y2 + 0.07 * (b.x2 - b.x1) + 0.02, "{scene:?}");
    }
}

#[test]
fn every_class_has_parts_inside_it() {
    for class in ToyClass::all() {
        let figure = class.figure().unwrap();
        assert!(!figure.parts.is_empty(), "{class:?}");
        for part in &figure.parts {
            part.bounds.check().unwrap();
            assert!(part.name.chars().all(|c| c.is_ascii_lowercase()), "{class:?}: {}", part.name);
        }
    }
}

#[test]
fn parts_are_mirrored_with_their_object() {
    let bounds = BBox { x1: 0.2, y1: 0.4, x2: 0.8, y2: 0.7 };
    let class = ToyClass::named("car").unwrap();
    let wheels = |flip| -> Vec<BBox> {
        let car = SceneObject { class, colour: Colour::Red, size: ObjectSize::Large, flip, bounds };
        car.parts().filter(|(name, _)| *name == "wheel").map(|(_, bounds)| bounds).collect()
    };
    let (right, left) = (wheels(false), wheels(true));
    assert_eq!(right.len(), 2);
    for (a, b) in right.iter().zip(&left) {
        // Mirrored about the middle of the car, x = 0.5.
        assert!((a.x1 + b.x2 - 1.0).abs() < 1e-6 && (a.x2 + b.x1 - 1.0).abs() < 1e-6);
        assert_eq!((a.y1, a.y2), (b.y1, b.y2));
        assert!(a.y1 > 0.55 && a.y2 <= 0.7);
    }
    // The radius of a wheel is 12 sheet units, and the car is 99.6 units wide, rim included. The car is 0.6 wide in the
    // picture, so a wheel is 24 / 99.6 * 0.6 wide.
    assert!((right[0].x2 - right[0].x1 - 0.1446).abs() < 0.003, "{:?}", right[0]);
}

#[test]
fn classes_look_different() {
    let side = 32;
    let portraits: Vec<Picture> = ToyClass::all().map(|class| portrait(class, Colour::Red, side)).collect();
    for (i, a) in portraits.iter().enumerate() {
        for (j, b) in portraits.iter().enumerate().take(i) {
            let total: u64 = a.rgb.iter().zip(&b.rgb).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            let mean = total as f64 / a.rgb.len() as f64;
            // Over all 3,828 pairs, the mean absolute difference (of values from 0 to 255) has the median 39.0. The
            // minimum is 12.2, for rose and daffodil, which have the same stem.
            assert!(mean > 10.0, "{} and {}: {mean}", class_names()[i], class_names()[j]);
        }
    }
}

#[test]
fn colours_look_different() {
    for (i, a) in Colour::ALL.iter().enumerate() {
        for b in &Colour::ALL[..i] {
            let (Rgb(r, g, b1), Rgb(r2, g2, b2)) = (a.rgb(), b.rgb());
            let distance = u32::from(r.abs_diff(r2)) + u32::from(g.abs_diff(g2)) + u32::from(b1.abs_diff(b2));
            assert!(distance > 80, "{a:?} and {b:?}: {distance}");
        }
    }
}

#[test]
fn resolution_does_not_change_the_scene() {
    let scene = world(ToySplit::Train).scene(3);
    let (small, large) = (render(&scene, 32), render(&scene, 128));
    let mut total = 0;
    for y in 0..32_usize {
        for x in 0..32_usize {
            for channel in 0..3 {
                let block = (0..16).map(|i| 3 * ((4 * y + i / 4) * 128 + 4 * x + i % 4) + channel);
                let mean = block.map(|at| u32::from(large.rgb[at])).sum::<u32>() / 16;
                total += mean.abs_diff(u32::from(small.rgb[3 * (32 * y + x) + channel]));
            }
        }
    }
    // Anti-aliasing uses 4 x 4 sub-pixels of a pixel, and the mean is over 4 x 4 pixels, so the coverage is the same up
    // to rounding.
    assert!(f64::from(total) / (32.0 * 32.0 * 3.0) < 2.0, "{total}");
}

#[test]
fn contact_sheet_is_filled_row_by_row() {
    let pixel = |v: u8| Picture { width: 1, height: 1, rgb: vec![v; 3] };
    let sheet = contact_sheet(&[pixel(1), pixel(2), pixel(3)], 2);
    assert_eq!((sheet.width, sheet.height), (2, 2));
    assert_eq!(sheet.rgb, [1, 1, 1, 2, 2, 2, 3, 3, 3, 255, 255, 255]);
}
