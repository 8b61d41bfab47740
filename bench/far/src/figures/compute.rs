//! Additions per second of one processor.

use std::time::{Duration, Instant};

use tombolo_platform::additions::AddKind;

use super::{median, print_figure};
use crate::Error;

/// Measures each kind of addition that this processor supports.
pub(super) fn run(slice: Duration) -> Result<(), Error> {
    for adds in AddKind::available() {
        let mut rates = Vec::new();
        let start = Instant::now();
        while rates.len() < 5 || start.elapsed() < slice {
            let began = Instant::now();
            let count = adds.run(100_000);
            rates.push(count as f64 / began.elapsed().as_nanos().max(1) as f64 * 1e9);
        }
        print_figure(adds.name(), median(rates));
    }
    Ok(())
}
