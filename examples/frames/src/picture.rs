//! Generated pictures: a disc that moves over a gradient, with one byte of brightness per pixel.

/// Width in pixels.
pub(crate) const WIDTH: usize = 640;
/// Height in pixels.
pub(crate) const HEIGHT: usize = 480;
/// Length of a frame, in bytes.
pub(crate) const FRAME_BYTES: u64 = (WIDTH * HEIGHT) as u64;

const RADIUS: i64 = 60;

/// Returns a row of a frame.
pub(crate) fn row(frame: u64, y: usize) -> [u8; WIDTH] {
    let (centre_x, centre_y) = ((frame as i64 * 4) % WIDTH as i64, HEIGHT as i64 / 2);
    std::array::from_fn(|x| {
        let (dx, dy) = (x as i64 - centre_x, y as i64 - centre_y);
        if dx * dx + dy * dy < RADIUS * RADIUS { 255 } else { ((x + y) / 8) as u8 }
    })
}

/// Replaces each pixel by the absolute difference to its right neighbor.
pub(crate) fn find_edges(row: &mut [u8; WIDTH]) {
    for x in 0..WIDTH - 1 {
        row[x] = row[x].abs_diff(row[x + 1]);
    }
    row[WIDTH - 1] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disc_has_two_edges_in_each_row_that_it_is_in() {
        let edges = |y| {
            let mut row = row(80, y);
            find_edges(&mut row);
            row.iter().enumerate().filter(|(_, step)| **step > 64).map(|(x, _)| x).collect::<Vec<_>>()
        };
        assert_eq!(edges(HEIGHT / 2), [260, 379]);
        assert_eq!(edges(0), [] as [usize; 0]);
    }
}
