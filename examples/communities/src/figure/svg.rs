//! Output of a figure as an SVG file.

use std::fmt::{self, Write as _};
use std::io;

use super::{Circle, Figure, SIDE};

/// Height of the margins above and below the square.
const MARGIN: f64 = 70.0;

/// Approximate width of a letter of a name.
const LETTER: f64 = 9.6;

/// The style sheet. Its colours are distinguishable for colour-blind people, on dark and on light.
const STYLE: &str = "\
svg{background:#fff;color:#1d2430;font-family:system-ui,sans-serif}
.note{fill:#5b6675}.line{stroke:#8a94a3}.name{font-size:15px;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}
@media(prefers-color-scheme:dark){svg{background:#12161c;color:#e8ecf1}.note{fill:#9aa5b4}.line{stroke:#667080}.name{stroke:#12161c}}
text{fill:currentColor}";

/// Fill colours, used in turn.
const FILLS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#777777"];

pub(super) fn write(figure: &Figure, output: &mut impl io::Write) -> io::Result<()> {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = draw(figure, &mut text);
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn draw(figure: &Figure, out: &mut String) -> fmt::Result {
    let height = SIDE + 2.0 * MARGIN;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {} {SIDE} {height}" role="img" aria-labelledby="title">"#,
        -MARGIN
    )?;
    writeln!(out, r#"<title id="title">Communities of {}</title>"#, Escaped(&figure.title))?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(
        out,
        r#"<text x="20" y="-38" font-size="26" font-weight="600">{}</text>"#,
        Escaped(&figure.title)
    )?;
    writeln!(
        out,
        r#"<text class="note" x="20" y="-10" font-size="18">{} vertices, {} edges, {} communities ({} drawn), modularity {:.4}</text>"#,
        figure.vertices,
        figure.edges,
        figure.communities,
        figure.circles.len(),
        figure.modularity
    )?;
    let heaviest = figure.lines.iter().map(|&(_, _, weight)| weight).max().unwrap_or(1).max(1) as f64;
    for &(a, b, weight) in figure.lines.iter().rev() {
        let (Some(a), Some(b)) = (figure.circles.get(a), figure.circles.get(b)) else { continue };
        let part = (weight as f64 / heaviest).sqrt();
        writeln!(
            out,
            r#"<line class="line" x1="{}" y1="{}" x2="{}" y2="{}" stroke-width="{:.1}" stroke-opacity="{:.2}"/>"#,
            a.x,
            a.y,
            b.x,
            b.y,
            1.0 + 9.0 * part,
            0.15 + 0.45 * part
        )?;
    }
    figure.circles.iter().enumerate().try_for_each(|(index, circle)| draw_circle(index, circle, out))?;
    // Names are drawn after all circles, or a neighbour would hide them.
    figure.circles.iter().filter(|circle| circle.r >= 22.0).try_for_each(|circle| draw_name(circle, out))?;
    let nodes: Vec<String> = figure
        .nodes
        .iter()
        .map(|(node, isa, share)| format!("{node} ({isa}) {:.1} %", share * 100.0))
        .collect();
    if !nodes.is_empty() {
        let y = SIDE + 40.0;
        writeln!(
            out,
            r#"<text class="note" x="20" y="{y}" font-size="18">found by {}</text>"#,
            Escaped(&nodes.join(", "))
        )?;
    }
    writeln!(out, "</svg>")
}

fn draw_circle(index: usize, circle: &Circle, out: &mut String) -> fmt::Result {
    let fill = FILLS[index % FILLS.len()];
    writeln!(
        out,
        r#"<circle cx="{}" cy="{}" r="{}" fill="{fill}" fill-opacity="0.8"><title>{} vertices: {}</title></circle>"#,
        circle.x,
        circle.y,
        circle.r,
        circle.size,
        Escaped(&circle.names.join(", "))
    )
}

fn draw_name(circle: &Circle, out: &mut String) -> fmt::Result {
    let Some(name) = circle.names.first() else { return Ok(()) };
    // Estimate the width from the number of letters, and keep names inside the square.
    let half = (name.chars().count() as f64 * LETTER / 2.0).min(SIDE / 2.0);
    let x = circle.x.clamp(half, SIDE - half);
    writeln!(out, r#"<text class="name" x="{x}" y="{}">{}</text>"#, circle.y + 5.0, Escaped(name))
}

/// Text escaped for XML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            '&' => out.write_str("&amp;"),
            // XML forbids control characters, even escaped.
            control if control.is_control() => out.write_char('\u{fffd}'),
            other => out.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_whatever_they_hold() {
        let circle =
            |name: &str| Circle { x: 500.0, y: 500.0, r: 80.0, size: 7, names: vec![name.to_owned()] };
        let figure = Figure {
            kind: "clustered-graph",
            title: "a <b> & c".to_owned(),
            vertices: 14,
            edges: 20,
            modularity: 0.5,
            communities: 2,
            circles: vec![circle("<script>x</script>\u{1}"), circle("libc6")],
            lines: vec![(0, 1, 3), (0, 9, 1)],
            nodes: vec![("host".to_owned(), "x86_64".to_owned(), 0.25)],
        };
        let mut file = Vec::new();
        write(&figure, &mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        assert!(
            text.contains("a &lt;b&gt; &amp; c") && text.contains("&lt;script&gt;x&lt;/script&gt;\u{fffd}"),
            "{text}"
        );
        assert!(!text.contains("<script") && text.matches("<circle").count() == 2, "{text}");
        assert_eq!(text.matches("<line").count(), 1, "a line to nowhere is not drawn");
        assert!(text.contains("host (x86_64) 25.0 %"));
    }
}
