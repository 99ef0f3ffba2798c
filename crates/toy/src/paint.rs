//! Rasterises scenes.

use conifer_data::Picture;
use tiny_skia::{Color, Paint, PathBuilder, Pixmap, PixmapMut, Shader, Transform};

use super::backdrop::{Background, Ground};
use super::classes::Habitat;
use super::figure::Tint;
use super::palette::{Rgb, SHADE};
use super::scene::{RelationKind, Scene, SceneObject};
use super::shape::RULE;
use super::vista;

/// Renders a scene at `resolution` x `resolution` pixels (at least 1 x 1).
pub fn render(scene: &Scene, resolution: u32) -> Picture {
    draw(scene, resolution, |canvas| vista::paint(canvas, scene.background, scene.variant))
}

/// Renders the objects of a scene over the background that `backdrop` paints.
pub(super) fn draw(scene: &Scene, resolution: u32, backdrop: impl FnOnce(&mut PixmapMut<'_>)) -> Picture {
    let side = resolution.max(1);
    let Some(mut canvas) = Pixmap::new(side, side) else {
        // Reached only if the picture exceeds the address space. `ToyWorld::new` rejects such resolutions.
        return Picture { width: 0, height: 0, rgb: Vec::new() };
    };
    backdrop(&mut canvas.as_mut());
    for index in painting_order(scene) {
        draw_object(&mut canvas.as_mut(), scene, &scene.objects[index]);
    }
    // All pixels are opaque, so premultiplied values equal plain values.
    let rgb = canvas.pixels().iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    Picture { width: side, height: side, rgb }
}

/// Order in which objects are painted, farthest first. An object whose foot is lower in the picture is nearer. An
/// object that sits on another object is painted directly after that object.
pub(super) fn painting_order(scene: &Scene) -> Vec<usize> {
    let foot = |index: usize| {
        let support = scene
            .relations
            .iter()
            .find(|r| {
                (r.kind == RelationKind::On && r.subject == index)
                    || (r.kind == RelationKind::Under && r.object == index)
            })
            .map(|r| r.subject + r.object - index);
        let base = scene.objects[support.unwrap_or(index)].bounds.y2;
        (base, support.is_some())
    };
    let mut order: Vec<usize> = (0..scene.objects.len()).collect();
    order.sort_by(|&a, &b| {
        let ((base_a, sits_a), (base_b, sits_b)) = (foot(a), foot(b));
        base_a.total_cmp(&base_b).then(sits_a.cmp(&sits_b))
    });
    order
}

fn draw_object(canvas: &mut PixmapMut<'_>, scene: &Scene, object: &SceneObject) {
    let Some(figure) = object.class.figure() else {
        return;
    };
    let side = canvas.width() as f32;
    let b = object.bounds;
    let (middle, half) = ((b.x1 + b.x2) / 2.0, (b.x2 - b.x1) / 2.0);
    let ground = scene.background.ground();
    let grounded = object.class.habitat() != Habitat::Air;
    let sits = scene.objects.iter().any(|other| object.relates(RelationKind::On, other));
    if grounded && !sits && matches!(ground, Ground::Firm(_)) {
        let shadow = if scene.background == Background::Night { Rgb(14, 16, 36) } else { SHADE };
        oval(canvas, [middle, b.y2 - 0.006, half * 0.98, half * 0.12 + 0.008], shadow, 0.26);
    }
    let (lean, share) = scene.background.rim();
    let body = object.colour.rgb();
    let tint = Tint { body, rim: body.mix(lean, share) };
    let bounds = [b.x1, b.y1, b.x2, b.y2].map(|v| v * side);
    figure.paint(canvas, bounds, object.flip, tint);
    if grounded && !sits && matches!(ground, Ground::Water(_)) {
        oval(canvas, [middle, b.y2 - 0.004, half * 0.9, 0.014], Rgb(176, 220, 238), 0.75);
    }
}

/// Fills an ellipse given by centre and radii, in fractions of the picture.
fn oval(canvas: &mut PixmapMut<'_>, [x, y, rx, ry]: [f32; 4], Rgb(r, g, b): Rgb, alpha: f32) {
    let mut path = PathBuilder::new();
    path.push_circle(0.0, 0.0, 1.0);
    let Some(path) = path.finish() else { return };
    let side = canvas.width() as f32;
    let paint =
        Paint { shader: Shader::SolidColor(Color::from_rgba8(r, g, b, (alpha * 255.0) as u8)), ..Paint::default() };
    let place = Transform::from_row(rx * side, 0.0, 0.0, ry * side, x * side, y * side);
    canvas.fill_path(&path, &paint, RULE, place, None);
}
