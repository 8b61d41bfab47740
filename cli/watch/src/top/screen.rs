//! The terminal, while the screen is shown.

use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use tombolo_web::StateCache;

use super::app::{App, Command, Tab};
use super::draw;
use super::hubs::HubWatch;
use super::machine_client::{MachineClient, Request};
use crate::failure::Failure;

/// Interval between two screens without key presses.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Timeout for the screen to end: a blocked terminal could delay it forever.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Guard that restores the terminal when dropped. A panic also restores it, before its message.
struct Screen {
    /// Never dropped: its destructor would report a closed terminal on standard error, which is that
    /// terminal.
    terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    fn new() -> io::Result<Screen> {
        Ok(Screen { terminal: ManuallyDrop::new(ratatui::try_init()?) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal cannot be restored.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Input of the screen.
enum Input {
    Event(Event),
    /// A signal, or the terminal was closed.
    End,
}

/// Shows the screen until the user leaves it.
pub(super) fn run(cache: &StateCache, mut app: App) -> Result<(), Failure> {
    let client = MachineClient::start(cache).map_err(Failure::system("start a thread"))?;
    let hubs = HubWatch::start(cache).map_err(Failure::system("start a thread"))?;
    let (sender, inputs) = channel();
    end_on_signals_and_hangup(sender.clone()).map_err(Failure::system("listen for signals"))?;
    let mut screen = Screen::new().map_err(Failure::system("set up the terminal"))?;
    read_terminal(sender).map_err(Failure::system("start a thread"))?;
    loop {
        if let Some(text) = client.take_result() {
            app.show_message(text);
        }
        app.hubs = hubs.rows(app.tab == Tab::Hubs);
        let (snapshot, output) = (cache.snapshot(), client.output());
        match screen.terminal.draw(|frame| draw::screen(frame, &mut app, &snapshot, &output)) {
            Ok(_) => {}
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(Failure::system("write to the terminal")(error)),
        }
        match next(&inputs, &mut app) {
            Some(Command::Quit) => return Ok(()),
            Some(Command::Steer(action, id)) => client.request(Request::Steer(action, id)),
            Some(Command::ShowOutput(id)) => client.request(Request::ShowOutput(id)),
            None => {}
        }
    }
}

/// Returns whether an error means that the other side of the terminal is closed.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Waits for keys, and handles all that have arrived, because they can arrive faster than screens are drawn.
fn next(inputs: &Receiver<Input>, app: &mut App) -> Option<Command> {
    let mut timeout = REDRAW_INTERVAL;
    loop {
        match inputs.recv_timeout(timeout) {
            Ok(Input::Event(Event::Key(key))) => {
                if let Some(command) = app.key(key) {
                    return Some(command);
                }
            }
            Ok(Input::Event(_)) => {}
            Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Some(Command::Quit),
            Err(RecvTimeoutError::Timeout) => return None,
        }
        timeout = Duration::ZERO;
    }
}

/// Reads the terminal on a separate thread: crossterm's reader returns neither at the end of the input nor
/// for signals, but retries.
fn read_terminal(inputs: Sender<Input>) -> io::Result<()> {
    std::thread::Builder::new().name("terminal".into()).spawn(move || {
        loop {
            let input = event::read().map_or(Input::End, Input::Event);
            let is_end = matches!(input, Input::End);
            if inputs.send(input).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(())
}

/// Ends the screen on a signal or when the terminal is closed; ends the process itself if the screen does
/// not.
fn end_on_signals_and_hangup(inputs: Sender<Input>) -> io::Result<()> {
    let (signalled, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, write.try_clone()?)?;
    }
    std::thread::Builder::new().name("ending".into()).spawn(move || {
        let input = io::stdin();
        let mut sources = [
            PollFd::new(&signalled, PollFlags::IN),
            // Hang-ups are always reported.
            PollFd::new(&input, PollFlags::empty()),
        ];
        while matches!(poll(&mut sources, None), Err(rustix::io::Errno::INTR)) {}
        let _ = inputs.send(Input::End);
        std::thread::sleep(EXIT_TIMEOUT);
        let _ = disable_raw_mode();
        std::process::exit(1);
    })?;
    Ok(())
}
