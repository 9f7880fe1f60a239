//! What charts are drawn into: SVG whose colours are the page's, light or dark, and whose points are few
//! bytes each.
//!
//! The backend that comes with plotters writes colours into every element and one element for each point:
//! 225 000 points would be 18 MB.

use core::fmt::{self, Write};
use std::collections::BTreeSet;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, IntoFont, ShapeStyle, TextStyle};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use super::words::escaped;

/// Steps of the drawing in one pixel of a page on which it stands in its own size.
pub(super) const FINE: u32 = 4;
/// How wide every chart is, in pixels: of a telephone, most of it.
pub(super) const WIDTH: u32 = 420;
/// How tall letters are, in pixels: 11 on a telephone of 390.
pub(super) const LETTERS: u32 = 13;

/// What something is drawn as; the page says which colour that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    /// Words that matter less.
    Aside,
    /// Lines to read values by.
    Grid,
    Measured,
    Configured,
    Published,
    Bad,
    /// One of several, by its number.
    Line(u8),
}

/// Colours for lines that stand side by side.
pub(super) const LINES: u8 = 9;

impl Ink {
    const fn number(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Aside => 1,
            Self::Grid => 2,
            Self::Measured => 3,
            Self::Configured => 4,
            Self::Published => 5,
            Self::Bad => 6,
            Self::Line(line) => 7 + line % LINES,
        }
    }
}

impl Color for Ink {
    /// Its number, which becomes a class.
    fn to_backend_color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: (0, 0, self.number()) }
    }
}

/// Lines of this width, in steps.
pub(super) fn line(ink: Ink, width: u32) -> ShapeStyle {
    ShapeStyle { color: ink.to_rgba(), filled: false, stroke_width: width }
}

/// What is filled, so dense.
pub(super) fn filled(ink: Ink, share: f64) -> ShapeStyle {
    ShapeStyle { color: ink.mix(share), filled: true, stroke_width: 0 }
}

/// Words, and which of their corners or edges stands where they are put.
pub(super) fn letters(ink: Ink, h_pos: HPos, v_pos: VPos) -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, LETTERS * FINE).into_font();
    TextStyle { font, color: ink.to_backend_color(), pos: Pos::new(h_pos, v_pos) }
}

/// How wide words are at most likely, in steps: what draws them knows, this does not.
pub(super) fn width(words: &str) -> u32 {
    words.chars().count() as u32 * LETTERS * FINE * 16 / 25
}

/// Where a chart is drawn.
pub(super) type Area<'a> = DrawingArea<Svg<'a>, Shift>;
/// How drawing ends; it fails only by a fault of ours.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<fmt::Error>>;

/// A chart so many pixels high; what it shows is told to who cannot see it. Points are as large as `dot`,
/// in steps.
pub(super) fn svg(
    height: u32,
    label: &str,
    dot: i32,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> String {
    let (width, height) = (WIDTH * FINE, height * FINE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{}\">",
        escaped(label)
    );
    let backend =
        Svg { out: &mut out, size: (width, height), dot: dot.max(1), dots: BTreeSet::new() };
    let area = backend.into_drawing_area();
    let drawn = draw(&area).and_then(|()| area.present());
    drop(area);
    match drawn {
        Ok(()) => out + "</svg>",
        Err(error) => format!(
            "<p class=\"void\">this chart was not drawn: {}</p>",
            escaped(&error.to_string())
        ),
    }
}

pub(super) struct Svg<'a> {
    out: &'a mut String,
    size: (u32, u32),
    dot: i32,
    /// Which are drawn, by class, row and column of dots: what falls on one is one.
    dots: BTreeSet<(u8, i32, i32)>,
}

type Done = Result<(), DrawingErrorKind<fmt::Error>>;

impl Svg<'_> {
    fn put(&mut self, text: fmt::Arguments<'_>) -> Done {
        self.out.write_fmt(text).map_err(DrawingErrorKind::DrawingError)
    }

    /// Points as a path each colour: dots that touch are one stroke.
    fn put_dots(&mut self) -> Done {
        let dots: Vec<_> = core::mem::take(&mut self.dots).into_iter().collect();
        let dot = self.dot;
        for group in dots.chunk_by(|a, b| a.0 == b.0) {
            self.put(format_args!("<path class=\"s{}\" stroke-width=\"{dot}\" d=\"", group[0].0))?;
            let mut pen = (0, 0);
            for run in group.chunk_by(|a, b| a.1 == b.1 && a.2 + 1 == b.2) {
                let (at, length) = ((run[0].2 * dot, run[0].1 * dot), run.len() as i32 * dot);
                let sign = if at.1 < pen.1 { "" } else { " " };
                self.put(format_args!("m{}{sign}{}h{length}", at.0 - pen.0, at.1 - pen.1))?;
                pen = (at.0 + length, at.1);
            }
            self.put(format_args!("\"/>"))?;
        }
        Ok(())
    }

    /// What a shape looks like; nothing where it is not seen.
    fn look<S: BackendStyle>(style: &S, filled: bool) -> Option<String> {
        let BackendColor { alpha, rgb: (_, _, ink) } = style.color();
        if alpha <= 0.0 {
            return None;
        }
        let mut look = match filled {
            true => format!("class=\"f{ink}\""),
            false => format!("class=\"s{ink}\" stroke-width=\"{}\"", style.stroke_width().max(1)),
        };
        if alpha < 1.0 {
            look += &format!(" opacity=\"{alpha}\"");
        }
        Some(look)
    }

    fn shape<S: BackendStyle>(
        &mut self,
        points: impl IntoIterator<Item = BackendCoord>,
        style: &S,
        filled: bool,
    ) -> Done {
        let Some(look) = Self::look(style, filled) else { return Ok(()) };
        self.put(format_args!("<path {look} d=\""))?;
        let mut pen: Option<BackendCoord> = None;
        for (x, y) in points {
            match pen {
                None => self.put(format_args!("M{x} {y}"))?,
                Some((from, _)) if from == x => self.put(format_args!("V{y}"))?,
                Some((_, from)) if from == y => self.put(format_args!("H{x}"))?,
                Some(_) => self.put(format_args!("L{x} {y}"))?,
            }
            pen = Some((x, y));
        }
        self.put(format_args!("{}\"/>", if filled { "Z" } else { "" }))
    }
}

impl DrawingBackend for Svg<'_> {
    type ErrorType = fmt::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        self.put_dots()
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        self.dots.insert((color.rgb.2, y.div_euclid(self.dot), x.div_euclid(self.dot)));
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Done {
        self.shape([from, to], style, false)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        self.shape([(left, top), (right, top), (right, bottom), (left, bottom)], style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        self.shape(path, style, false)
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        let Some(look) = Self::look(style, fill) else { return Ok(()) };
        self.put(format_args!("<circle {look} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Done {
        self.shape(corners, style, true)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let Pos { h_pos, v_pos } = style.anchor();
        let anchor = match h_pos {
            HPos::Left => "",
            HPos::Center => " text-anchor=\"middle\"",
            HPos::Right => " text-anchor=\"end\"",
        };
        let tall = f64::from(LETTERS * FINE);
        // From where it is put to the line that letters stand on.
        let down = match v_pos {
            VPos::Top => 0.76 * tall,
            VPos::Center => 0.35 * tall,
            VPos::Bottom => -0.22 * tall,
        };
        let (x, y) = (at.0, at.1 + down as i32);
        let ink = style.color().rgb.2;
        self.put(format_args!(
            "<text class=\"f{ink}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>",
            escaped(text)
        ))
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<fmt::Error>> {
        Ok((width(text), LETTERS * FINE))
    }
}
