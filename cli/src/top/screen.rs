//! The page on a terminal: drawn anew at each look, at a key and when the terminal's size changes; the terminal is as before
//! afterwards, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::sys::signal::Signal;
use ratatui_core::terminal::Frame;
use ratatui_core::text::Text;

use super::page::{self, Choice, Head};
use super::rates::Look;
use super::terminal::Taken;

/// How long a key is waited for: a signal that arrives meanwhile is noticed that much later at most.
const WAIT: Duration = Duration::from_millis(200);

/// The signals that end a program.
const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// What a key does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Quits,
    Changes,
    Nothing,
}

/// Shows what `look` finds, each `interval`, until a key or a signal ends it. Returns the signal.
pub(super) fn show(
    interval: Duration,
    mut look: impl FnMut() -> (Head, Look),
) -> Result<Option<Signal>, String> {
    let arrived = Arc::new(AtomicUsize::new(0));
    for signal in ENDING {
        signal_hook::flag::register_usize(signal as i32, Arc::clone(&arrived), signal as usize)
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    let named = |error: std::io::Error| format!("the terminal: {error}");
    let mut taken = Taken::new().map_err(named)?;
    let mut choice = Choice::default();
    let (mut head, mut found) = look();
    let mut next = Instant::now() + interval;
    loop {
        let drawn = taken
            .terminal
            .draw(|frame| draw(frame, &head, &found, &choice));
        drawn.map_err(named)?;
        loop {
            let signal = arrived.load(Ordering::Acquire);
            if let Ok(signal) = Signal::try_from(i32::try_from(signal).unwrap_or(0)) {
                return Ok(Some(signal));
            }
            let now = Instant::now();
            if !head.ended && now >= next {
                (head, found) = look();
                next = now + interval;
                break;
            }
            let left = match head.ended {
                true => WAIT,
                false => WAIT.min(next - now),
            };
            if !event::poll(left).map_err(named)? {
                continue;
            }
            match event::read().map_err(named)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    match obey(key, &mut choice, head.ended) {
                        Does::Quits => return Ok(None),
                        Does::Changes => break,
                        Does::Nothing => {}
                    }
                }
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
}

/// Draws the page, on the whole of the screen.
pub(super) fn draw(frame: &mut Frame<'_>, head: &Head, look: &Look, choice: &Choice) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = page::screen(head, look, choice, width, height);
    frame.render_widget(Text::from(lines), area);
}

/// Does what a key asks for.
fn obey(key: KeyEvent, choice: &mut Choice, ended: bool) -> Does {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return Does::Quits,
        KeyCode::Char('q') | KeyCode::Esc => return Does::Quits,
        _ if ended => return Does::Quits,
        KeyCode::Char('p') | KeyCode::Tab => {
            choice.tab = choice.tab.next();
            choice.skip = 0;
        }
        KeyCode::Char('o') => choice.order = choice.order.next(),
        KeyCode::Down => choice.skip += 1,
        KeyCode::PageDown => choice.skip += 10,
        KeyCode::Up => choice.skip = choice.skip.saturating_sub(1),
        KeyCode::PageUp => choice.skip = choice.skip.saturating_sub(10),
        KeyCode::Home => choice.skip = 0,
        _ => return Does::Nothing,
    }
    Does::Changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::tables::{Order, Tab};

    #[test]
    fn keys_are_obeyed() {
        let mut choice = Choice::default();
        let mut press = |code, ended| {
            let does = obey(KeyEvent::from(code), &mut choice, ended);
            (does, choice.tab, choice.order, choice.skip)
        };
        let (routines, busiest) = (Tab::Routines, Order::Busiest);
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(code, false), (Does::Quits, routines, busiest, 0));
        }
        assert_eq!(press(KeyCode::Char('c'), false).0, Does::Nothing);
        assert_eq!(press(KeyCode::Char('x'), true).0, Does::Quits);
        let processes = Tab::Processes;
        assert_eq!(
            press(KeyCode::Char('p'), false),
            (Does::Changes, processes, busiest, 0)
        );
        assert_eq!(press(KeyCode::Down, false).3, 1);
        assert_eq!(press(KeyCode::PageDown, false).3, 11);
        assert_eq!(press(KeyCode::Up, false).3, 10);
        assert_eq!(press(KeyCode::Char('o'), false).2, Order::Total);
        assert_eq!(
            press(KeyCode::Tab, false),
            (Does::Changes, Tab::Devices, Order::Total, 0)
        );
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(obey(control, &mut choice, false), Does::Quits);
    }
}
