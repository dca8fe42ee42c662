//! The terminal: cells of a page go to it through crossterm, and it is as before afterwards.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color as Colour, Print, ResetColor, SetAttribute};
use crossterm::style::{SetBackgroundColor, SetForegroundColor};
use crossterm::terminal::{self, Clear, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

/// Draws cells on what is written to.
#[derive(Debug)]
pub(super) struct Screen<W: Write> {
    out: W,
}

/// The page's terminal, as long as this value lives.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) terminal: Terminal<Screen<io::Stdout>>,
}

impl Taken {
    /// Takes the terminal of stdout. A panic gives it back, too, before it is told.
    pub(super) fn new() -> io::Result<Taken> {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            hook(panic);
        }));
        terminal::enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(Screen { out: io::stdout() }));
        if taken.is_err() {
            give_back();
        }
        Ok(Taken { terminal: taken? })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was. One that has gone cannot be restored.
fn give_back() {
    let _ = execute!(io::stdout(), ResetColor, LeaveAlternateScreen, Show);
    let _ = terminal::disable_raw_mode();
}

/// The colours of a page as crossterm has them.
fn colour(color: Color) -> Colour {
    match color {
        Color::Black => Colour::Black,
        Color::Green => Colour::DarkGreen,
        Color::Yellow => Colour::DarkYellow,
        Color::Cyan => Colour::DarkCyan,
        Color::DarkGray => Colour::DarkGrey,
        _ => Colour::Reset,
    }
}

/// How a cell looks.
type Look = (Color, Color, Modifier);

impl<W: Write> Screen<W> {
    fn put_on(&mut self, (front, back, modifier): Look) -> io::Result<()> {
        queue!(self.out, SetAttribute(Attribute::Reset))?;
        for (of, attribute) in [
            (Modifier::BOLD, Attribute::Bold),
            (Modifier::UNDERLINED, Attribute::Underlined),
        ] {
            if modifier.contains(of) {
                queue!(self.out, SetAttribute(attribute))?;
            }
        }
        let (front, back) = (colour(front), colour(back));
        queue!(
            self.out,
            SetForegroundColor(front),
            SetBackgroundColor(back)
        )
    }
}

impl<W: Write> Backend for Screen<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut look: Option<Look> = None;
        // Where the cursor is after the cell before.
        let mut cursor: Option<(u16, u16)> = None;
        for (x, y, cell) in content {
            if cursor != Some((x, y)) {
                queue!(self.out, MoveTo(x, y))?;
            }
            // Terminals disagree on the width of what is not ASCII.
            cursor = cell.symbol().is_ascii().then_some((x + 1, y));
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if look != Some(wanted) {
                self.put_on(wanted)?;
                look = Some(wanted);
            }
            queue!(self.out, Print(cell.symbol()))?;
        }
        queue!(self.out, SetAttribute(Attribute::Reset))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        execute!(self.out, Hide)
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        execute!(self.out, Show)
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        cursor::position().map(Position::from)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        execute!(self.out, MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        let region = match region {
            ClearType::All => terminal::ClearType::All,
            ClearType::AfterCursor => terminal::ClearType::FromCursorDown,
            ClearType::BeforeCursor => terminal::ClearType::FromCursorUp,
            ClearType::CurrentLine => terminal::ClearType::CurrentLine,
            ClearType::UntilNewLine => terminal::ClearType::UntilNewLine,
        };
        execute!(self.out, Clear(region))
    }

    fn size(&self) -> io::Result<Size> {
        terminal::size().map(Size::from)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = terminal::window_size()?;
        Ok(WindowSize {
            columns_rows: Size::new(size.columns, size.rows),
            pixels: Size::new(size.width, size.height),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_beside_each_other_are_written_as_one() {
        let mut screen = Screen { out: Vec::new() };
        let mut bold = Cell::new("c");
        bold.modifier = Modifier::BOLD;
        let (a, b, wide) = (Cell::new("a"), Cell::new("b"), Cell::new("\u{65e5}"));
        let cells = [
            (0, 0, &a),
            (1, 0, &b),
            (5, 1, &bold),
            (6, 1, &wide),
            (8, 1, &a),
        ];
        screen.draw(cells.into_iter()).expect("a draw");
        let text = String::from_utf8(screen.out).expect("text");
        assert_eq!(
            text.replace('\u{1b}', "^"),
            "^[1;1H^[0m^[39m^[49mab^[2;6H^[0m^[1m^[39m^[49mc^[0m^[39m^[49m\u{65e5}^[2;9Ha^[0m"
        );
    }
}
