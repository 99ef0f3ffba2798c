//! The claims that the program contains.

/// Names and TOML of the claims, in alphabetical order. A test compares the list with the folder.
pub(super) const CLAIMS: &[(&str, &str)] = &[
    (
        "argent/coco-classes-better-than-hycoclip",
        include_str!("../../../claims/argent/coco-classes-better-than-hycoclip.toml"),
    ),
    (
        "argent/coco-photos-found-better-than-hycoclip",
        include_str!("../../../claims/argent/coco-photos-found-better-than-hycoclip.toml"),
    ),
    (
        "argent/entailment-of-photos-over-hycoclip",
        include_str!("../../../claims/argent/entailment-of-photos-over-hycoclip.toml"),
    ),
    (
        "argent/entailment-of-texts-over-hycoclip",
        include_str!("../../../claims/argent/entailment-of-texts-over-hycoclip.toml"),
    ),
    (
        "euclip/coco-photos-found-as-well-as-clip",
        include_str!("../../../claims/euclip/coco-photos-found-as-well-as-clip.toml"),
    ),
    (
        "euclip/orders-phrases-as-well-as-meru",
        include_str!("../../../claims/euclip/orders-phrases-as-well-as-meru.toml"),
    ),
    ("hierarcaps/four-tiers-over-three", include_str!("../../../claims/hierarcaps/four-tiers-over-three.toml")),
    (
        "hierarcaps/hyperlex-four-tiers-over-three",
        include_str!("../../../claims/hierarcaps/hyperlex-four-tiers-over-three.toml"),
    ),
    ("hierarcaps/hyperlex-negatives-help", include_str!("../../../claims/hierarcaps/hyperlex-negatives-help.toml")),
    ("hierarcaps/hyperlex-over-clip", include_str!("../../../claims/hierarcaps/hyperlex-over-clip.toml")),
    (
        "hierarcaps/hyperlex-text-root-over-origin",
        include_str!("../../../claims/hierarcaps/hyperlex-text-root-over-origin.toml"),
    ),
    (
        "hierarcaps/moving-root-is-close-to-fixed",
        include_str!("../../../claims/hierarcaps/moving-root-is-close-to-fixed.toml"),
    ),
    ("hierarcaps/negatives-raise-recall", include_str!("../../../claims/hierarcaps/negatives-raise-recall.toml")),
    ("hierarcaps/order-beats-length", include_str!("../../../claims/hierarcaps/order-beats-length.toml")),
    (
        "hierarcaps/order-beats-length-for-equal-lengths",
        include_str!("../../../claims/hierarcaps/order-beats-length-for-equal-lengths.toml"),
    ),
    ("hierarcaps/order-over-clip", include_str!("../../../claims/hierarcaps/order-over-clip.toml")),
    (
        "hierarcaps/order-text-root-over-origin",
        include_str!("../../../claims/hierarcaps/order-text-root-over-origin.toml"),
    ),
    ("hierarcaps/precision-over-clip", include_str!("../../../claims/hierarcaps/precision-over-clip.toml")),
    ("hierarcaps/radial-loss-over-cones", include_str!("../../../claims/hierarcaps/radial-loss-over-cones.toml")),
    (
        "hierarcaps/radial-loss-over-cones-with-margin",
        include_str!("../../../claims/hierarcaps/radial-loss-over-cones-with-margin.toml"),
    ),
    ("hierarcaps/recall-over-clip", include_str!("../../../claims/hierarcaps/recall-over-clip.toml")),
    (
        "hierarcaps/regulariser-keeps-retrieval",
        include_str!("../../../claims/hierarcaps/regulariser-keeps-retrieval.toml"),
    ),
    ("hierarcaps/retrieval-is-kept", include_str!("../../../claims/hierarcaps/retrieval-is-kept.toml")),
    ("hierarcaps/root-alone-is-not-enough", include_str!("../../../claims/hierarcaps/root-alone-is-not-enough.toml")),
    ("hierarcaps/text-root-over-mean", include_str!("../../../claims/hierarcaps/text-root-over-mean.toml")),
    ("hierarcaps/text-root-over-origin", include_str!("../../../claims/hierarcaps/text-root-over-origin.toml")),
    ("hycoclip/boxes-above-photos", include_str!("../../../claims/hycoclip/boxes-above-photos.toml")),
    (
        "hycoclip/boxes-above-photos-with-heavier-cones",
        include_str!("../../../claims/hycoclip/boxes-above-photos-with-heavier-cones.toml"),
    ),
    (
        "hycoclip/boxes-above-photos-with-published-temperature",
        include_str!("../../../claims/hycoclip/boxes-above-photos-with-published-temperature.toml"),
    ),
    ("hycoclip/boxes-do-not-help-clip", include_str!("../../../claims/hycoclip/boxes-do-not-help-clip.toml")),
    ("hycoclip/boxes-do-not-help-meru", include_str!("../../../claims/hycoclip/boxes-do-not-help-meru.toml")),
    ("hycoclip/captions-above-photos", include_str!("../../../claims/hycoclip/captions-above-photos.toml")),
    (
        "hycoclip/captions-above-photos-with-heavier-cones",
        include_str!("../../../claims/hycoclip/captions-above-photos-with-heavier-cones.toml"),
    ),
    (
        "hycoclip/captions-found-worse-than-clip",
        include_str!("../../../claims/hycoclip/captions-found-worse-than-clip.toml"),
    ),
    ("hycoclip/coco-boxes-do-not-help-clip", include_str!("../../../claims/hycoclip/coco-boxes-do-not-help-clip.toml")),
    ("hycoclip/coco-boxes-do-not-help-meru", include_str!("../../../claims/hycoclip/coco-boxes-do-not-help-meru.toml")),
    (
        "hycoclip/coco-captions-found-better-than-clip",
        include_str!("../../../claims/hycoclip/coco-captions-found-better-than-clip.toml"),
    ),
    (
        "hycoclip/coco-classes-better-than-clip",
        include_str!("../../../claims/hycoclip/coco-classes-better-than-clip.toml"),
    ),
    (
        "hycoclip/coco-classes-better-than-meru",
        include_str!("../../../claims/hycoclip/coco-classes-better-than-meru.toml"),
    ),
    (
        "hycoclip/coco-errors-nearer-than-clip",
        include_str!("../../../claims/hycoclip/coco-errors-nearer-than-clip.toml"),
    ),
    (
        "hycoclip/coco-errors-nearer-than-meru",
        include_str!("../../../claims/hycoclip/coco-errors-nearer-than-meru.toml"),
    ),
    (
        "hycoclip/coco-photos-found-better-than-clip",
        include_str!("../../../claims/hycoclip/coco-photos-found-better-than-clip.toml"),
    ),
    (
        "hycoclip/coco-photos-found-better-than-meru",
        include_str!("../../../claims/hycoclip/coco-photos-found-better-than-meru.toml"),
    ),
    ("hycoclip/cone-of-meru", include_str!("../../../claims/hycoclip/cone-of-meru.toml")),
    ("hycoclip/cones-of-photos-matter-most", include_str!("../../../claims/hycoclip/cones-of-photos-matter-most.toml")),
    ("hycoclip/meru-captions-above-photos", include_str!("../../../claims/hycoclip/meru-captions-above-photos.toml")),
    (
        "hycoclip/narrow-cones-between-modalities",
        include_str!("../../../claims/hycoclip/narrow-cones-between-modalities.toml"),
    ),
    ("hycoclip/no-gain-from-larger-batches", include_str!("../../../claims/hycoclip/no-gain-from-larger-batches.toml")),
    ("hycoclip/order-of-phrases-over-clip", include_str!("../../../claims/hycoclip/order-of-phrases-over-clip.toml")),
    (
        "hycoclip/photos-found-better-than-clip",
        include_str!("../../../claims/hycoclip/photos-found-better-than-clip.toml"),
    ),
    (
        "hycoclip/photos-found-better-than-meru",
        include_str!("../../../claims/hycoclip/photos-found-better-than-meru.toml"),
    ),
    ("hycoclip/phrases-above-captions", include_str!("../../../claims/hycoclip/phrases-above-captions.toml")),
    ("hycoclip/term-cone-box-photo", include_str!("../../../claims/hycoclip/term-cone-box-photo.toml")),
    ("hycoclip/term-cone-caption-photo", include_str!("../../../claims/hycoclip/term-cone-caption-photo.toml")),
    ("hycoclip/term-cone-phrase-box", include_str!("../../../claims/hycoclip/term-cone-phrase-box.toml")),
    ("hycoclip/term-cone-phrase-caption", include_str!("../../../claims/hycoclip/term-cone-phrase-caption.toml")),
    (
        "hycoclip/term-contrast-box-to-caption",
        include_str!("../../../claims/hycoclip/term-contrast-box-to-caption.toml"),
    ),
    (
        "hycoclip/term-contrast-caption-to-photo",
        include_str!("../../../claims/hycoclip/term-contrast-caption-to-photo.toml"),
    ),
    (
        "hycoclip/term-contrast-photo-to-caption",
        include_str!("../../../claims/hycoclip/term-contrast-photo-to-caption.toml"),
    ),
    (
        "hycoclip/term-contrast-phrase-to-photo",
        include_str!("../../../claims/hycoclip/term-contrast-phrase-to-photo.toml"),
    ),
    ("hycoclip/toy-boxes-above-photos", include_str!("../../../claims/hycoclip/toy-boxes-above-photos.toml")),
    (
        "hycoclip/toy-photos-found-better-than-clip",
        include_str!("../../../claims/hycoclip/toy-photos-found-better-than-clip.toml"),
    ),
    ("phyclip/boxes-above-photos", include_str!("../../../claims/phyclip/boxes-above-photos.toml")),
    ("phyclip/boxes-do-not-help-clip", include_str!("../../../claims/phyclip/boxes-do-not-help-clip.toml")),
    ("phyclip/boxes-do-not-help-meru", include_str!("../../../claims/phyclip/boxes-do-not-help-meru.toml")),
    ("phyclip/captions-above-photos", include_str!("../../../claims/phyclip/captions-above-photos.toml")),
    (
        "phyclip/coco-captions-found-better-than-hycoclip",
        include_str!("../../../claims/phyclip/coco-captions-found-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/coco-classes-better-than-clip",
        include_str!("../../../claims/phyclip/coco-classes-better-than-clip.toml"),
    ),
    (
        "phyclip/coco-classes-better-than-hycoclip",
        include_str!("../../../claims/phyclip/coco-classes-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/coco-classes-better-than-meru",
        include_str!("../../../claims/phyclip/coco-classes-better-than-meru.toml"),
    ),
    ("phyclip/coco-eight-factors-over-one", include_str!("../../../claims/phyclip/coco-eight-factors-over-one.toml")),
    ("phyclip/coco-errors-nearer-than-clip", include_str!("../../../claims/phyclip/coco-errors-nearer-than-clip.toml")),
    (
        "phyclip/coco-errors-nearer-than-hycoclip",
        include_str!("../../../claims/phyclip/coco-errors-nearer-than-hycoclip.toml"),
    ),
    ("phyclip/coco-errors-nearer-than-meru", include_str!("../../../claims/phyclip/coco-errors-nearer-than-meru.toml")),
    ("phyclip/coco-factors-classify-better", include_str!("../../../claims/phyclip/coco-factors-classify-better.toml")),
    ("phyclip/coco-l1-over-l2", include_str!("../../../claims/phyclip/coco-l1-over-l2.toml")),
    (
        "phyclip/coco-photos-found-better-than-clip",
        include_str!("../../../claims/phyclip/coco-photos-found-better-than-clip.toml"),
    ),
    (
        "phyclip/coco-photos-found-better-than-hycoclip",
        include_str!("../../../claims/phyclip/coco-photos-found-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/coco-photos-found-better-than-meru",
        include_str!("../../../claims/phyclip/coco-photos-found-better-than-meru.toml"),
    ),
    (
        "phyclip/coco-sixty-four-factors-over-one",
        include_str!("../../../claims/phyclip/coco-sixty-four-factors-over-one.toml"),
    ),
    ("phyclip/eight-factors-over-one", include_str!("../../../claims/phyclip/eight-factors-over-one.toml")),
    ("phyclip/l1-over-l2", include_str!("../../../claims/phyclip/l1-over-l2.toml")),
    ("phyclip/l2-finds-captions-better", include_str!("../../../claims/phyclip/l2-finds-captions-better.toml")),
    (
        "phyclip/orders-boxes-better-than-hycoclip",
        include_str!("../../../claims/phyclip/orders-boxes-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/photos-found-better-than-clip",
        include_str!("../../../claims/phyclip/photos-found-better-than-clip.toml"),
    ),
    (
        "phyclip/photos-found-better-than-hycoclip",
        include_str!("../../../claims/phyclip/photos-found-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/photos-found-better-than-meru",
        include_str!("../../../claims/phyclip/photos-found-better-than-meru.toml"),
    ),
    (
        "phyclip/replaced-attributes-better-than-clip",
        include_str!("../../../claims/phyclip/replaced-attributes-better-than-clip.toml"),
    ),
    (
        "phyclip/replaced-attributes-better-than-hycoclip",
        include_str!("../../../claims/phyclip/replaced-attributes-better-than-hycoclip.toml"),
    ),
    (
        "phyclip/replaced-objects-better-than-clip",
        include_str!("../../../claims/phyclip/replaced-objects-better-than-clip.toml"),
    ),
    (
        "phyclip/replaced-objects-better-than-hycoclip",
        include_str!("../../../claims/phyclip/replaced-objects-better-than-hycoclip.toml"),
    ),
    ("phyclip/sixty-four-factors-over-one", include_str!("../../../claims/phyclip/sixty-four-factors-over-one.toml")),
    ("phyclip/toy-eight-factors-over-one", include_str!("../../../claims/phyclip/toy-eight-factors-over-one.toml")),
    ("rcme/alignment-over-prior", include_str!("../../../claims/rcme/alignment-over-prior.toml")),
    (
        "rcme/atmg-orders-tiers-better-than-meru",
        include_str!("../../../claims/rcme/atmg-orders-tiers-better-than-meru.toml"),
    ),
    (
        "rcme/clip-orders-tiers-better-than-meru",
        include_str!("../../../claims/rcme/clip-orders-tiers-better-than-meru.toml"),
    ),
    ("rcme/cousins-over-random-negatives", include_str!("../../../claims/rcme/cousins-over-random-negatives.toml")),
    ("rcme/family-from-taxon-like-clip", include_str!("../../../claims/rcme/family-from-taxon-like-clip.toml")),
    ("rcme/family-over-clip", include_str!("../../../claims/rcme/family-over-clip.toml")),
    ("rcme/fewer-violations-than-clip", include_str!("../../../claims/rcme/fewer-violations-than-clip.toml")),
    ("rcme/genus-over-clip", include_str!("../../../claims/rcme/genus-over-clip.toml")),
    ("rcme/global-term", include_str!("../../../claims/rcme/global-term.toml")),
    ("rcme/hard-over-random-negatives", include_str!("../../../claims/rcme/hard-over-random-negatives.toml")),
    ("rcme/hycoclip-orders-tiers-like-clip", include_str!("../../../claims/rcme/hycoclip-orders-tiers-like-clip.toml")),
    (
        "rcme/hycoclip-with-heavier-cones-orders-tiers",
        include_str!("../../../claims/rcme/hycoclip-with-heavier-cones-orders-tiers.toml"),
    ),
    ("rcme/order-from-taxon-like-clip", include_str!("../../../claims/rcme/order-from-taxon-like-clip.toml")),
    ("rcme/order-over-clip", include_str!("../../../claims/rcme/order-over-clip.toml")),
    ("rcme/order-over-radial", include_str!("../../../claims/rcme/order-over-radial.toml")),
    ("rcme/orders-ranks-better-than-clip", include_str!("../../../claims/rcme/orders-ranks-better-than-clip.toml")),
    ("rcme/orders-ranks-better-than-radial", include_str!("../../../claims/rcme/orders-ranks-better-than-radial.toml")),
    ("rcme/similar-photos-better-than-clip", include_str!("../../../claims/rcme/similar-photos-better-than-clip.toml")),
    ("rcme/species-over-clip", include_str!("../../../claims/rcme/species-over-clip.toml")),
    ("rcme/species-over-radial", include_str!("../../../claims/rcme/species-over-radial.toml")),
    ("rcme/unseen-family-over-clip", include_str!("../../../claims/rcme/unseen-family-over-clip.toml")),
    ("rcme/unseen-genus-over-clip", include_str!("../../../claims/rcme/unseen-genus-over-clip.toml")),
    ("rcme/unseen-order-over-clip", include_str!("../../../claims/rcme/unseen-order-over-clip.toml")),
    (
        "uncha/coco-classes-better-than-hycoclip",
        include_str!("../../../claims/uncha/coco-classes-better-than-hycoclip.toml"),
    ),
    (
        "uncha/coco-photos-found-better-than-hycoclip",
        include_str!("../../../claims/uncha/coco-photos-found-better-than-hycoclip.toml"),
    ),
    (
        "visual-hierarchies/coco-cross-image-pairs-help-children",
        include_str!("../../../claims/visual-hierarchies/coco-cross-image-pairs-help-children.toml"),
    ),
    (
        "visual-hierarchies/coco-cross-image-pairs-help-parents",
        include_str!("../../../claims/visual-hierarchies/coco-cross-image-pairs-help-parents.toml"),
    ),
    (
        "visual-hierarchies/coco-hyperbolic-finds-children",
        include_str!("../../../claims/visual-hierarchies/coco-hyperbolic-finds-children.toml"),
    ),
    (
        "visual-hierarchies/coco-hyperbolic-finds-parents",
        include_str!("../../../claims/visual-hierarchies/coco-hyperbolic-finds-parents.toml"),
    ),
    (
        "visual-hierarchies/coco-hyperbolic-recall",
        include_str!("../../../claims/visual-hierarchies/coco-hyperbolic-recall.toml"),
    ),
    (
        "visual-hierarchies/coco-training-improves-children",
        include_str!("../../../claims/visual-hierarchies/coco-training-improves-children.toml"),
    ),
    (
        "visual-hierarchies/coco-training-improves-new-head-children",
        include_str!("../../../claims/visual-hierarchies/coco-training-improves-new-head-children.toml"),
    ),
    (
        "visual-hierarchies/coco-training-improves-new-head-parents",
        include_str!("../../../claims/visual-hierarchies/coco-training-improves-new-head-parents.toml"),
    ),
    (
        "visual-hierarchies/coco-training-improves-parents",
        include_str!("../../../claims/visual-hierarchies/coco-training-improves-parents.toml"),
    ),
    (
        "visual-hierarchies/coco-vote-over-euclidean",
        include_str!("../../../claims/visual-hierarchies/coco-vote-over-euclidean.toml"),
    ),
    (
        "visual-hierarchies/cross-image-pairs-help",
        include_str!("../../../claims/visual-hierarchies/cross-image-pairs-help.toml"),
    ),
    (
        "visual-hierarchies/hyperbolic-finds-children",
        include_str!("../../../claims/visual-hierarchies/hyperbolic-finds-children.toml"),
    ),
    (
        "visual-hierarchies/hyperbolic-finds-parents",
        include_str!("../../../claims/visual-hierarchies/hyperbolic-finds-parents.toml"),
    ),
];
