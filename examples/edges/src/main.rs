//! Frames go to a typed service that finds the edges in them: `edges serve`, and `edges send 2000` beside it.
//!
//! Kill either with frames in flight: the other gets all of its buffers back, and continues.

mod client;
mod server;

use tombolo::{ChannelOptions, Domain};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Name of the service in the machine.
const NAME: &str = "edges";

fn main() {
    if let Err(error) = run() {
        eprintln!("edges: {error}");
        std::process::exit(1);
    }
}

fn run() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => server::serve(&Domain::attach()?),
        ["send", frames] => client::send(&Domain::attach()?, frames.parse()?),
        _ => Err("say `serve`, or `send` and how many frames".into()),
    }
}

/// Returns the channel options with the interface hash, so that a mismatch is refused on connect.
fn options() -> ChannelOptions {
    ChannelOptions::default().interface_hash(edges::Edges::HASH)
}
