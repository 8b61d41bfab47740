//! Charts as SVG files, drawn by plotters.
//!
//! Coordinates are logarithms where an axis is logarithmic, so that one kind of chart serves all axes.

use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// What goes wrong when a chart is drawn.
pub(crate) type ChartError = DrawingAreaErrorKind<std::io::Error>;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type RangedCoordf64 = plotters::coord::types::RangedCoordf64;

/// Colours that people with every kind of sight can tell apart (Okabe and Ito).
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
const FONT: &str = "Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// All lengths below are pixels.
const WIDTH: i32 = 860;
const HEADER: i32 = 64;
const FOOTER: i32 = 48;
const MARGIN: i32 = 16;
const ROW: i32 = 26;
const LINES_HEIGHT: i32 = 336;
const NAME_STEP: i32 = 15;

/// The width of a character of 12 pixels: an estimate, since the reader's font is not known.
const CHARACTER: f64 = 6.8;

/// Values outside of these are drawn as these: files of results may hold any number.
const MIN_VALUE: f64 = 1e-6;
const MAX_VALUE: f64 = 1e15;

/// How an axis maps values to coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scale {
    Linear,
    Log2,
    Log10,
}

/// An axis: its scale, what it is called, and how its labels are written.
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

    /// The coordinates that show all `values`: from 0, or between powers of ten; of lengths with room at both
    /// ends.
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

    /// The label of a coordinate; only whole powers have one on a logarithmic axis.
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

/// What a row shows of its value.
pub(crate) enum Shape {
    /// A dot for the median and marks for the 99th and the 99.9th percentile.
    Percentiles([f64; 3]),
    /// A bar, and below it a thin grey one to compare with; 0 for none.
    Bar(f64, f64),
}

/// A row of a chart of rows.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// The value in words, at the right.
    pub(crate) value: String,
    pub(crate) colour: RGBColor,
}

impl Row {
    fn values(&self) -> Vec<f64> {
        match self.shape {
            Shape::Percentiles(values) => values.to_vec(),
            Shape::Bar(value, reference) => vec![value, reference],
        }
    }
}

/// Draws rows over a common axis.
pub(crate) fn rows(title: &str, about: &str, axis: Axis<'_>, rows: &[Row]) -> Result<String, ChartError> {
    let names = text_width(rows.iter().map(|row| row.name.as_str()));
    let values = text_width(rows.iter().map(|row| row.value.as_str()));
    // Long names widen the chart instead of leaving no room for it.
    let width = WIDTH.max(names + values + WIDTH / 2);
    let height = HEADER + ROW * rows.len() as i32 + FOOTER;
    svg((width, height), title, about, |area| {
        let range = axis.range(rows.iter().flat_map(Row::values));
        let bottom = rows.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(FOOTER)
            .margin_left(names)
            .margin_right(values)
            .build_cartesian_2d(range.clone(), bottom..0.0)?;
        draw_axis(&mut chart, axis, &range)?;
        for (index, row) in rows.iter().enumerate() {
            let y = index as f64 + 0.5;
            let left = range.start;
            draw_text(&mut chart, (left, y), (-10, 0), &row.name, 12, HPos::Right)?;
            draw_text(&mut chart, (range.end, y), (values - 12, 0), &row.value, 12, HPos::Right)?;
            draw_shape(&mut chart, axis, left, y, row)?;
        }
        Ok(())
    })
}

fn draw_axis(chart: &mut Plane<'_, '_>, axis: Axis<'_>, range: &Range<f64>) -> Result<(), ChartError> {
    chart
        .configure_mesh()
        .disable_y_axis()
        .disable_y_mesh()
        .x_labels(axis.labels(range))
        .x_label_formatter(&|coordinate| axis.text(*coordinate))
        .x_desc(axis.name)
        .axis_style(GRID)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(font(11))
        .axis_desc_style(font(12))
        .draw()
}

fn draw_shape(
    chart: &mut Plane<'_, '_>,
    axis: Axis<'_>,
    left: f64,
    y: f64,
    row: &Row,
) -> Result<(), ChartError> {
    let bar = |value: f64, top: f64, bottom: f64, colour: RGBColor| {
        Rectangle::new([(left, top), (axis.coordinate(value), bottom)], colour.filled())
    };
    match row.shape {
        Shape::Percentiles([p50, p99, p999]) => {
            let [from, bar, end] = [p50, p99.max(p50), p999.max(p50)].map(|value| axis.coordinate(value));
            let line = |from, to, width| PathElement::new(vec![from, to], row.colour.stroke_width(width));
            chart.draw_series([
                line((from, y), (end, y), 2),
                line((end, y - 0.2), (end, y + 0.2), 2),
                line((bar, y - 0.27), (bar, y + 0.27), 3),
            ])?;
            chart.draw_series([Circle::new((from, y), 5, row.colour.filled())])?;
        }
        Shape::Bar(value, reference) if reference > 0.0 => {
            chart.draw_series([
                bar(value, y - 0.35, y + 0.1, row.colour),
                bar(reference, y + 0.15, y + 0.3, COLOURS[6]),
            ])?;
        }
        Shape::Bar(value, _) => {
            chart.draw_series([bar(value, y - 0.3, y + 0.3, row.colour)])?;
        }
    }
    Ok(())
}

/// A line of a chart of lines.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Whether the line only serves for comparison.
    pub(crate) dashed: bool,
    /// In the order of the first coordinate.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A part of a chart of lines, with a heading if it has one.
pub(crate) struct Panel {
    pub(crate) heading: String,
    pub(crate) lines: Vec<Line>,
    /// Values of the horizontal axis that are marked, and their names.
    pub(crate) marks: Vec<(f64, String)>,
}

/// Draws panels of lines side by side, over the same vertical axis. The names of lines stand beside their
/// last points.
pub(crate) fn lines(
    title: &str,
    about: &str,
    (x, y): (Axis<'_>, Axis<'_>),
    panels: &[Panel],
) -> Result<String, ChartError> {
    let all = || panels.iter().flat_map(|panel| &panel.lines);
    let values = || all().flat_map(|line| &line.points);
    let longest = panels.iter().map(|panel| panel.lines.len()).max().unwrap_or(0) as i32;
    let height = HEADER + FOOTER + LINES_HEIGHT.max(NAME_STEP * longest);
    let ranges = (x.range(values().map(|(x, _)| *x)), y.range(values().map(|(_, y)| *y)));
    let names = text_width(all().map(|line| line.name.as_str())).min(WIDTH / 2);
    svg((WIDTH, height), title, about, |area| {
        for (area, panel) in area.split_evenly((1, panels.len().max(1))).iter().zip(panels) {
            draw_panel(area, panel, (x, y), &ranges, names)?;
        }
        Ok(())
    })
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel,
    (x, y): (Axis<'_>, Axis<'_>),
    ranges: &(Range<f64>, Range<f64>),
    names: i32,
) -> Result<(), ChartError> {
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(FOOTER)
        .margin_left(14)
        .y_label_area_size(76)
        .margin_top(10)
        .margin_right(names)
        .build_cartesian_2d(ranges.0.clone(), ranges.1.clone())?;
    chart
        .configure_mesh()
        .x_labels(x.labels(&ranges.0))
        .y_labels(y.labels(&ranges.1))
        .x_label_formatter(&|coordinate| x.text(*coordinate))
        .y_label_formatter(&|coordinate| y.text(*coordinate))
        .x_desc(x.name)
        .y_desc(y.name)
        .disable_x_mesh()
        .axis_style(GRID)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(font(11))
        .axis_desc_style(font(12))
        .draw()?;
    let (low, high) = (ranges.1.start, ranges.1.end);
    draw_text(&mut chart, (ranges.0.start, high), (4, -8), &panel.heading, 12, HPos::Left)?;
    for (value, name) in &panel.marks {
        let at = x.coordinate(*value);
        chart.draw_series([PathElement::new(vec![(at, low), (at, high)], RGBColor(0xbb, 0xbb, 0xbb))])?;
        draw_text(&mut chart, (at, high), (3, 8), name, 10, HPos::Left)?;
    }
    for (index, line) in panel.lines.iter().enumerate() {
        draw_line(&mut chart, (x, y), index, line)?;
    }
    draw_names(area, &chart, (x, y), panel)
}

fn draw_line(
    chart: &mut Plane<'_, '_>,
    (x, y): (Axis<'_>, Axis<'_>),
    index: usize,
    line: &Line,
) -> Result<(), ChartError> {
    let style = COLOURS[index % COLOURS.len()].stroke_width(2);
    let points = || line.points.iter().map(|(at, value)| (x.coordinate(*at), y.coordinate(*value)));
    // A colour that is used again is dashed, too.
    match (line.dashed, index / COLOURS.len()) {
        (false, 0) => chart.draw_series(LineSeries::new(points(), style))?,
        (true, _) => chart.draw_series(DashedLineSeries::new(points(), 7, 5, style))?,
        (false, _) => chart.draw_series(DashedLineSeries::new(points(), 4, 4, style))?,
    };
    chart.draw_series(points().map(|point| Circle::new(point, 3, style.filled())))?;
    Ok(())
}

/// Writes the names of lines beside their last points, moved apart where they would overlap.
fn draw_names(
    area: &Area<'_>,
    chart: &Plane<'_, '_>,
    (x, y): (Axis<'_>, Axis<'_>),
    panel: &Panel,
) -> Result<(), ChartError> {
    let mut ends: Vec<(i32, usize)> = Vec::new();
    for (index, line) in panel.lines.iter().enumerate() {
        let Some((at, value)) = line.points.last() else { continue };
        ends.push((chart.backend_coord(&(x.coordinate(*at), y.coordinate(*value))).1, index));
    }
    ends.sort_unstable();
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let (left, top) = area.get_base_pixel();
    let mut next = rows.start;
    for (position, &(wanted, index)) in ends.iter().enumerate() {
        let below = (ends.len() - 1 - position) as i32;
        let at = wanted.min(rows.end - NAME_STEP * below).max(next);
        next = at + NAME_STEP;
        let style = font(12).color(&COLOURS[index % COLOURS.len()]).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&panel.lines[index].name, &style, (columns.end + 10 - left, at - top))?;
    }
    Ok(())
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

/// A file of this size with a title and a line or two about it; `draw` gets the area below them.
fn svg(
    (width, height): (i32, i32),
    title: &str,
    about: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (width as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw_text(title, &bold(16), (MARGIN, 10))?;
    for (line, y) in wrapped(about, width - 2 * MARGIN).into_iter().zip([32, 47]) {
        root.draw_text(line, &font(12), (MARGIN, y))?;
    }
    let (_, area) = root.split_vertically(HEADER);
    draw(&area)?;
    root.present()?;
    drop(area);
    drop(root);
    Ok(text)
}

fn font(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn bold(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().style(FontStyle::Bold).color(&INK)
}

/// Room for the longest of these texts.
fn text_width<'a>(texts: impl Iterator<Item = &'a str>) -> i32 {
    texts.map(|text| (text.chars().count() as f64 * CHARACTER) as i32 + 22).max().unwrap_or(0).max(60)
}

/// A text as one line or two, broken between its parts if the first then fits, or else between words.
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
                let row = |value| Row {
                    name: String::new(),
                    shape: Shape::Percentiles([value; 3]),
                    value: String::new(),
                    colour: COLOURS[0],
                };
                assert!(rows("", "", axis(scale), &[row(value), row(1.0)]).is_ok());
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
        let row = Row {
            name: "<script> & \"c\"".to_owned(),
            shape: Shape::Bar(3.0, 1.0),
            value: "3 s".to_owned(),
            colour: COLOURS[0],
        };
        let svg = rows("a < b", "", axis(Scale::Linear), &[row]).expect("an SVG file");
        assert!(svg.contains("a &lt; b") && svg.contains("&lt;script&gt; &amp; "), "{svg}");
        assert!(!svg.contains("<script"));
    }
}
