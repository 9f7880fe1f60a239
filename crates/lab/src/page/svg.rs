//! Charts as SVG: with the page's colours, or with light colours in a separate file.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::markup::escaped;

pub(super) const FINE: i32 = 4;
/// Width in pixels. It fits a telephone.
pub(super) const WIDTH: i32 = 420;
/// Letter size in pixels: 11 on a 390-pixel telephone.
pub(super) const LETTERS: i32 = 13;

/// CSS class number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ink(u8);

const COLOURS: &str =
    "text aside grid measured configured published bad l0 l1 l2 l3 l4 l5 l6 l7 l8";

impl Ink {
    pub(super) const TEXT: Self = Self(0);
    pub(super) const ASIDE: Self = Self(1);
    pub(super) const GRID: Self = Self(2);
    pub(super) const MEASURED: Self = Self(3);
    pub(super) const CONFIGURED: Self = Self(4);
    pub(super) const PUBLISHED: Self = Self(5);
    pub(super) const BAD: Self = Self(6);

    pub(super) const fn line(number: usize) -> Self {
        Self(7 + (number % 9) as u8)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor(&'static str, f64);

impl Anchor {
    pub(super) const LEFT: Self = Self("", 0.35);
    pub(super) const LEFT_TOP: Self = Self("", 0.76);
    pub(super) const LEFT_BOTTOM: Self = Self("", -0.22);
    pub(super) const RIGHT: Self = Self(" text-anchor=\"end\"", 0.35);
    pub(super) const RIGHT_TOP: Self = Self(" text-anchor=\"end\"", 0.76);
    pub(super) const RIGHT_BOTTOM: Self = Self(" text-anchor=\"end\"", -0.22);
    pub(super) const CENTER_TOP: Self = Self(" text-anchor=\"middle\"", 0.76);
}

/// Likely max text width in steps; only browsers know it.
pub(super) fn width(words: &str) -> i32 {
    words.chars().count() as i32 * LETTERS * FINE * 16 / 25
}

pub(super) type Place = (i32, i32);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) words: String,
    /// For screen readers.
    pub(super) label: String,
    pub(super) height: i32,
    pub(super) body: String,
    pub(super) dot: i32,
    pub(super) points: Vec<(Ink, Place)>,
}

const PAGE: &str = "xmlns=\"http://www.w3.org/2000/svg\"";

impl Chart {
    pub(super) fn new(title: &str, label: String, height: i32) -> Self {
        let height = height * FINE;
        let (title, words, body) = (title.to_owned(), String::new(), String::new());
        Self { title, words, label, height, body, dot: 1, points: Vec::new() }
    }

    pub(super) fn path(&mut self, places: impl IntoIterator<Item = Place>, ink: Ink, width: i32) {
        self.put_path(&format!("class=\"s{}\" stroke-width=\"{width}\"", ink.0), places, "");
    }

    pub(super) fn shape(
        &mut self,
        places: impl IntoIterator<Item = Place>,
        ink: Ink,
        opacity: f64,
    ) {
        let opacity = if opacity < 1.0 { format!(" opacity=\"{opacity}\"") } else { String::new() };
        self.put_path(&format!("class=\"f{}\"{opacity}", ink.0), places, "Z");
    }

    pub(super) fn bar(&mut self, from: Place, to: Place, ink: Ink, opacity: f64) {
        self.shape([from, (to.0, from.1), to, (from.0, to.1)], ink, opacity);
    }

    fn put_path(&mut self, look: &str, places: impl IntoIterator<Item = Place>, end: &str) {
        self.body += &format!("<path {look} d=\"");
        let mut pen: Option<Place> = None;
        for (x, y) in places {
            self.body += &match pen {
                None => format!("M{x} {y}"),
                Some((from, _)) if from == x => format!("V{y}"),
                Some((_, from)) if from == y => format!("H{x}"),
                Some(_) => format!("L{x} {y}"),
            };
            pen = Some((x, y));
        }
        self.body += &format!("{end}\"/>");
    }

    pub(super) fn disc(&mut self, (x, y): Place, radius: i32, ink: Ink) {
        let (radius, ink) = (radius * FINE, ink.0);
        self.body += &format!("<circle class=\"f{ink}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }

    pub(super) fn text(&mut self, text: &str, ink: Ink, anchor: Anchor, (x, y): Place) {
        let Anchor(side, down) = anchor;
        let (y, text) = (y + (down * f64::from(LETTERS * FINE)) as i32, escaped(text));
        self.body += &format!("<text class=\"f{}\" x=\"{x}\" y=\"{y}\"{side}>{text}</text>", ink.0);
    }

    /// One path per colour, with points merged: 225,000 elements would take 18 MB.
    fn dots(&self) -> String {
        let dot = self.dot;
        let seen = |(ink, (x, y)): &(Ink, Place)| (*ink, y.div_euclid(dot), x.div_euclid(dot));
        let dots: Vec<_> =
            self.points.iter().map(seen).collect::<BTreeSet<_>>().into_iter().collect();
        let mut out = String::new();
        for group in dots.chunk_by(|a, b| a.0 == b.0) {
            out += &format!("<path class=\"s{}\" stroke-width=\"{dot}\" d=\"", group[0].0.0);
            let mut pen = (0, 0);
            for run in group.chunk_by(|a, b| a.1 == b.1 && a.2 + 1 == b.2) {
                let (at, length) = ((run[0].2 * dot, run[0].1 * dot), run.len() as i32 * dot);
                let sign = if at.1 < pen.1 { "" } else { " " };
                let _ = write!(out, "m{}{sign}{}h{length}", at.0 - pen.0, at.1 - pen.1);
                pen = (at.0 + length, at.1);
            }
            out += "\"/>";
        }
        out
    }

    pub(super) fn length(&self) -> usize {
        self.svg(PAGE).len()
    }

    fn svg(&self, attributes: &str) -> String {
        format!(
            "<svg {attributes} viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}{}</svg>",
            WIDTH * FINE,
            self.height,
            escaped(&self.label),
            self.body,
            self.dots()
        )
    }

    pub(super) fn figure(&self) -> String {
        let words = match self.words.is_empty() {
            true => String::new(),
            false => format!("<small>{}</small>", escaped(&self.words)),
        };
        format!(
            "<figure><figcaption>{}{words}</figcaption>{}</figure>",
            escaped(&self.title),
            self.svg(PAGE)
        )
    }
}

const CSS: &str = include_str!("page.css");
const FONTS: &str = "system-ui,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif";
const MARGIN: i32 = 12;
const LINE: i32 = 20;
const TITLE: usize = 56;

/// Self-contained, with inline colours.
pub(super) fn standalone(title: &str, charts: &[Chart]) -> String {
    let mut body = String::new();
    let mut down = MARGIN;
    let line = |body: &mut String, down: &mut i32, text: &str, bold: bool, colour: &str| {
        let cut: String = match text.chars().count() > TITLE {
            true => text.chars().take(TITLE - 1).chain(['…']).collect(),
            false => text.to_owned(),
        };
        let weight = if bold { " font-weight=\"600\"" } else { "" };
        *down += LINE;
        let (y, colour, text) = (*down - LINE / 3, light(colour), escaped(&cut));
        *body += &format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"{LETTERS}\"{weight} fill=\"{colour}\">{text}</text>"
        );
    };
    line(&mut body, &mut down, title, true, "text");
    if charts.is_empty() {
        line(&mut body, &mut down, "nothing was measured that can be drawn", false, "aside");
    }
    for chart in charts {
        line(&mut body, &mut down, &chart.title, true, "text");
        line(&mut body, &mut down, &chart.words, false, "aside");
        let (height, letters) = (chart.height / FINE, LETTERS * FINE);
        let mut drawn = chart.svg(&format!(
            "x=\"{MARGIN}\" y=\"{down}\" width=\"{WIDTH}\" height=\"{height}\" font-size=\"{letters}\""
        ));
        for (number, name) in COLOURS.split(' ').enumerate() {
            let colour = light(name);
            let (fill, stroke) =
                (format!("fill=\"{colour}\""), format!("fill=\"none\" stroke=\"{colour}\""));
            drawn = drawn.replace(&format!("class=\"f{number}\""), &fill);
            drawn = drawn.replace(&format!("class=\"s{number}\""), &stroke);
        }
        body += &drawn;
        down += height + MARGIN;
    }
    let (width, height) = (WIDTH + 2 * MARGIN, down + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\"><rect width=\"{width}\" height=\"{height}\" \
         fill=\"{}\"/>{body}</svg>\n",
        light("page")
    )
}

fn light(name: &str) -> &'static str {
    let begin = CSS.find(&format!("--{name}:")).map_or(0, |at| at + name.len() + 3);
    CSS[begin..].split([';', '}']).next().unwrap_or("#000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_has_a_colour_of_the_page() {
        for name in COLOURS.split(' ').chain(["page"]) {
            let colour = light(name);
            let digits = colour.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {colour}"));
            assert!(digits.chars().all(|digit| digit.is_ascii_hexdigit()), "{name}: {colour}");
        }
    }
}
