//! A service and its clients: `tombolo run --on host,arm0 @name@.tbi`

use std::error::Error;
use std::time::Duration;

use greeter::{
    GreetError, Greeter, GreeterClient, GreeterGreet, GreeterGreetReply, GreeterGreetRequest,
    GreeterGreetRequestView, GreeterHandler, GreeterServer,
};
use tombolo::interface::{Decline, Later, ServeError};
use tombolo::{ChannelOptions, Domain};

/// The stubs of `greeter.tbl`, which the build script writes.
#[allow(dead_code, reason = "this program does not use all of them")]
mod greeter {
    include!(concat!(env!("OUT_DIR"), "/greeter.rs"));
}

const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    // What `tombolo run` tells each domain: its number, how many there are, a prefix for names of its own job.
    let [rank, size, job] = ["RANK", "SIZE", "JOB"].map(|it| std::env::var(format!("TOMBOLO_{it}")));
    let name = format!("{}/greeter", job.unwrap_or_default());
    let size = size.ok().and_then(|size| size.parse().ok()).unwrap_or(1_u32);
    let result = match rank.as_deref() {
        Ok("0") if size > 1 => serve(&name, size - 1),
        Ok(_) if size > 1 => call(&name),
        _ => Err("start two of me or more: tombolo run --on host,arm0 @name@.tbi".into()),
    };
    if let Err(error) = result {
        eprintln!("@name@: {error}");
        std::process::exit(1);
    }
}

/// What clients are served from.
struct Service {
    node: String,
    greeting: String,
    count: u64,
}

impl GreeterHandler for Service {
    fn greet<'s>(
        &'s mut self,
        _: Later<GreeterGreet>,
        request: GreeterGreetRequestView<'_>,
    ) -> Result<GreeterGreetReply<'s>, Decline<GreetError>> {
        let name = request.name()?.to_string()?;
        if name.is_empty() {
            return Err(Decline::Error(GreetError::NO_NAME));
        }
        self.count += 1;
        self.greeting = format!("hello {name}, from {}", self.node);
        Ok(GreeterGreetReply { greeting: &self.greeting, count: self.count })
    }
}

/// Rank 0 takes up the name and serves one client after the other, each until it leaves.
fn serve(name: &str, clients: u32) -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let listener = domain.export(name, &ChannelOptions::default().interface_hash(Greeter::HASH))?;
    let mut service = Service { node: domain.node_name().to_owned(), greeting: String::new(), count: 0 };
    for _ in 0..clients {
        let mut server = GreeterServer::bind(listener.accept(PATIENCE)?)?;
        loop {
            match server.serve_one(&mut service, PATIENCE) {
                Ok(_) => {}
                Err(ServeError::Ended(error)) if error.is_peer_gone() => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    println!("{} greetings from {}", service.count, service.node);
    Ok(())
}

/// The others are greeted; an empty name is declined, which is no failure of the call.
fn call(name: &str) -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let options = ChannelOptions::default().interface_hash(Greeter::HASH);
    let mut client = GreeterClient::bind(domain.connect(name, &options, PATIENCE)?, ())?;
    let request = GreeterGreetRequest { name: domain.node_name() };
    let greeting = client.greet(&request, PATIENCE, |answer| match answer {
        Ok(reply) => Ok(Ok(reply.greeting()?.to_string()?)),
        Err(error) => Ok(Err(error)),
    })?;
    match greeting {
        Ok(greeting) => println!("{greeting}"),
        Err(error) => return Err(format!("declined: {error}").into()),
    }
    let declined = client.greet(&GreeterGreetRequest { name: "" }, PATIENCE, |answer| Ok(answer.err()))?;
    if declined == Some(GreetError::NO_NAME) {
        println!("declined: no_name");
    }
    Ok(())
}
