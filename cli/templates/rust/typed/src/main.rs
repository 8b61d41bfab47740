//! A service and its clients: `tombolo run --on host,arm0 @name@.tbi`

use std::error::Error;

use greeter::{
    GreetError, Greeter, GreeterClient, GreeterGreet, GreeterGreetReply, GreeterGreetRequest, GreeterHandler,
};
use tombolo::Domain;
use tombolo::interface::{Call, CallError, Decline, Response, Service, Turn};

/// The stubs of `greeter.tbl`, which the build script writes.
#[allow(dead_code, reason = "this program does not use all of them")]
mod greeter {
    include!(concat!(env!("OUT_DIR"), "/greeter.rs"));
}

fn main() {
    if let Err(error) = play() {
        eprintln!("@name@: {error}");
        std::process::exit(1);
    }
}

/// Runs this domain's rank: the first serves the others.
fn play() -> Result<(), Box<dyn Error>> {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    match (job.rank(), job.size()) {
        (_, 1) => Err("start two of me or more: tombolo run --on host,arm0 @name@.tbi".into()),
        (0, size) => serve(&domain, &job.name("greeter"), size - 1),
        _ => call(&domain, &job.name("greeter")),
    }
}

/// State of the server.
struct Desk {
    node: String,
    greeting: String,
    count: u64,
}

impl GreeterHandler for Desk {
    fn greet<'s>(
        &'s mut self,
        request: Call<'_, GreeterGreet>,
    ) -> Result<Response<GreeterGreetReply<'s>>, Decline<GreetError>> {
        let name = request.name()?.to_string()?;
        if name.is_empty() {
            return Err(Decline::Error(GreetError::NO_NAME));
        }
        self.count += 1;
        self.greeting = format!("hello {name}, from {}", self.node);
        Ok(GreeterGreetReply { greeting: &self.greeting, count: self.count }.into())
    }
}

/// Rank 0 serves the others until all of them have left.
fn serve(domain: &Domain, name: &str, clients: u32) -> Result<(), Box<dyn Error>> {
    let mut service = Service::<Greeter>::export(domain, name)?;
    let mut desk = Desk { node: domain.node_name().to_owned(), greeting: String::new(), count: 0 };
    let mut left = 0;
    while left < clients {
        match service.serve_one(&mut desk)? {
            Turn::Left(_, error) if error.is_peer_gone() => left += 1,
            Turn::Left(_, error) | Turn::Refused(error) => return Err(error.into()),
            Turn::Connected(_) | Turn::Served(_) => {}
        }
    }
    println!("{} greetings from {}", desk.count, desk.node);
    Ok(())
}

/// The others call the service; an empty name is declined with an error reply, and the call itself succeeds.
fn call(domain: &Domain, name: &str) -> Result<(), Box<dyn Error>> {
    let mut client = GreeterClient::connect(domain, name)?;
    let reply = client.greet(&GreeterGreetRequest { name: domain.node_name() })?;
    println!("{}", reply.greeting()?.to_string()?);
    if let Err(CallError::Declined(GreetError::NO_NAME)) = client.greet(&GreeterGreetRequest { name: "" }) {
        println!("declined: no_name");
    }
    Ok(())
}
