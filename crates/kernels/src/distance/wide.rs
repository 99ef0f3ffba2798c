//! Distances for few wide factors: Burn's matrix products for a few rows at a time, then one pass over their result.

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Slice};
use macerator::{AutoArch, Simd, WithSimd};
use rayon::prelude::*;

use super::DistanceNorm;
use super::acosh::acosh_1p;
use super::cpu::{DistanceOperands, PointGradients};
use super::points::{DistanceSizes, finish};
use crate::arrays::{FlexArray, array, numbers};
use crate::lanes::{LINE, Register, lanes, load, splat, store};

/// Bytes of `u` per tile if there are several factors. They stay in the cache between the product and the pass.
const TILE_BYTES: usize = 4 << 20;
/// Rows per pass. Column sums of the passes are added in order.
const PASS_ROWS: usize = 32;

/// The distances, and with `keep` also `u` of a single factor.
pub(super) fn forward(
    operands: &DistanceOperands<'_>,
    x: &FlexArray,
    y: &FlexArray,
    keep: bool,
) -> (FlexArray, Option<FlexArray>) {
    let DistanceSizes { m, n, k, .. } = operands.sizes;
    let [x_factors, y_factors] = [x, y].map(|points| by_factor(points, &operands.sizes));
    let y_columns = Flex::float_swap_dims(y_factors, 1, 2);
    let mut out = vec![0.0_f32; m * n];
    let mut saved_u = None;
    for rows in tiles(&operands.sizes) {
        let mut u = Flex::float_matmul(rows_of(&x_factors, rows.clone()), y_columns.clone());
        let height = rows.len();
        let tile = u.storage_mut::<f32>();
        for factor in 0..k {
            let u = &mut tile[factor * height * n..][..height * n];
            let out = &mut out[rows.start * n..rows.end * n];
            u.par_chunks_mut(PASS_ROWS * n).zip(out.par_chunks_mut(PASS_ROWS * n)).enumerate().for_each(
                |(pass, (u, out))| {
                    let excesses = PassExcesses::new(operands, factor, rows.start + pass * PASS_ROWS);
                    AutoArch::new().dispatch(WideForward { operands, excesses, u, out });
                },
            );
        }
        if keep && k == 1 {
            saved_u = Some(u);
        }
    }
    (array(out, &[m, n]), saved_u)
}

/// The gradients of the points. `grad` is the gradient of the result; for l2 it is divided by the result. `out` is the
/// saved result, if any.
pub(super) fn backward(
    operands: &DistanceOperands<'_>,
    [x, y]: [&FlexArray; 2],
    grad: &[f32],
    out: Option<&[f32]>,
    mut saved_u: Option<FlexArray>,
) -> PointGradients {
    let DistanceSizes { m, n, k, d } = operands.sizes;
    let [x_factors, y_factors] = [x, y].map(|points| by_factor(points, &operands.sizes));
    let y_columns = Flex::float_swap_dims(y_factors.clone(), 1, 2);
    let mut found = PointGradients { x: Vec::new(), y: Vec::new(), values: vec![0.0; k] };
    let mut x_push = vec![0.0_f32; m * k];
    let mut y_push = vec![0.0_f32; n * k];
    let (mut x_pulls, mut y_pull) = (Vec::new(), None);
    for rows in tiles(&operands.sizes) {
        let height = rows.len();
        let x_rows = rows_of(&x_factors, rows.clone());
        let known = saved_u.is_some();
        let mut u = saved_u.take().unwrap_or_else(|| Flex::float_matmul(x_rows.clone(), y_columns.clone()));
        let tile = u.storage_mut::<f32>();
        for factor in 0..k {
            let u = &mut tile[factor * height * n..][..height * n];
            let grad = &grad[rows.start * n..rows.end * n];
            let passes: Vec<PassSums> = u
                .par_chunks_mut(PASS_ROWS * n)
                .zip(grad.par_chunks(PASS_ROWS * n))
                .enumerate()
                .map(|(pass, (u, grad))| {
                    let first = rows.start + pass * PASS_ROWS;
                    let excesses = PassExcesses::new(operands, factor, first);
                    let out = out.filter(|_| k == 1).map(|out| &out[first * n..][..u.len()]);
                    let mut sums = PassSums { rows: vec![0.0; u.len() / n], columns: vec![0.0; n], value: 0.0 };
                    AutoArch::new().dispatch(WideBackward { operands, excesses, known, u, grad, out, sums: &mut sums });
                    sums
                })
                .collect();
            for (pass, sums) in passes.iter().enumerate() {
                found.values[factor] += sums.value;
                for (row, sum) in sums.rows.iter().enumerate() {
                    x_push[(rows.start + pass * PASS_ROWS + row) * k + factor] = *sum;
                }
                for (column, sum) in sums.columns.iter().enumerate() {
                    y_push[column * k + factor] += sum;
                }
            }
        }
        x_pulls.push(Flex::float_matmul(u.clone(), y_factors.clone()));
        let tile = Flex::float_matmul(Flex::float_swap_dims(u, 1, 2), x_rows);
        y_pull = Some(match y_pull {
            Some(sum) => Flex::float_add(sum, tile),
            None => tile,
        });
    }
    let x_pull = if x_pulls.len() == 1 { x_pulls.remove(0) } else { Flex::float_cat(x_pulls, 1) };
    let side = |pull: FlexArray, points: &[f32], push: &[f32], excess: &[f32]| {
        let mut out = flat(pull, k);
        out.par_chunks_mut(d).enumerate().with_min_len(16).for_each(|(i, out)| {
            let c = operands.curv[i % k];
            finish(out, &points[i * d..][..d], -c, push[i], c, excess[i]);
        });
        out
    };
    found.x = side(x_pull, operands.x, &x_push, &operands.a);
    if let Some(pull) = y_pull {
        found.y = side(pull, operands.y, &y_push, &operands.b);
    }
    found
}

/// Precomputed values of the rows of a pass and of the columns, for one factor.
struct PassExcesses<'a> {
    factor: usize,
    /// `sqrt(c) t - 1` of the rows (`a`) and of the columns (`b`).
    a: Vec<f32>,
    b: std::borrow::Cow<'a, [f32]>,
}

impl<'a> PassExcesses<'a> {
    fn new(operands: &'a DistanceOperands<'_>, factor: usize, first: usize) -> Self {
        let k = operands.sizes.k;
        let a = operands.a[first * k..].iter().skip(factor).step_by(k).take(PASS_ROWS).copied().collect();
        let b = match k {
            1 => (&operands.b[..]).into(),
            _ => operands.b.iter().skip(factor).step_by(k).copied().collect::<Vec<f32>>().into(),
        };
        PassExcesses { factor, a, b }
    }
}

/// Replaces dot products by `u`, and adds the terms of one factor to `out`. The last factor completes the distances.
struct WideForward<'a> {
    operands: &'a DistanceOperands<'a>,
    excesses: PassExcesses<'a>,
    u: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for WideForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (n, factor) = (self.operands.sizes.n, self.excesses.factor);
        let rows = self.u.chunks_mut(n).zip(self.out.chunks_mut(n)).zip(&self.excesses.a);
        let whole = n / lanes::<S>() * lanes::<S>();
        let last = factor + 1 == self.operands.sizes.k;
        for ((u, out), &a) in rows {
            let constants = RowConstants::<S>::new(self.operands, factor, a);
            for start in (0..whole).step_by(lanes::<S>()) {
                constants.distance(&mut u[start..], &self.excesses.b[start..], &mut out[start..], last);
            }
            if whole < n {
                let [mut u_end, mut b_end, mut out_end] = [[0.0; LINE]; 3];
                let left = n - whole;
                u_end[..left].copy_from_slice(&u[whole..]);
                b_end[..left].copy_from_slice(&self.excesses.b[whole..]);
                out_end[..left].copy_from_slice(&out[whole..]);
                constants.distance(&mut u_end, &b_end, &mut out_end, last);
                u[whole..].copy_from_slice(&u_end[..left]);
                out[whole..].copy_from_slice(&out_end[..left]);
            }
        }
    }
}

/// Replaces dot products, or `u` if `known` is set, by gradients of `u`, and sums them.
struct WideBackward<'a> {
    operands: &'a DistanceOperands<'a>,
    excesses: PassExcesses<'a>,
    known: bool,
    u: &'a mut [f32],
    grad: &'a [f32],
    /// The saved distances; without them they are recomputed.
    out: Option<&'a [f32]>,
    sums: &'a mut PassSums,
}

/// Sums over the gradients `e` of `u` of some rows.
struct PassSums {
    /// `sum e (1 + b)` of each row.
    rows: Vec<f32>,
    /// `sum e (1 + a)` of each column.
    columns: Vec<f32>,
    /// Sum of the weighted distances times their gradients.
    value: f64,
}

impl WithSimd for WideBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        let (n, factor) = (self.operands.sizes.n, self.excesses.factor);
        let whole = n / lanes::<S>() * lanes::<S>();
        let left = n - whole;
        let b = &self.excesses.b[..n];
        for (row, (u, grad)) in self.u.chunks_mut(n).zip(self.grad.chunks(n)).enumerate() {
            let constants = RowConstants::<S>::new(self.operands, factor, self.excesses.a[row]);
            let out = self.out.map(|out| &out[row * n..][..n]);
            let mut sums = [splat::<S>(0.0); 2];
            for start in (0..whole).step_by(lanes::<S>()) {
                let columns = &mut self.sums.columns[start..];
                let out = out.map(|out| &out[start..]);
                constants.gradient(&mut u[start..], self.known, &grad[start..], &b[start..], out, columns, &mut sums);
            }
            if left > 0 {
                let [mut u_end, mut grad_end, mut b_end, mut out_end, mut columns_end] = [[0.0; LINE]; 5];
                u_end[..left].copy_from_slice(&u[whole..]);
                grad_end[..left].copy_from_slice(&grad[whole..]);
                b_end[..left].copy_from_slice(&b[whole..]);
                let end = match out {
                    Some(out) => {
                        out_end[..left].copy_from_slice(&out[whole..]);
                        Some(&out_end[..])
                    }
                    None => None,
                };
                columns_end[..left].copy_from_slice(&self.sums.columns[whole..]);
                constants.gradient(&mut u_end, self.known, &grad_end, &b_end, end, &mut columns_end, &mut sums);
                u[whole..].copy_from_slice(&u_end[..left]);
                self.sums.columns[whole..].copy_from_slice(&columns_end[..left]);
            }
            self.sums.rows[row] = sums[0].reduce_add();
            self.sums.value += f64::from(sums[1].reduce_add());
        }
    }
}

/// Constants of one row in one factor.
struct RowConstants<S: Simd> {
    a: Register<S>,
    a_plus: Register<S>,
    minus_curv: Register<S>,
    weight: Register<S>,
    sign: Register<S>,
    floor: f32,
    norm: DistanceNorm,
}

impl<S: Simd> RowConstants<S> {
    #[inline(always)]
    fn new(operands: &DistanceOperands<'_>, factor: usize, a: f32) -> Self {
        RowConstants {
            a: splat::<S>(a),
            a_plus: splat::<S>(1.0 + a),
            minus_curv: splat::<S>(-operands.curv[factor]),
            weight: splat::<S>(operands.weights[factor]),
            sign: splat::<S>(operands.sign),
            floor: operands.floor,
            norm: operands.norm,
        }
    }

    /// `a + b + a b - c <x, y>`.
    #[inline(always)]
    fn u(&self, dot: Register<S>, b: Register<S>) -> Register<S> {
        dot.mul_add(self.minus_curv, b.mul_add(self.a_plus, self.a))
    }

    #[inline(always)]
    fn distance(&self, u: &mut [f32], b: &[f32], out: &mut [f32], last: bool) {
        let value = self.u(load::<S>(u), load::<S>(b));
        store::<S>(value, u);
        let (rapidity, _) = acosh_1p::<S>(value, self.floor);
        let sum = match self.norm {
            DistanceNorm::L1 => rapidity.mul_add(self.weight, load::<S>(out)),
            DistanceNorm::L2 => {
                let sum = (rapidity * rapidity).mul_add(self.weight, load::<S>(out));
                if last { sum.sqrt() * self.sign } else { sum }
            }
        };
        store::<S>(sum, out);
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one place calls it, twice")]
    fn gradient(
        &self,
        u: &mut [f32],
        known: bool,
        grad: &[f32],
        b: &[f32],
        out: Option<&[f32]>,
        columns: &mut [f32],
        [push, value]: &mut [Register<S>; 2],
    ) {
        let b = load::<S>(b);
        let product = load::<S>(u);
        let at = if known { product } else { self.u(product, b) };
        let (rapidity, derivative) = acosh_1p::<S>(at, self.floor);
        let upstream = load::<S>(grad);
        let mut grad = upstream * self.weight;
        if self.norm == DistanceNorm::L2 {
            grad *= rapidity;
        }
        *value = match out {
            Some(out) => upstream.mul_add(load::<S>(out), *value),
            None => grad.mul_add(rapidity, *value),
        };
        let e = grad * derivative;
        store::<S>(e, u);
        *push = e.mul_add(b + splat::<S>(1.0), *push);
        store::<S>(e.mul_add(self.a_plus, load::<S>(columns)), columns);
    }
}

/// Row ranges that cover the result. A single factor is one tile, because `u` is then as large as the result.
fn tiles(sizes: &DistanceSizes) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let m = sizes.m;
    let rows = (TILE_BYTES / (size_of::<f32>() * sizes.k * sizes.n).max(1)).clamp(1, m);
    let rows = if sizes.k == 1 { m } else { rows };
    (0..m).step_by(rows).map(move |start| start..(start + rows).min(m))
}

/// A view of `[B, K d]` as `[K, B, d]`.
fn by_factor(points: &FlexArray, sizes: &DistanceSizes) -> FlexArray {
    let rows = numbers(points).len() / (sizes.k * sizes.d);
    let split = Flex::float_reshape(points.clone(), Shape::new([rows, sizes.k, sizes.d]));
    Flex::float_swap_dims(split, 0, 1)
}

fn rows_of(x: &FlexArray, rows: std::ops::Range<usize>) -> FlexArray {
    Flex::float_slice(x.clone(), &[Slice::full(), Slice::from(rows), Slice::full()])
}

/// The numbers of `[K, B, d]` in the order of `[B, K d]`.
fn flat(x: FlexArray, k: usize) -> Vec<f32> {
    let x = if k == 1 { x } else { Flex::float_swap_dims(x, 0, 1).to_contiguous() };
    let data = x.into_data();
    data.try_into_vec::<f32>().unwrap_or_else(|e| unreachable!("fused for f32 only: {e}"))
}
