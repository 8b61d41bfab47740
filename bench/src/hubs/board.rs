//! The row of `tombolo bench hub` for a board, which serves no hubs: the latency from an interrupt to the
//! program.

use tombolo::{DomainId, Exit, SpawnOptions};

use super::{Bench, Row, TIMEOUT, Times};
use crate::suite::Error;

/// Minimum figure of the paper on one core of the SCC at 533 MHz, in nanoseconds.
const PAPER_NS: f64 = 10_320.0;

/// Prefix of the line that `bounded` prints.
const LINE: &str = "timer to program";

/// Measures the delay of a program on a board that sleeps until a timer interrupt.
pub(super) fn interrupts(
    bench: &Bench<'_>,
    output_of: &dyn Fn(DomainId) -> String,
    node: &str,
) -> Result<Row, Error> {
    let options = SpawnOptions::image(&bench.options.board_image).on(node).arg("interrupts");
    let child = bench.domain.spawn(&options)?;
    let exit = child.wait(TIMEOUT).inspect_err(|_| {
        // The error of the wait is reported instead.
        let _ = child.kill();
    })?;
    let output = output_of(child.id());
    let measured = (exit == Exit::Exited { status: 0 }).then(|| read(&output)).flatten();
    let (count, times) = measured.ok_or_else(|| {
        let output = output.trim();
        Error::failed(format!("the measurement of interrupts on {node} ended: {exit}; it said: {output}"))
    })?;
    Ok(Row::new("interrupt to program", node, 0, count, times).of_host().with_paper_value(PAPER_NS))
}

/// Parses the count and the times that `bounded` printed: shortest, median, mean, longest.
fn read(output: &str) -> Option<(u64, Times)> {
    let line = output.lines().find_map(|line| line.strip_prefix(LINE))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [count, _, median, mean, _] = numbers[..] else { return None };
    Some((count, Times { mean_ns: mean as f64, p50_ns: median as f64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read() {
        let output = "interrupt count shortest median mean longest\ntimer to program 1000 10 20 30 40\n";
        let (count, times) = read(output).unwrap();
        assert_eq!((count, times.p50_ns, times.mean_ns), (1000, 20.0, 30.0));
        assert!(read("timer to program 1000 10 20").is_none());
        assert!(read("bounded: no such argument").is_none());
    }
}
