//! Measurements of a node by itself: memory access, computation, and mapping of memory.
//!
//! `tombolo bench` starts the program with the argument `figures` and the measurement. Each figure is a line
//! `figure NAME VALUE` of its output; other lines are for people.

mod compute;
pub mod link;
mod map;
mod memory;
pub mod messages;
mod pages;

use std::time::{Duration, Instant};

use crate::Error;

/// First word of a line with a figure.
pub const FIGURE: &str = "figure";

/// Prints a figure.
fn print_figure(name: &str, value: f64) {
    println!("{FIGURE} {name} {value}");
}

/// Parses the figures among the lines of an output.
#[must_use]
pub fn read(output: &str) -> Vec<(String, f64)> {
    let figure = |line: &str| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(FIGURE), Some(name), Some(value), None) => Some((name.to_owned(), value.parse().ok()?)),
            _ => None,
        }
    };
    output.lines().filter_map(figure).collect()
}

/// Measures the figures that the arguments after `figures` select.
///
/// # Errors
/// [`Error::Arguments`] for unknown arguments, or the error that prevented the measurement.
pub fn run(words: &[&str]) -> Result<(), Error> {
    let wrong = || Error::Arguments { found: words.join(" ") };
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let slice = |text: &str| number(text).map(Duration::from_millis);
    match words {
        ["memory", bytes, slice_ms, windows @ ..] => memory::run(number(bytes)?, slice(slice_ms)?, windows),
        ["compute", slice_ms] => compute::run(slice(slice_ms)?),
        ["map", name, domains, bytes, rounds] => {
            map::run(name, number(domains)?, number(bytes)?, number(rounds)?)
        }
        ["pages", rounds] => pages::run(rounds.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(wrong)?),
        ["link", words @ ..] => link::run(link::Plan::of(words).ok_or_else(wrong)?),
        ["messages", words @ ..] => messages::run(messages::Plan::of(words).ok_or_else(wrong)?),
        _ => Err(wrong()),
    }
}

/// Times a function repeatedly for `length`, at least `MIN_SAMPLES` times, and returns the median in ns.
fn median_ns<E>(length: Duration, mut run: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    const MIN_SAMPLES: usize = 5;
    const MAX_SAMPLES: usize = 100_000;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < MIN_SAMPLES || (start.elapsed() < length && times.len() < MAX_SAMPLES) {
        let began = Instant::now();
        run()?;
        times.push(began.elapsed().as_nanos() as f64);
    }
    Ok(median(times))
}

/// Returns the median, or 0 if there are no values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_other_lines() {
        let output = "hello\nfigure own.random 96.5\nfigure x\nfigure y z\nfigure a 1 2\nfigure b 2\n";
        assert_eq!(read(output), [("own.random".to_owned(), 96.5), ("b".to_owned(), 2.0)]);
    }

    #[test]
    fn other_words_are_refused() {
        for words in [
            &["messages", "1"][..],
            &["link", "x", "-", "-"],
            &["link", "0", "-", "-"],
            &["link", "1", "-"],
            &["memory"],
            &["memory", "x", "1"],
            &["compute"],
            &["map", "n", "1"],
            &[],
        ] {
            assert!(matches!(run(words), Err(Error::Arguments { .. })), "{words:?}");
        }
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![])), (2.0, 0.0));
        let mut runs = 0;
        let time_ns = median_ns(Duration::ZERO, || {
            runs += 1;
            Ok::<(), Error>(())
        });
        assert!(time_ns.is_ok() && runs == 5);
    }
}
