//! An independent reference for the hyperboloid, with textbook formulas and no code shared with the code under test.
//! Every point carries its time component, distances use `acosh`, angles use the hyperbolic law of cosines. In `f64`
//! these forms lose all digits for close points with large norms, so they are evaluated in double-double arithmetic
//! (about 32 digits; Dekker 1971, Knuth's two-sum, products by fused multiply-add).

/// The unevaluated sum of two doubles.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoubleDouble {
    high: f64,
    low: f64,
}

impl DoubleDouble {
    pub(super) fn of(value: f64) -> Self {
        DoubleDouble { high: value, low: 0.0 }
    }

    pub(super) fn to_f64(self) -> f64 {
        self.high + self.low
    }

    pub(super) fn add(self, other: DoubleDouble) -> DoubleDouble {
        let (sum, error) = two_sum(self.high, other.high);
        let (low, low_error) = two_sum(self.low, other.low);
        let (sum, error) = quick_two_sum(sum, error + low);
        let (high, low) = quick_two_sum(sum, error + low_error);
        DoubleDouble { high, low }
    }

    pub(super) fn sub(self, other: DoubleDouble) -> DoubleDouble {
        self.add(DoubleDouble { high: -other.high, low: -other.low })
    }

    pub(super) fn mul(self, other: DoubleDouble) -> DoubleDouble {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        let (high, low) = quick_two_sum(product, error + (self.high * other.low + self.low * other.high));
        DoubleDouble { high, low }
    }

    /// Long division with three quotient digits, each of which is a double.
    pub(super) fn div(self, other: DoubleDouble) -> DoubleDouble {
        let first = self.high / other.high;
        let rest = self.sub(other.mul(DoubleDouble::of(first)));
        let second = rest.high / other.high;
        let rest = rest.sub(other.mul(DoubleDouble::of(second)));
        DoubleDouble::of(first).add(DoubleDouble::of(second)).add(DoubleDouble::of(rest.high / other.high))
    }

    /// Two Newton steps from the `f64` root; zero for arguments at or below zero.
    pub(super) fn sqrt(self) -> DoubleDouble {
        if self.high <= 0.0 {
            return DoubleDouble::of(0.0);
        }
        let step = |root: DoubleDouble| root.add(self.div(root)).mul(DoubleDouble::of(0.5));
        step(step(DoubleDouble::of(self.high.sqrt())))
    }
}

/// A point with its time component, at curvature `-c`.
pub(super) struct OraclePoint {
    time: DoubleDouble,
    space: Vec<DoubleDouble>,
}

pub(super) fn point(space: &[f64], c: f64) -> OraclePoint {
    let space: Vec<DoubleDouble> = space.iter().map(|v| DoubleDouble::of(*v)).collect();
    let squares = space.iter().fold(DoubleDouble::of(0.0), |sum, v| sum.add(v.mul(*v)));
    OraclePoint { time: DoubleDouble::of(1.0).div(DoubleDouble::of(c)).add(squares).sqrt(), space }
}

/// The inner product `<x, y>_L` with explicit time components.
pub(super) fn inner(x: &OraclePoint, y: &OraclePoint) -> DoubleDouble {
    let products = x.space.iter().zip(&y.space).map(|(a, b)| a.mul(*b));
    products.fold(DoubleDouble::of(0.0), DoubleDouble::add).sub(x.time.mul(y.time))
}

/// `acosh(-c <x, y>_L) / sqrt(c)`.
pub(super) fn dist(x: &OraclePoint, y: &OraclePoint, c: f64) -> f64 {
    let excess = cosh_of_dist(x, y, c).sub(DoubleDouble::of(1.0)).to_f64();
    let excess = excess.max(0.0);
    (excess + (excess * (excess + 2.0)).sqrt()).ln_1p() / c.sqrt()
}

/// `pi` minus the angle at `parent` in the triangle root, parent, child, by the hyperbolic law of cosines:
/// `cosh a = cosh b cosh c - sinh b sinh c cos A`. Sine and cosine are computed in double-double, the angle in double.
pub(super) fn exterior_angle(root: &OraclePoint, parent: &OraclePoint, child: &OraclePoint, c: f64) -> f64 {
    let one = DoubleDouble::of(1.0);
    let (b, d) = (cosh_of_dist(root, parent, c), cosh_of_dist(parent, child, c));
    let opposite = cosh_of_dist(root, child, c);
    let sinh = |cosh: DoubleDouble| cosh.sub(one).mul(cosh.add(one)).sqrt();
    let cosine = b.mul(d).sub(opposite).div(sinh(b).mul(sinh(d)));
    let sine = one.sub(cosine).mul(one.add(cosine)).sqrt();
    sine.to_f64().atan2(-cosine.to_f64())
}

fn cosh_of_dist(x: &OraclePoint, y: &OraclePoint, c: f64) -> DoubleDouble {
    DoubleDouble::of(0.0).sub(DoubleDouble::of(c).mul(inner(x, y)))
}

fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The sum and its rounding error (Dekker). Requires `|a| >= |b|`.
fn quick_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// Uses identities that need all 32 digits.
#[test]
fn wide_numbers_keep_thirty_digits() {
    let third = DoubleDouble::of(1.0).div(DoubleDouble::of(3.0));
    let rest = third.mul(DoubleDouble::of(3.0)).sub(DoubleDouble::of(1.0)).to_f64();
    assert!(rest.abs() < 1e-31, "{rest:e}");
    let root = DoubleDouble::of(2.0).sqrt();
    let rest = root.mul(root).sub(DoubleDouble::of(2.0)).to_f64();
    assert!(rest.abs() < 1e-31, "{rest:e}");
    let tiny = DoubleDouble::of(1e16).add(DoubleDouble::of(1e-10)).sub(DoubleDouble::of(1e16)).to_f64();
    assert_eq!(tiny, 1e-10);
}

/// On one ray the values are known in closed form: `x = sinh(sqrt(c) r) / sqrt(c)` at distance `r`.
#[test]
fn oracle_is_exact_on_a_ray() {
    for c in [0.1_f64, 1.0, 10.0] {
        let at = |r: f64| point(&[(c.sqrt() * r).sinh() / c.sqrt(), 0.0], c);
        let (origin, near, far) = (at(0.0), at(0.5), at(1.25));
        assert!((dist(&near, &far, c) - 0.75).abs() < 1e-15);
        assert!(exterior_angle(&origin, &near, &far, c) < 1e-7);
        assert!((exterior_angle(&origin, &far, &near, c) - std::f64::consts::PI).abs() < 1e-7);
        assert!((inner(&far, &far).to_f64() + 1.0 / c).abs() < 1e-15 / c);
    }
}
