//! A Gantt chart as a picture.

use std::convert::Infallible;

use embedded_graphics::Drawable as _;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::ascii::{FONT_8X13, FONT_9X15, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor as _};
use embedded_graphics::prelude::{DrawTarget, Pixel};
use embedded_graphics::primitives::Rectangle;
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

use super::axis::ticks;
use super::bars::{Kind, Part};
use super::chart::{Chart, Most, Row};
use super::window::Choice;
use crate::trace::model::Trace;

/// The picture's width, and where the bars begin and end, in pixels.
pub(super) const WIDTH: usize = 1600;
pub(super) const LEFT: usize = 330;
const RIGHT: usize = 1510;
/// Where the first row begins.
pub(super) const TOP: usize = 84;
/// The height of a row and of the bars in it.
const ROW: usize = 30;
const BAR: usize = 24;
/// The room above the rows of a device or of the threads.
const APART: usize = 8;
/// The least height of a part of a bar.
const LEAST: usize = 3;
/// The number of marks of the axis.
const MARKS: usize = 10;
/// How wide and high a line of the legend is.
const ENTRY: usize = 620;
const LINE: usize = 24;

const BLACK: Rgb888 = Rgb888::new(30, 30, 30);
const GREY: Rgb888 = Rgb888::new(110, 110, 110);
const GRID: Rgb888 = Rgb888::new(222, 222, 222);
const EMPTY: Rgb888 = Rgb888::new(246, 246, 246);

/// The colour of a kind; much paler for what does not belong to the call.
pub(super) fn colour(kind: Kind, strong: bool) -> Rgb888 {
    let (r, g, b) = match kind {
        Kind::Upload => (31, 119, 180),
        Kind::Download => (255, 140, 26),
        Kind::Peer => (148, 103, 189),
        Kind::Within => (23, 190, 207),
        Kind::Kernel => (44, 160, 44),
        Kind::Wait => (214, 69, 65),
        Kind::Pin => (188, 189, 34),
        Kind::Start => (140, 86, 75),
        Kind::Fault => (227, 119, 194),
        Kind::Call => (120, 144, 170),
        Kind::Other => (160, 160, 160),
    };
    let paler = |c: u8| if strong { c } else { c / 4 + 189 };
    Rgb888::new(paler(r), paler(g), paler(b))
}

/// The pixels of the picture, three bytes each, line by line.
struct Canvas {
    height: usize,
    bytes: Vec<u8>,
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(WIDTH as u32, self.height as u32)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(Point { x, y }, colour) in pixels {
            let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else {
                continue;
            };
            let at = 3 * (y * WIDTH + x);
            if x < WIDTH
                && let Some(pixel) = self.bytes.get_mut(at..at + 3)
            {
                pixel.copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

fn point(x: usize, y: usize) -> Point {
    Point::new(x as i32, y as i32)
}

impl Canvas {
    fn new(height: usize) -> Canvas {
        Canvas {
            height,
            bytes: vec![0xff; 3 * WIDTH * height],
        }
    }

    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb888) {
        let area = Rectangle::new(point(x, y), Size::new(width as u32, height as u32));
        let Ok(()) = self.fill_solid(&area, colour);
    }

    fn text(
        &mut self,
        text: &str,
        (x, y): (usize, usize),
        font: &MonoFont<'_>,
        colour: Rgb888,
        alignment: Alignment,
    ) {
        let style = TextStyleBuilder::new()
            .alignment(alignment)
            .baseline(Baseline::Top)
            .build();
        let letters = MonoTextStyle::new(font, colour);
        let Ok(_) = Text::with_text_style(text, point(x, y), letters, style).draw(self);
    }
}

/// A text of at most this number of characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let begin: String = text.chars().take(most.saturating_sub(3)).collect();
    begin + "..."
}

/// The picture as the bytes of a PNG file.
pub(super) fn png(trace: &Trace, choice: Choice) -> Result<Vec<u8>, String> {
    let most = Most {
        devices: 8,
        threads: 4,
    };
    let canvas = draw(&Chart::new(trace, choice, RIGHT - LEFT, most)?);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, canvas.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&canvas.bytes));
    written.map_err(|error| format!("the picture could not be made: {error}"))?;
    Ok(bytes)
}

fn draw(chart: &Chart) -> Canvas {
    let groups = chart.rows.iter().filter(|r| apart(r)).count();
    let bottom = TOP + chart.rows.len().max(1) * ROW + groups * APART;
    let entries = chart.kinds().len();
    let height = bottom + 96 + (entries.div_ceil(2) + 3) * LINE;
    let mut canvas = Canvas::new(height);
    canvas.text(
        &cut(&chart.title, 155),
        (20, 14),
        &FONT_10X20,
        BLACK,
        Alignment::Left,
    );
    let how = "Rows: the lanes of each device, whose operations run one after the other, and threads of the program. \
               Columns: time, from left to right.";
    canvas.text(how, (20, 42), &FONT_9X15, GREY, Alignment::Left);
    canvas.text(
        "lane busy",
        (RIGHT + 4, TOP - 16),
        &FONT_8X13,
        GREY,
        Alignment::Left,
    );
    let mut y = TOP;
    for row in &chart.rows {
        if apart(row) {
            canvas.fill(20, y + APART / 2, RIGHT - 20, 1, GRID);
            y += APART;
        }
        labels(&mut canvas, row, y);
        canvas.fill(LEFT, y + 3, RIGHT - LEFT, BAR, EMPTY);
        y += ROW;
    }
    axis(&mut canvas, chart, bottom);
    let mut y = TOP;
    for row in &chart.rows {
        y += if apart(row) { APART } else { 0 };
        bars(&mut canvas, chart, row, y + 3);
        y += ROW;
    }
    if chart.rows.is_empty() {
        let none = "No operation of a device and no slice of a thread lies in this time.";
        canvas.text(
            none,
            (LEFT + 20, TOP + 6),
            &FONT_10X20,
            BLACK,
            Alignment::Left,
        );
    }
    legend(&mut canvas, chart, bottom + 80);
    canvas
}

/// Whether a row is the first of its device, or a thread's.
fn apart(row: &Row) -> bool {
    !row.owner.is_empty()
}

fn labels(canvas: &mut Canvas, row: &Row, y: usize) {
    let most = if row.lane.is_empty() { 33 } else { 24 };
    let owner = cut(&row.owner, most);
    canvas.text(&owner, (20, y + 7), &FONT_9X15, BLACK, Alignment::Left);
    canvas.text(
        row.lane,
        (LEFT - 8, y + 8),
        &FONT_8X13,
        BLACK,
        Alignment::Right,
    );
    if let Some(busy) = row.busy {
        let share = format!("{:.1} %", 100.0 * busy);
        canvas.text(
            &share,
            (WIDTH - 16, y + 8),
            &FONT_8X13,
            BLACK,
            Alignment::Right,
        );
    }
}

/// The bars of a row, column by column: the parts of a column lie one on the other, as high as their shares of its time.
fn bars(canvas: &mut Canvas, chart: &Chart, row: &Row, y: usize) {
    for (column, parts) in row.columns.iter().enumerate() {
        let mut left = BAR;
        for part in parts {
            let Part {
                kind,
                strong,
                share,
            } = *part;
            let high = ((share * BAR as f64).round() as usize).max(LEAST).min(left);
            left -= high;
            canvas.fill(LEFT + column, y + left, 1, high, colour(kind, strong));
        }
    }
    let scale = (RIGHT - LEFT) as f64 / chart.window.length() as f64;
    for (name, from, to) in &row.names {
        let wide = to.saturating_sub(*from) as f64 * scale;
        if wide < (8 * name.chars().count() + 8) as f64 {
            continue;
        }
        let x = LEFT as f64 + from.saturating_sub(chart.window.from) as f64 * scale + wide / 2.0;
        let at = (x as usize, y + 6);
        canvas.text(name, at, &FONT_8X13, BLACK, Alignment::Center);
    }
}

fn axis(canvas: &mut Canvas, chart: &Chart, bottom: usize) {
    canvas.fill(LEFT, bottom + 4, RIGHT - LEFT, 1, BLACK);
    for tick in ticks(chart.window, chart.origin, MARKS) {
        let x = LEFT + (tick.at * (RIGHT - LEFT) as f64) as usize;
        canvas.fill(x, TOP, 1, bottom - TOP, GRID);
        canvas.fill(x, bottom + 4, 1, 8, BLACK);
        let at = (x, bottom + 15);
        canvas.text(&tick.text, at, &FONT_8X13, BLACK, Alignment::Center);
    }
    let what = format!("time since {}", chart.since);
    let at = (LEFT.midpoint(RIGHT), bottom + 36);
    canvas.text(&what, at, &FONT_9X15, BLACK, Alignment::Center);
}

fn legend(canvas: &mut Canvas, chart: &Chart, top: usize) {
    let kinds = chart.kinds();
    for (place, (kind, strong)) in kinds.iter().enumerate() {
        let (x, y) = (20 + place % 2 * ENTRY, top + place / 2 * LINE);
        canvas.fill(x, y, 30, 15, colour(*kind, *strong));
        let (name, meaning) = kind.name();
        let whose = match (chart.of_call, strong) {
            (false, _) => "",
            (_, true) => ", for this call",
            (_, false) => ", for others",
        };
        let text = format!("{name}: {meaning}{whose}");
        canvas.text(&text, (x + 40, y), &FONT_9X15, BLACK, Alignment::Left);
    }
    let mut y = top + kinds.len().div_ceil(2) * LINE + 6;
    let high = "A bar is as high as its share of the time of its column of pixels; what is very short has a few pixels.";
    for line in [Some(high), chart.omitted.as_deref()].into_iter().flatten() {
        canvas.text(line, (20, y), &FONT_9X15, GREY, Alignment::Left);
        y += LINE;
    }
}
