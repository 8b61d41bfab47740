//! The cost formula of the paper, fitted to times by number of ranks:
//! `T(P) = Ts + Tp/P + Twb + Tinv + αP + β log₂ P`.
//!
//! `Twb` and `Tinv` are measured. The other terms are fitted to the remainder by non-negative least squares:
//! of all subsets of terms, the one with the least error whose factors are all positive.

use serde::Serialize;

/// Number of fitted terms.
const TERMS: usize = 4;

/// Fitted factors, in the unit of the times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Fit {
    /// `Ts`: work that one rank does.
    pub sequential: f64,
    /// `Tp`: work that ranks share.
    pub parallel: f64,
    /// `α`: cost added by each rank.
    pub per_rank: f64,
    /// `β`: cost added by each level of the tree.
    pub per_level: f64,
    /// Root-mean-square residual, as a fraction of the mean time.
    pub error: f64,
}

fn terms(ranks: f64) -> [f64; TERMS] {
    [1.0, 1.0 / ranks, ranks, ranks.log2()]
}

/// Fits the formula to pairs of `(ranks, time)`; `None` without times.
pub(super) fn fit(times: &[(f64, f64)]) -> Option<Fit> {
    let mean = times.iter().map(|(_, time)| time).sum::<f64>() / times.len().max(1) as f64;
    let mut best: Option<(f64, [f64; TERMS])> = None;
    for chosen in 1..1_u32 << TERMS {
        if chosen.count_ones() as usize > times.len() {
            continue;
        }
        let Some(factors) = least_squares(times, chosen) else { continue };
        if factors.iter().any(|factor| *factor < 0.0) {
            continue;
        }
        let residual = |(ranks, time): &(f64, f64)| {
            let fitted: f64 = terms(*ranks).iter().zip(factors).map(|(term, factor)| term * factor).sum();
            (fitted - time).powi(2)
        };
        let error = times.iter().map(residual).sum::<f64>();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, factors));
        }
    }
    let (error, [sequential, parallel, per_rank, per_level]) = best?;
    let error = (error / times.len() as f64).sqrt() / mean;
    Some(Fit { sequential, parallel, per_rank, per_level, error })
}

/// Returns the factors of the chosen terms, 0 for the others; `None` if the times do not determine them.
fn least_squares(times: &[(f64, f64)], chosen: u32) -> Option<[f64; TERMS]> {
    let mut rows = [[0.0; TERMS + 1]; TERMS];
    for &(ranks, time) in times {
        let terms = terms(ranks);
        for (row, a) in rows.iter_mut().zip(terms) {
            for (cell, b) in row.iter_mut().zip(terms) {
                *cell += a * b;
            }
            row[TERMS] += a * time;
        }
    }
    for (index, row) in rows.iter_mut().enumerate() {
        if chosen >> index & 1 == 0 {
            *row = [0.0; TERMS + 1];
            row[index] = 1.0;
        } else {
            for other in (0..TERMS).filter(|other| chosen >> other & 1 == 0) {
                row[other] = 0.0;
            }
        }
    }
    // Gauss-Jordan elimination with partial pivoting.
    for column in 0..TERMS {
        let pivot =
            (column..TERMS).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-9 {
            return None;
        }
        let pivot = rows[column];
        for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(pivot).for_each(|(cell, of_pivot)| *cell -= factor * of_pivot);
            debug_assert!(index != column);
        }
    }
    let mut factors = [0.0; TERMS];
    for (index, factor) in factors.iter_mut().enumerate() {
        *factor = rows[index][TERMS] / rows[index][index];
    }
    Some(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_factors_are_recovered() {
        for [sequential, parallel, per_rank, per_level] in
            [[5.0, 100.0, 2.0, 1.0], [0.0, 40.0, 3.0, 0.0], [7.0, 0.0, 0.0, 2.5]]
        {
            let time =
                |ranks: f64| sequential + parallel / ranks + per_rank * ranks + per_level * ranks.log2();
            let times: Vec<(f64, f64)> =
                [1.0, 2.0, 3.0, 4.0, 6.0, 8.0].map(|ranks| (ranks, time(ranks))).into();
            let fit = fit(&times).expect("a fit");
            let found = [fit.sequential, fit.parallel, fit.per_rank, fit.per_level];
            for (found, expected) in found.into_iter().zip([sequential, parallel, per_rank, per_level]) {
                assert!((found - expected).abs() < 1e-6, "{fit:?}");
            }
            assert!(fit.error < 1e-6);
        }
    }

    #[test]
    fn no_factor_is_negative_and_few_times_do() {
        let fit = fit(&[(1.0, 10.0), (2.0, 4.0), (4.0, 3.0), (8.0, 30.0)]).expect("a fit");
        assert!(fit.sequential >= 0.0 && fit.parallel >= 0.0 && fit.per_rank >= 0.0 && fit.per_level >= 0.0);
        assert!(super::fit(&[(1.0, 10.0)]).is_some());
        assert_eq!(super::fit(&[]), None);
    }
}
