//! `tombolo web`

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo_web::{Options as WebOptions, ServeError, Server};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use tombolo_cli_common::programs;

/// Shows a machine in a browser, live
///
/// Prints a link to open on this computer: nodes with their processors, links and what goes over them, domains with their output,
/// channels, memory, names, events. Only processes of the same user who have the link's token are answered. The page only looks;
/// with --steer it can also start jobs, pause, end, repeat and move domains, and set frequencies. What it started ends with this
/// command. It goes on when the machine goes down, and shows the next of that name.
///
/// /metrics is for Prometheus, with the token as bearer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo web                                 look at the machine that is up
  tombolo web --steer --images target/images  change it too, and start what lies there
  tombolo web --results results               draw what `tombolo bench --json` wrote there
  tombolo web --json | jq -r .url             for other programs
From another computer, by ssh:
  ssh -L 7420:127.0.0.1:7420 HOST tombolo web --port 7420")]
pub(crate) struct Options {
    /// The port [default: 7420 if it is free, else any]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// The address of this computer to listen on: one of loopback
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    bind: IpAddr,

    /// Let the page change something
    #[arg(long)]
    steer: bool,

    /// What the page can start: images, or folders of images [default: this folder]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    images: Vec<PathBuf>,

    /// A folder of results of `tombolo bench`, to be drawn
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,

    /// For machines: print the link and the token as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    url: String,
    address: String,
    token: String,
    machine: String,
    steer: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let images = if options.images.is_empty() { vec![PathBuf::from(".")] } else { options.images.clone() };
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::system("listen for signals"))?;
    let server = Server::bind(
        &domain,
        WebOptions {
            address: options.bind,
            port: options.port,
            steer: options.steer,
            images,
            command: programs::front()?,
            results: options.results.clone(),
        },
    )
    .map_err(refused)?;
    let machine = domain.machine_name().to_owned();
    // The server has its own; this one would keep a machine's monitor waiting.
    drop(domain);
    if options.json {
        let (address, token) = (format!("http://{}", server.address()), server.token().to_owned());
        print_json(&Report { url: server.link(), address, token, machine, steer: options.steer })?;
    } else {
        print(format!("{}\n", server.link()))?;
        let how = if options.steer { "can be changed" } else { "can be looked at" };
        context.say(format!("machine {machine} {how} there; Ctrl-C ends it"));
    }
    let stopper = server.stopper();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    Ok(server.run()?)
}

/// An address that others could reach is a mistake of the command line.
fn refused(error: ServeError) -> Failure {
    match error {
        ServeError::NotLoopback(_) => Failure::Usage { message: error.to_string(), hint: None },
        error => error.into(),
    }
}
