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
/// Prints a link to open on this computer. The page shows nodes with their processors, links with their
/// traffic, domains with their output, channels, memory, names and events. It is only served to processes of
/// this user that have the token in the link. With --steer the page can also start jobs, pause, end, repeat
/// and move domains, and set processor frequencies; jobs that it started end with this command. When the
/// machine goes down, the page waits for the next one of that name.
///
/// /metrics serves Prometheus; it takes the token as a bearer token.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo web                                 watch the machine that is up
  tombolo web --steer --images target/images  also change it, and start these images
  tombolo web --results results               draw results of `tombolo bench --json`
  tombolo web --json | jq -r .url             for other programs
From another computer, by ssh:
  ssh -L 7420:127.0.0.1:7420 HOST tombolo web --port 7420")]
pub(crate) struct Options {
    /// The port to listen on [default: 7420 if it is free, otherwise any]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// The loopback address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST.into())]
    bind: IpAddr,

    /// Let the page change the machine
    #[arg(long)]
    steer: bool,

    /// Images, or folders of images, that the page can start [default: this folder]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    images: Vec<PathBuf>,

    /// Show the results of `tombolo bench` in this folder
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,

    /// Print the link and the token as JSON
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
            command: programs::main_program_path()?,
            results: options.results.clone(),
        },
    )
    .map_err(serve_failure)?;
    let machine = domain.machine_name().to_owned();
    // The server attaches by itself; this attachment would keep a machine's monitor waiting.
    drop(domain);
    if options.json {
        let (address, token) = (format!("http://{}", server.address()), server.token().to_owned());
        print_json(&Report { url: server.link(), address, token, machine, steer: options.steer })?;
    } else {
        print(format!("{}\n", server.link()))?;
        let how = if options.steer { "can be changed" } else { "can be looked at" };
        context.info(format!("machine {machine} {how} there; Ctrl-C ends it"));
    }
    let stopper = server.stopper();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    Ok(server.run()?)
}

/// Converts an error of the server. A non-loopback address is a usage error.
fn serve_failure(error: ServeError) -> Failure {
    match error {
        ServeError::NotLoopback(_) => Failure::Usage { message: error.to_string(), hint: None },
        error => error.into(),
    }
}
