//! The terminal, for as long as the screen is shown.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo_web::Keeper;

use super::app::{App, Command};
use super::asker::{Asker, Wish};
use super::draw;
use crate::failure::Failure;

/// Time between two screens, where no key asks for one.
const PACE: Duration = Duration::from_millis(250);

/// The terminal is as before when this is dropped, whatever the reason. A panic gives it back too, before it is told.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the screen until somebody leaves it.
pub(super) fn run(keeper: &Keeper, mut app: App) -> Result<(), Failure> {
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&over))
            .map_err(Failure::system("listen for signals"))?;
    }
    let asker = Asker::start(keeper).map_err(Failure::system("start a thread"))?;
    let mut terminal = ratatui::try_init().map_err(Failure::system("set up the terminal"))?;
    let _screen = Screen;
    while !over.load(Ordering::Relaxed) {
        if let Some(text) = asker.said() {
            app.say(text);
        }
        let (picture, written) = (keeper.picture(), asker.written());
        terminal
            .draw(|frame| draw::screen(frame, &mut app, &picture, &written))
            .map_err(Failure::system("write to the terminal"))?;
        match next(&mut app)? {
            Some(Command::Quit) => break,
            Some(Command::Steer(action, id)) => asker.wish(Wish::Steer(action, id)),
            Some(Command::Look(id)) => asker.wish(Wish::Look(id)),
            None => {}
        }
    }
    Ok(())
}

/// Waits for keys, and takes all that have come, for they come faster than screens do.
fn next(app: &mut App) -> Result<Option<Command>, Failure> {
    let mut patience = PACE;
    loop {
        match event::poll(patience) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(Failure::system("read the terminal")(error)),
        }
        let read = event::read().map_err(Failure::system("read the terminal"))?;
        if let Event::Key(key) = read
            && let Some(command) = app.key(key)
        {
            return Ok(Some(command));
        }
        patience = Duration::ZERO;
    }
}
