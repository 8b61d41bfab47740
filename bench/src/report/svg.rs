//! Just enough SVG for plots.

use std::fmt::Write;

/// Colours that people with every kind of sight tell apart (Okabe and Ito).
pub(super) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5b5b5b", "#a08a00"];

/// Text and lines.
pub(super) const INK: &str = "#222222";
pub(super) const FAINT: &str = "#d9d9d9";

/// Beside titles.
const MARGIN: f64 = 16.0;

/// What a character of small text takes, rather more than less: which font there is only the reader knows.
pub(super) const CHARACTER: f64 = 6.8;

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str, subtitle: &str) -> Svg {
        let mut svg = Svg { width, height, body: String::new() };
        svg.rectangle(0.0, 0.0, width, height, "#ffffff");
        svg.text(MARGIN, 26.0, title, 16.0, Anchor::Start, true);
        match wrapped(subtitle, width - 2.0 * MARGIN) {
            (line, None) => svg.text(MARGIN, 45.0, line, 12.0, Anchor::Start, false),
            (first, Some(second)) => {
                svg.text(MARGIN, 42.0, first, 12.0, Anchor::Start, false);
                svg.text(MARGIN, 57.0, second, 12.0, Anchor::Start, false);
            }
        }
        svg
    }

    pub(super) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\"/>"
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], stroke: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
    }

    /// A line of dashes: strokes and gaps in turn.
    pub(super) fn dashed_path(&mut self, points: &[(f64, f64)], stroke: &str, dashes: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        );
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        let _ = writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\"/>");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, text: &str, size: f64, anchor: Anchor, bold: bool) {
        self.coloured_text((x, y), text, size, anchor, bold, INK);
    }

    pub(super) fn coloured_text(
        &mut self,
        (x, y): (f64, f64),
        text: &str,
        size: f64,
        anchor: Anchor,
        bold: bool,
        fill: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}>{}</text>",
            escape(text)
        );
    }

    /// The whole file.
    pub(super) fn finish(self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n{body}</svg>\n"
        )
    }
}

/// A text on one line, or on two where one is too narrow: broken between its parts if the first then fits, or else
/// between words.
fn wrapped(text: &str, room: f64) -> (&str, Option<&str>) {
    let fits = |line: &str| line.chars().count() as f64 * CHARACTER <= room;
    if fits(text) {
        return (text, None);
    }
    let broken_at = |mark: &str| {
        let parts = text.rmatch_indices(mark).map(|(at, _)| (&text[..at], &text[at + mark.len()..]));
        parts.into_iter().find(|(first, second)| fits(first) && fits(second))
    };
    broken_at(" · ").or_else(|| broken_at(" ")).map_or((text, None), |(first, second)| (first, Some(second)))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Maps values to places along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis whose ends are powers of ten around `values`, which must be positive to count.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (low, high) = bounds(values.filter(|value| *value > 0.0));
        let low = low.log10().floor();
        let high = high.log10().ceil().max(low + 1.0);
        Axis { low, high, logarithmic: true, from, to }
    }

    /// An axis from zero to a round number not below any of `values`.
    pub(super) fn linear(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (_, high) = bounds(values);
        let step = step(high);
        Axis { low: 0.0, high: (high / step).ceil().max(1.0) * step, logarithmic: false, from, to }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// The values that get a label.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power)).collect()
        } else {
            let step = step(self.high);
            (0..=(self.high / step).round() as i32).map(|index| f64::from(index) * step).collect()
        }
    }

    /// The values between that get a faint line.
    pub(super) fn minor_ticks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return Vec::new();
        }
        let powers = (self.low as i32..self.high as i32).map(|power| 10_f64.powi(power));
        powers.flat_map(|power| (2..10).map(move |digit| f64::from(digit) * power)).collect()
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low.is_finite() { (low, high) } else { (1.0, 10.0) }
}

/// A round distance between ticks: some five of them up to `high`.
fn step(high: f64) -> f64 {
    if high <= 0.0 {
        return 1.0;
    }
    let rough = high / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power);
    steps.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        let axis = Axis::logarithmic([120.0, 45_000.0].into_iter(), 0.0, 300.0);
        assert_eq!(axis.ticks(), [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert!((axis.place(1000.0) - 100.0).abs() < 1e-9);
        assert_eq!((axis.place(1.0), axis.place(1e9)), (0.0, 300.0));
        let axis = Axis::linear([3.0, 41.0].into_iter(), 300.0, 0.0);
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(axis.place(50.0), 0.0);
        for empty in [Axis::logarithmic([].into_iter(), 0.0, 1.0), Axis::linear([].into_iter(), 0.0, 1.0)] {
            assert!(empty.ticks().len() >= 2 && empty.place(5.0).is_finite());
        }
        // One value alone still has an axis.
        assert_eq!(Axis::logarithmic([100.0].into_iter(), 0.0, 1.0).ticks(), [100.0, 1000.0]);
    }

    #[test]
    fn a_long_subtitle_takes_two_lines() {
        let room = 20.0 * CHARACTER;
        assert_eq!(wrapped("of twenty characters", room), ("of twenty characters", None));
        assert_eq!(
            wrapped("two processors · there and back", room),
            ("two processors", Some("there and back"))
        );
        assert_eq!(wrapped("one two three four five six", room), ("one two three four", Some("five six")));
        let endless = "a".repeat(99);
        assert_eq!(wrapped(&endless, room), (endless.as_str(), None));
    }

    #[test]
    fn texts_are_escaped() {
        let svg = Svg::new(10.0, 10.0, "a < b & \"c\"", "");
        assert!(svg.finish().contains("a &lt; b &amp; &quot;c&quot;"));
    }
}
