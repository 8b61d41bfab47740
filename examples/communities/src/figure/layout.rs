//! Layout of the circles: heavy lines are short, nothing overlaps. The method of Fruchterman and Reingold
//! ("Graph Drawing by Force-directed Placement", 1991) with sizes, from a fixed start.

use super::SIDE;

/// Fraction of the square that circles cover.
const COVERED: f64 = 0.28;

/// Minimum radius that is visible and can be pointed at.
const MIN_RADIUS: f64 = 7.0;

/// Number of iterations of the layout.
const STEPS: usize = 400;

/// Strength of the pull towards the middle.
const PULL: f64 = 2.0;

/// Minimum gap between two circles.
const GAP: f64 = 6.0;

/// Returns positions and radii of circles with these sizes, joined by lines: two indices of `sizes`, and a
/// weight.
pub(super) fn lay_out(sizes: &[usize], lines: &[(usize, usize, u64)]) -> Vec<(f64, f64, f64)> {
    let radii = radii(sizes);
    let mut places: Vec<(f64, f64)> = (0..sizes.len()).map(start).collect();
    let heaviest = lines.iter().map(|&(_, _, weight)| weight).max().unwrap_or(1).max(1) as f64;
    // Rest distance of two circles joined with full weight.
    let rest = SIDE / (sizes.len().max(1) as f64).sqrt();
    for step in 0..STEPS {
        let reach = SIDE / 12.0 * (1.0 - step as f64 / STEPS as f64);
        let mut pushes = vec![(0.0, 0.0); places.len()];
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let (dx, dy, distance) = between(places[a], places[b]);
                let free = (distance - radii[a] - radii[b]).max(1.0);
                push(&mut pushes, (a, b), (dx, dy), rest * rest / free);
            }
        }
        for &(a, b, weight) in lines {
            let (dx, dy, distance) = between(places[a], places[b]);
            let free = (distance - radii[a] - radii[b]).max(0.0);
            push(&mut pushes, (a, b), (dx, dy), -free * free / rest * (weight as f64 / heaviest).sqrt());
        }
        for ((place, (px, py)), radius) in places.iter_mut().zip(pushes).zip(&radii) {
            // Pull to the middle; otherwise unconnected parts would drift to the walls.
            let (px, py) = (px + (SIDE / 2.0 - place.0) * PULL, py + (SIDE / 2.0 - place.1) * PULL);
            let length = px.hypot(py).max(1e-9);
            let step = length.min(reach);
            let inside = *radius + GAP..=(SIDE - radius - GAP).max(radius + GAP);
            place.0 = (place.0 + px / length * step).clamp(*inside.start(), *inside.end());
            place.1 = (place.1 + py / length * step).clamp(*inside.start(), *inside.end());
        }
    }
    part(&mut places, &radii);
    places.into_iter().zip(radii).map(|((x, y), r)| (x, y, r)).collect()
}

/// Returns radii whose areas are proportional to sizes, but not too small to be visible.
fn radii(sizes: &[usize]) -> Vec<f64> {
    let all: usize = sizes.iter().sum();
    let scale = (SIDE * SIDE * COVERED / (all.max(1) as f64 * std::f64::consts::PI)).sqrt();
    sizes.iter().map(|&size| ((size as f64).sqrt() * scale).clamp(MIN_RADIUS, SIDE / 5.0)).collect()
}

/// Returns the start position: on a spiral, the largest circle in the middle.
fn start(rank: usize) -> (f64, f64) {
    let (angle, radius) = (rank as f64 * 2.399_963, 60.0 * (rank as f64).sqrt());
    (SIDE / 2.0 + radius * angle.cos(), SIDE / 2.0 + radius * angle.sin())
}

/// Returns the unit vector from one point to another, and their distance.
fn between(a: (f64, f64), b: (f64, f64)) -> (f64, f64, f64) {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let distance = dx.hypot(dy);
    if distance < 1e-6 { (1.0, 0.0, 1e-6) } else { (dx / distance, dy / distance, distance) }
}

/// Pushes two circles apart, or together if the force is negative.
fn push(pushes: &mut [(f64, f64)], (a, b): (usize, usize), (dx, dy): (f64, f64), force: f64) {
    pushes[a] = (pushes[a].0 - dx * force, pushes[a].1 - dy * force);
    pushes[b] = (pushes[b].0 + dx * force, pushes[b].1 + dy * force);
}

/// Separates circles that still overlap.
fn part(places: &mut [(f64, f64)], radii: &[f64]) {
    for _ in 0..STEPS {
        let mut moved = false;
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let (dx, dy, distance) = between(places[a], places[b]);
                let lacking = radii[a] + radii[b] + GAP - distance;
                if lacking > 0.0 {
                    moved = true;
                    for (of, sign) in [(a, -0.5), (b, 0.5)] {
                        let limit = (SIDE - radii[of]).max(radii[of]);
                        places[of].0 = (places[of].0 + dx * lacking * sign).clamp(radii[of], limit);
                        places[of].1 = (places[of].1 + dy * lacking * sign).clamp(radii[of], limit);
                    }
                }
            }
        }
        if !moved {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn circles_lie_inside_and_hardly_overlap(
            sizes in prop::collection::vec(1usize..100_000, 0..40),
            lines in prop::collection::vec((0usize..40, 0usize..40, 1u64..1_000_000), 0..80),
        ) {
            let lines: Vec<_> = lines.into_iter().filter(|&(a, b, _)| a < b && b < sizes.len()).collect();
            let circles = lay_out(&sizes, &lines);
            prop_assert_eq!(circles.len(), sizes.len());
            for (index, &(x, y, r)) in circles.iter().enumerate() {
                prop_assert!(x.is_finite() && y.is_finite() && r >= MIN_RADIUS);
                prop_assert!(x - r >= -0.1 && x + r <= SIDE + 0.1 && y - r >= -0.1 && y + r <= SIDE + 0.1);
                for &(u, v, s) in &circles[index + 1..] {
                    prop_assert!((x - u).hypot(y - v) >= (r + s) * 0.9, "{:?}", circles);
                }
            }
        }
    }

    #[test]
    fn what_is_joined_lies_nearer() {
        let sizes = [100; 12];
        let circles = lay_out(&sizes, &[(3, 9, 1000)]);
        let distance = |a: usize, b: usize| (circles[a].0 - circles[b].0).hypot(circles[a].1 - circles[b].1);
        let others: f64 = (0..12).filter(|&b| b != 3 && b != 9).map(|b| distance(3, b)).sum::<f64>() / 10.0;
        assert!(distance(3, 9) < others * 0.85, "{} {others}", distance(3, 9));
    }
}
