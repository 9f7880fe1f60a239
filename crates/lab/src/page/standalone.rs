//! Charts as one SVG that stands by itself: its colours are in its elements, so that any program shows it.

use super::svg::{LETTERS, WIDTH};
use super::words::escaped;

const CSS: &str = include_str!("page.css");
/// The page's names of the colours, by the number of [`super::svg::Ink`].
const COLOURS: [&str; 16] = [
    "text",
    "aside",
    "grid",
    "measured",
    "configured",
    "published",
    "bad",
    "l0",
    "l1",
    "l2",
    "l3",
    "l4",
    "l5",
    "l6",
    "l7",
    "l8",
];
const FONTS: &str = "system-ui,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif";
/// Free room around charts, and the height of a line of words, in pixels.
const MARGIN: u32 = 12;
const LINE: u32 = 20;
/// Letters of a title that stand side by side in a chart's width.
const TITLE: usize = 56;

/// A chart with its title and what it shows, as the page has it.
pub(super) struct TitledChart {
    pub(super) title: String,
    pub(super) words: String,
    pub(super) chart: String,
}

/// All charts one below the other; a sentence if there are none.
pub(super) fn standalone(title: &str, charts: &[TitledChart]) -> String {
    let mut body = String::new();
    let mut down = MARGIN;
    let line = |body: &mut String, down: &mut u32, text: &str, bold: bool, colour: &str| {
        let cut: String = match text.chars().count() > TITLE {
            true => text.chars().take(TITLE - 1).chain(['…']).collect(),
            false => text.to_owned(),
        };
        let weight = if bold { " font-weight=\"600\"" } else { "" };
        *down += LINE;
        *body += &format!(
            "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"{LETTERS}\"{weight} fill=\"{}\">{}</text>",
            *down - LINE / 3,
            light(colour),
            escaped(&cut)
        );
    };
    line(&mut body, &mut down, title, true, "text");
    if charts.is_empty() {
        line(&mut body, &mut down, "nothing was measured that can be drawn", false, "aside");
    }
    for TitledChart { title, words, chart } in charts {
        let Some((height, drawn)) = nested(chart, down + 2 * LINE) else { continue };
        line(&mut body, &mut down, title, true, "text");
        line(&mut body, &mut down, words, false, "aside");
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

/// A chart as the page has it, so far down in another one and with its own colours; and its height in pixels.
fn nested(chart: &str, down: u32) -> Option<(u32, String)> {
    let (_, from_box) = chart.split_once("viewBox=\"0 0 ")?;
    let (size, _) = from_box.split_once('"')?;
    let (wide, tall) = size.split_once(' ')?;
    let (wide, tall): (u32, u32) = (wide.parse().ok()?, tall.parse().ok()?);
    let height = tall * WIDTH / wide.max(1);
    let place = format!(
        "<svg x=\"{MARGIN}\" y=\"{down}\" width=\"{WIDTH}\" height=\"{height}\" font-size=\"{}\" ",
        LETTERS * wide / WIDTH
    );
    let mut drawn = chart.replacen("<svg xmlns=\"http://www.w3.org/2000/svg\" ", &place, 1);
    for (number, name) in COLOURS.iter().enumerate() {
        let colour = light(name);
        drawn =
            drawn.replace(&format!("class=\"f{number}\""), &format!("fill=\"{colour}\"")).replace(
                &format!("class=\"s{number}\""),
                &format!("fill=\"none\" stroke=\"{colour}\""),
            );
    }
    Some((height, drawn))
}

/// A colour of the page by day.
fn light(name: &str) -> &'static str {
    let begin = CSS.find(&format!("--{name}:")).map_or(0, |at| at + name.len() + 3);
    CSS[begin..].split([';', '}']).next().unwrap_or("#000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_has_a_colour_of_the_page() {
        for name in COLOURS.iter().chain(&["page"]) {
            let colour = light(name);
            let digits = colour.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {colour}"));
            assert!(digits.chars().all(|digit| digit.is_ascii_hexdigit()), "{name}: {colour}");
        }
    }
}
