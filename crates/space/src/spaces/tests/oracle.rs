//! An independent reference for the hyperboloid, with textbook formulas and no code shared with the code under test.
//! Every point carries its time component, distances use `acosh`, angles use the hyperbolic law of cosines. In `f64`
//! these forms lose all digits for close points with large norms, so they are evaluated in double-double arithmetic
//! (about 32 digits; Dekker 1971, Knuth's two-sum, products by fused multiply-add).

/// The unevaluated sum of two doubles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    high: f64,
    low: f64,
}

impl Wide {
    pub(super) fn of(value: f64) -> Self {
        Wide { high: value, low: 0.0 }
    }

    pub(super) fn to_f64(self) -> f64 {
        self.high + self.low
    }

    pub(super) fn add(self, other: Wide) -> Wide {
        let (sum, error) = two_sum(self.high, other.high);
        let (low, low_error) = two_sum(self.low, other.low);
        let (sum, error) = quick_two_sum(sum, error + low);
        let (high, low) = quick_two_sum(sum, error + low_error);
        Wide { high, low }
    }

    pub(super) fn sub(self, other: Wide) -> Wide {
        self.add(Wide { high: -other.high, low: -other.low })
    }

    pub(super) fn mul(self, other: Wide) -> Wide {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        let (high, low) = quick_two_sum(product, error + (self.high * other.low + self.low * other.high));
        Wide { high, low }
    }

    /// Long division: two quotient digits and one digit of the remainder.
    pub(super) fn div(self, other: Wide) -> Wide {
        let first = self.high / other.high;
        let rest = self.sub(other.mul(Wide::of(first)));
        let second = rest.high / other.high;
        let rest = rest.sub(other.mul(Wide::of(second)));
        Wide::of(first).add(Wide::of(second)).add(Wide::of(rest.high / other.high))
    }

    /// Two Newton steps from the `f64` root; zero for arguments at or below zero.
    pub(super) fn sqrt(self) -> Wide {
        if self.high <= 0.0 {
            return Wide::of(0.0);
        }
        let step = |root: Wide| root.add(self.div(root)).mul(Wide::of(0.5));
        step(step(Wide::of(self.high.sqrt())))
    }
}

/// A point with its time component, at curvature `-c`.
pub(super) struct Point {
    time: Wide,
    space: Vec<Wide>,
}

pub(super) fn point(space: &[f64], c: f64) -> Point {
    let space: Vec<Wide> = space.iter().map(|v| Wide::of(*v)).collect();
    let squares = space.iter().fold(Wide::of(0.0), |sum, v| sum.add(v.mul(*v)));
    Point { time: Wide::of(1.0).div(Wide::of(c)).add(squares).sqrt(), space }
}

/// `<x, y>_L` with explicit time components.
pub(super) fn inner(x: &Point, y: &Point) -> Wide {
    let products = x.space.iter().zip(&y.space).map(|(a, b)| a.mul(*b));
    products.fold(Wide::of(0.0), Wide::add).sub(x.time.mul(y.time))
}

/// `acosh(-c <x, y>_L) / sqrt(c)`.
pub(super) fn dist(x: &Point, y: &Point, c: f64) -> f64 {
    let excess = cosh_of_dist(x, y, c).sub(Wide::of(1.0)).to_f64();
    let excess = excess.max(0.0);
    (excess + (excess * (excess + 2.0)).sqrt()).ln_1p() / c.sqrt()
}

/// `pi` minus the angle at `parent` in the triangle root, parent, child, by the hyperbolic law of cosines:
/// `cosh a = cosh b cosh c - sinh b sinh c cos A`. Sine and cosine are computed in double-double, the angle in double.
pub(super) fn exterior_angle(root: &Point, parent: &Point, child: &Point, c: f64) -> f64 {
    let one = Wide::of(1.0);
    let (b, d) = (cosh_of_dist(root, parent, c), cosh_of_dist(parent, child, c));
    let opposite = cosh_of_dist(root, child, c);
    let sinh = |cosh: Wide| cosh.sub(one).mul(cosh.add(one)).sqrt();
    let cosine = b.mul(d).sub(opposite).div(sinh(b).mul(sinh(d)));
    let sine = one.sub(cosine).mul(one.add(cosine)).sqrt();
    sine.to_f64().atan2(-cosine.to_f64())
}

fn cosh_of_dist(x: &Point, y: &Point, c: f64) -> Wide {
    Wide::of(0.0).sub(Wide::of(c).mul(inner(x, y)))
}

fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// For `|a| >= |b|`.
fn quick_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// Uses identities that need all 32 digits.
#[test]
fn wide_numbers_keep_thirty_digits() {
    let third = Wide::of(1.0).div(Wide::of(3.0));
    let rest = third.mul(Wide::of(3.0)).sub(Wide::of(1.0)).to_f64();
    assert!(rest.abs() < 1e-31, "{rest:e}");
    let root = Wide::of(2.0).sqrt();
    let rest = root.mul(root).sub(Wide::of(2.0)).to_f64();
    assert!(rest.abs() < 1e-31, "{rest:e}");
    let tiny = Wide::of(1e16).add(Wide::of(1e-10)).sub(Wide::of(1e16)).to_f64();
    assert_eq!(tiny, 1e-10);
}

/// On one ray the values are known in closed form: `x = sinh(sqrt(c) r) / sqrt(c)` at distance `r`.
#[test]
fn oracle_knows_the_ray() {
    for c in [0.1_f64, 1.0, 10.0] {
        let at = |r: f64| point(&[(c.sqrt() * r).sinh() / c.sqrt(), 0.0], c);
        let (origin, near, far) = (at(0.0), at(0.5), at(1.25));
        assert!((dist(&near, &far, c) - 0.75).abs() < 1e-15);
        assert!(exterior_angle(&origin, &near, &far, c) < 1e-7);
        assert!((exterior_angle(&origin, &far, &near, c) - std::f64::consts::PI).abs() < 1e-7);
        assert!((inner(&far, &far).to_f64() + 1.0 / c).abs() < 1e-15 / c);
    }
}
