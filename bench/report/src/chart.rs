//! Charts as SVG files, drawn by plotters.
//!
//! Coordinates are logarithms if an axis is logarithmic, so that one kind of chart serves all axes.

use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Error of drawing a chart.
pub(crate) type ChartError = DrawingAreaErrorKind<std::io::Error>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type RangedCoordf64 = plotters::coord::types::RangedCoordf64;

/// Colour-blind-safe palette (Okabe and Ito).
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x5b, 0x5b, 0x5b),
    RGBColor(0xa0, 0x8a, 0x00),
];

const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xd9, 0xd9, 0xd9);
const MARK: RGBColor = RGBColor(0xbb, 0xbb, 0xbb);
const FONT: &str = "Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// Layout lengths, in pixels.
const WIDTH: i32 = 860;
const HEADER: i32 = 64;
const FOOTER: i32 = 48;
const MARGIN: i32 = 16;
const ROW: i32 = 26;
const LINES_HEIGHT: i32 = 336;
const NAME_STEP: i32 = 15;

/// Estimated width of a character of 12 pixels, since the reader's font is unknown.
const CHARACTER: f64 = 6.8;

/// Limits to which values are clamped: files of results may hold any number.
const MIN_VALUE: f64 = 1e-6;
const MAX_VALUE: f64 = 1e15;

/// Mapping of an axis from values to coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    Linear,
    Log2,
    Log10,
}

/// Axis: scale, title and format of labels.
#[derive(Clone, Copy)]
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    pub(crate) scale: Scale,
    pub(crate) label: &'a dyn Fn(f64) -> String,
}

impl Axis<'_> {
    fn coordinate(&self, value: f64) -> f64 {
        let value = value.clamp(0.0, MAX_VALUE);
        match self.scale {
            Scale::Linear => value,
            Scale::Log2 => value.max(MIN_VALUE).log2(),
            Scale::Log10 => value.max(MIN_VALUE).log10(),
        }
    }

    fn value(&self, coordinate: f64) -> f64 {
        match self.scale {
            Scale::Linear => coordinate,
            Scale::Log2 => coordinate.exp2(),
            Scale::Log10 => 10_f64.powf(coordinate),
        }
    }

    /// Returns the range of coordinates that shows all `values`: from 0, or between powers of ten; for
    /// lengths, with a margin at both ends.
    fn range(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let values = values.filter(|value| *value > 0.0).map(|value| value.clamp(MIN_VALUE, MAX_VALUE));
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        match self.scale {
            Scale::Linear => 0.0..1.05 * high,
            Scale::Log2 => low.log2() - 0.5..high.log2() + 0.5,
            Scale::Log10 => {
                let low = low.log10().floor();
                low..high.log10().ceil().max(low + 1.0)
            }
        }
    }

    /// Formats the label of a coordinate; on a logarithmic axis only whole powers have one.
    fn text(&self, coordinate: f64) -> String {
        let is_whole = (coordinate - coordinate.round()).abs() < 1e-9;
        match self.scale {
            Scale::Linear => (self.label)(coordinate),
            _ if is_whole => (self.label)(self.value(coordinate.round())),
            _ => String::new(),
        }
    }

    fn labels(&self, range: &Range<f64>) -> usize {
        match self.scale {
            Scale::Linear => 6,
            Scale::Log10 => (range.end - range.start).round() as usize + 1,
            Scale::Log2 => 10,
        }
    }
}

/// Mark of a series. Without a vertical axis each series is a row; bars and percentiles are for rows only.
pub(crate) enum Mark {
    /// A dot for the median, and marks for the 99th and the 99.9th percentile.
    Percentiles([f64; 3]),
    /// A bar, and below it a thin grey one for comparison; 0 for none.
    Bar(f64, f64),
    /// A line through points, in the order of the first coordinate; dashed if it only serves for comparison.
    Line(Vec<(f64, f64)>, bool),
}

pub(crate) struct Series {
    pub(crate) name: String,
    /// Formatted value at the right of a row; empty for a line.
    pub(crate) value: String,
    pub(crate) colour: RGBColor,
    pub(crate) mark: Mark,
}

impl Series {
    fn points(&self) -> Vec<(f64, f64)> {
        match &self.mark {
            Mark::Percentiles(values) => values.map(|value| (value, 0.0)).to_vec(),
            Mark::Bar(value, reference) => vec![(*value, 0.0), (*reference, 0.0)],
            Mark::Line(points, _) => points.clone(),
        }
    }
}

/// Part of a chart, with an optional heading.
#[derive(Default)]
pub(crate) struct Panel {
    pub(crate) heading: String,
    pub(crate) series: Vec<Series>,
    /// Marked values of the horizontal axis, with their names.
    pub(crate) marks: Vec<(f64, String)>,
}

/// Panels side by side with the same axes. Without a vertical axis each series is a row, with its name at the
/// left and its value at the right; otherwise the names of lines stand beside their last points.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) about: &'a str,
    pub(crate) x: Axis<'a>,
    pub(crate) y: Option<Axis<'a>>,
    pub(crate) panels: Vec<Panel>,
}

impl Chart<'_> {
    /// Draws the chart as an SVG file.
    pub(crate) fn svg(&self) -> Result<String, ChartError> {
        let all = || self.panels.iter().flat_map(|panel| &panel.series);
        let longest = self.panels.iter().map(|panel| panel.series.len()).max().unwrap_or(0) as i32;
        let names = text_width(all().map(|series| series.name.as_str()));
        let values = text_width(all().map(|series| series.value.as_str()));
        // Long names of rows widen the chart instead of shrinking the plot.
        let (width, height, room) = match self.y {
            None => (WIDTH.max(names + values + WIDTH / 2), ROW * longest, (names, values)),
            Some(_) => (WIDTH, LINES_HEIGHT.max(NAME_STEP * longest), (14, names.min(WIDTH / 2))),
        };
        let points = || all().flat_map(Series::points);
        let rows = f64::from(longest)..0.0;
        let y = self.y.map_or(rows, |axis| axis.range(points().map(|(_, y)| y)));
        let ranges = (self.x.range(points().map(|(x, _)| x)), y);
        let mut text = String::new();
        let size = (width as u32, (HEADER + height + FOOTER) as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw_text(self.title, &bold(16), (MARGIN, 10))?;
        for (line, y) in wrapped(self.about, width - 2 * MARGIN).into_iter().zip([32, 47]) {
            root.draw_text(line, &font(12), (MARGIN, y))?;
        }
        let (_, area) = root.split_vertically(HEADER);
        for (area, panel) in area.split_evenly((1, self.panels.len().max(1))).iter().zip(&self.panels) {
            self.draw_panel(area, panel, &ranges, room)?;
        }
        root.present()?;
        drop(area);
        drop(root);
        Ok(text)
    }

    fn draw_panel(
        &self,
        area: &Area<'_>,
        panel: &Panel,
        (across, up): &(Range<f64>, Range<f64>),
        (left, right): (i32, i32),
    ) -> Result<(), ChartError> {
        let mut builder = ChartBuilder::on(area);
        builder.x_label_area_size(FOOTER).margin_left(left).margin_right(right);
        if self.y.is_some() {
            builder.y_label_area_size(76).margin_top(10);
        }
        let mut chart = builder.build_cartesian_2d(across.clone(), up.clone())?;
        let vertical = |coordinate: &f64| self.y.map_or_else(String::new, |axis| axis.text(*coordinate));
        let horizontal = |coordinate: &f64| self.x.text(*coordinate);
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(self.x.labels(across)).x_label_formatter(&horizontal).x_desc(self.x.name);
        match self.y {
            None => mesh.disable_y_axis().disable_y_mesh(),
            Some(y) => {
                mesh.y_labels(y.labels(up)).y_label_formatter(&vertical).y_desc(y.name).disable_x_mesh()
            }
        };
        mesh.axis_style(GRID).bold_line_style(GRID).light_line_style(TRANSPARENT);
        mesh.label_style(font(11)).axis_desc_style(font(12)).draw()?;
        if self.y.is_some() {
            draw_text(&mut chart, (across.start, up.end), (4, -8), &panel.heading, 12, HPos::Left)?;
        }
        for (value, name) in &panel.marks {
            let at = self.x.coordinate(*value);
            chart.draw_series([PathElement::new(vec![(at, up.start), (at, up.end)], MARK)])?;
            draw_text(&mut chart, (at, up.end), (3, 8), name, 10, HPos::Left)?;
        }
        for (index, series) in panel.series.iter().enumerate() {
            if self.y.is_none() {
                let y = index as f64 + 0.5;
                draw_text(&mut chart, (across.start, y), (-10, 0), &series.name, 12, HPos::Right)?;
                draw_text(&mut chart, (across.end, y), (right - 12, 0), &series.value, 12, HPos::Right)?;
            }
            self.draw_series(&mut chart, index, series)?;
        }
        self.draw_names(area, &chart, panel)
    }

    fn draw_series(
        &self,
        chart: &mut Plane<'_, '_>,
        index: usize,
        Series { mark, colour, .. }: &Series,
    ) -> Result<(), ChartError> {
        let x = |value: f64| self.x.coordinate(value);
        let left = chart.x_range().start;
        let row = index as f64 + 0.5;
        let bar = |value: f64, top: f64, bottom: f64, colour: RGBColor| {
            Rectangle::new([(left, row + top), (x(value), row + bottom)], colour.filled())
        };
        match mark {
            Mark::Percentiles([p50, p99, p999]) => {
                let [from, bar, end] = [*p50, p99.max(*p50), p999.max(*p50)].map(x);
                let line = |from, to, width| PathElement::new(vec![from, to], colour.stroke_width(width));
                let upright = |at, half, width| line((at, row - half), (at, row + half), width);
                chart.draw_series([
                    line((from, row), (end, row), 2),
                    upright(end, 0.2, 2),
                    upright(bar, 0.27, 3),
                ])?;
                chart.draw_series([Circle::new((from, row), 5, colour.filled())])?;
            }
            Mark::Bar(value, reference) if *reference > 0.0 => {
                let grey = bar(*reference, 0.15, 0.3, COLOURS[6]);
                chart.draw_series([bar(*value, -0.35, 0.1, *colour), grey])?;
            }
            Mark::Bar(value, _) => {
                chart.draw_series([bar(*value, -0.3, 0.3, *colour)])?;
            }
            Mark::Line(points, dashed) => {
                let style = colour.stroke_width(2);
                let points = || points.iter().map(|point| self.at(*point));
                // A line is also dashed if its colour is used a second time.
                match (dashed, index / COLOURS.len()) {
                    (false, 0) => chart.draw_series(LineSeries::new(points(), style))?,
                    (true, _) => chart.draw_series(DashedLineSeries::new(points(), 7, 5, style))?,
                    (false, _) => chart.draw_series(DashedLineSeries::new(points(), 4, 4, style))?,
                };
                chart.draw_series(points().map(|point| Circle::new(point, 3, style.filled())))?;
            }
        }
        Ok(())
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.coordinate(x), self.y.map_or(y, |axis| axis.coordinate(y)))
    }

    /// Writes the names of lines beside their last points, moved apart where they would overlap.
    fn draw_names(&self, area: &Area<'_>, chart: &Plane<'_, '_>, panel: &Panel) -> Result<(), ChartError> {
        let end = |(index, series): (usize, &Series)| match &series.mark {
            Mark::Line(points, _) => Some((chart.backend_coord(&self.at(*points.last()?)).1, index)),
            _ => None,
        };
        let mut ends: Vec<(i32, usize)> = panel.series.iter().enumerate().filter_map(end).collect();
        ends.sort_unstable();
        let (columns, rows) = chart.plotting_area().get_pixel_range();
        let (left, top) = area.get_base_pixel();
        let mut next = rows.start;
        for (position, &(wanted, index)) in ends.iter().enumerate() {
            let below = (ends.len() - 1 - position) as i32;
            let at = wanted.min(rows.end - NAME_STEP * below).max(next);
            next = at + NAME_STEP;
            let series = &panel.series[index];
            let style = font(12).color(&series.colour).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&series.name, &style, (columns.end + 10 - left, at - top))?;
        }
        Ok(())
    }
}

fn draw_text(
    chart: &mut Plane<'_, '_>,
    at: (f64, f64),
    offset: (i32, i32),
    text: &str,
    size: i32,
    anchor: HPos,
) -> Result<(), ChartError> {
    let style = font(size).pos(Pos::new(anchor, VPos::Center));
    chart.draw_series([EmptyElement::at(at) + Text::new(text.to_owned(), offset, style)])?;
    Ok(())
}

fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn bold(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().style(FontStyle::Bold).color(&INK)
}

/// Returns the width of the longest of these texts.
fn text_width<'a>(texts: impl Iterator<Item = &'a str>) -> i32 {
    texts.map(|text| (text.chars().count() as f64 * CHARACTER) as i32 + 22).max().unwrap_or(0).max(60)
}

/// Splits a text into one or two lines: between its parts if the first one then fits, otherwise between
/// words.
fn wrapped(text: &str, width: i32) -> Vec<&str> {
    let fits = |line: &str| line.chars().count() as f64 * CHARACTER <= f64::from(width);
    if fits(text) {
        return vec![text];
    }
    let broken_at = |mark: &str| {
        let mut parts = text.rmatch_indices(mark).map(|(at, _)| (&text[..at], &text[at + mark.len()..]));
        parts.find(|(first, second)| fits(first) && fits(second))
    };
    let broken = broken_at(" · ").or_else(|| broken_at(" "));
    broken.map_or(vec![text], |(first, second)| vec![first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis<'static> {
        Axis { name: "time", scale, label: &|value| format!("{value} s") }
    }

    fn row(name: &str, mark: Mark) -> Series {
        Series { name: name.to_owned(), value: "3 s".to_owned(), colour: COLOURS[0], mark }
    }

    fn rows(title: &str, scale: Scale, series: Vec<Series>) -> Result<String, ChartError> {
        let panels = vec![Panel { series, ..Panel::default() }];
        Chart { title, about: "", x: axis(scale), y: None, panels }.svg()
    }

    #[test]
    fn axes_show_all_values() {
        assert_eq!(axis(Scale::Log10).range([120.0, 45_000.0].into_iter()), 2.0..5.0);
        assert_eq!(axis(Scale::Log10).range([100.0].into_iter()), 2.0..3.0);
        assert_eq!(axis(Scale::Linear).range([3.0, 40.0].into_iter()), 0.0..42.0);
        assert_eq!(axis(Scale::Log2).range([64.0, 4096.0].into_iter()), 5.5..12.5);
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for value in [f64::NAN, 0.0, -1.0, 1e-300, 1e300, f64::INFINITY] {
                let range = axis(scale).range([value].into_iter());
                assert!(range.start.is_finite() && range.start < range.end, "{range:?}");
                let row = |value| row("", Mark::Percentiles([value; 3]));
                assert!(rows("", scale, vec![row(value), row(1.0)]).is_ok());
            }
        }
    }

    #[test]
    fn only_powers_are_labelled_on_a_logarithmic_axis() {
        assert_eq!(axis(Scale::Log10).text(3.0), "1000 s");
        assert_eq!(axis(Scale::Log10).text(3.5), "");
        assert_eq!(axis(Scale::Log2).text(4.0), "16 s");
        assert_eq!(axis(Scale::Linear).text(3.5), "3.5 s");
    }

    #[test]
    fn a_long_subtitle_takes_two_lines() {
        let width = (20.0 * CHARACTER) as i32;
        assert_eq!(wrapped("of twenty characters", width), ["of twenty characters"]);
        assert_eq!(wrapped("two processors · there and back", width), ["two processors", "there and back"]);
        assert_eq!(wrapped("one two three four five six", width), ["one two three four", "five six"]);
        let endless = "a".repeat(99);
        assert_eq!(wrapped(&endless, width), [endless.as_str()]);
    }

    #[test]
    fn texts_are_escaped() {
        let row = row("<script> & \"c\"", Mark::Bar(3.0, 1.0));
        let svg = rows("a < b", Scale::Linear, vec![row]).expect("an SVG file");
        assert!(svg.contains("a &lt; b") && svg.contains("&lt;script&gt; &amp; "), "{svg}");
        assert!(!svg.contains("<script"));
    }
}
