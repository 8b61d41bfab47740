//! Bulk buffers passed along with messages: moved, lent, several, none; and invalid handles.

use std::time::Duration;

use tombolo::bulk::Transfers;
use tombolo::interface::{Call, CallError, Decline, Fault, Handle, Never, Response, ServeError};
use tombolo::{Buffer, BulkOptions, Channel, Domain, Pool, PoolOptions, Trust};
use tombolo_stubs::rights::{
    Buffers, BuffersClient, BuffersHandler, BuffersPass, BuffersPassReply, BuffersPassRequest, BuffersServer,
};

use super::expect;
use crate::regions::pattern;
use crate::{Outcome, PATIENCE};

pub(super) const HASH: u64 = Buffers::HASH;

/// Number of refused calls per client.
const REFUSED: u64 = 3;
const BUFFER_BYTES: u64 = 65_536;
const COUNT: u32 = 6;

fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// Options for `-`, `none` or the node of a window: trust between the ends, and the window that contains the
/// pool.
fn place(place: &str) -> (BulkOptions, PoolOptions) {
    let options = PoolOptions::new(BUFFER_BYTES, COUNT);
    match place {
        "none" => (BulkOptions::default().trust(Trust::None), options.trust(Trust::None)),
        "-" => (BulkOptions::default(), options),
        node => (BulkOptions::default(), options.reachable_from(node)),
    }
}

struct Adder {
    transfers: Transfers,
}

impl BuffersHandler for Adder {
    fn pass(&mut self, request: Call<'_, BuffersPass>) -> Result<Response<BuffersPassReply>, Decline<Never>> {
        let mut bytes = vec![0; BUFFER_BYTES as usize];
        let mut total = 0;
        let mut given = Vec::new();
        for handle in request.given()?.iter() {
            let buffer = self.transfers.within(Duration::ZERO).claim(handle?)?;
            let bytes = &mut bytes[..buffer.len_bytes() as usize];
            buffer.read(0, bytes)?;
            total += sum_of(bytes);
            given.push(buffer);
        }
        if let Some(handle) = request.lent()? {
            let shared = self.transfers.within(Duration::ZERO).claim(handle)?;
            let bytes = &mut bytes[..shared.len_bytes() as usize];
            shared.read(0, bytes)?;
            total += sum_of(bytes);
        }
        let first = given.into_iter().next();
        let back = first.map(|buffer| self.transfers.move_to(buffer)).transpose();
        let back = back?;
        Ok(BuffersPassReply { sum: total, back }.into())
    }
}

pub(super) fn serve(domain: &Domain, mut channel: Channel, trust: &str) -> Outcome {
    let transfers = channel.open_bulk(domain, &place(trust).0, &[])?;
    let mut server = BuffersServer::bind(channel)?;
    let mut adder = Adder { transfers };
    loop {
        match server.serve_one(&mut adder) {
            Ok(true) => {}
            Ok(false) => return Err("the client says nothing".into()),
            Err(ServeError::Ended(error)) if error.is_peer_gone() => break,
            Err(error) => return Err(error.into()),
        }
    }
    expect("calls refused", server.counts().refused, REFUSED)
}

fn filled(pool: &Pool, seed: u8, length_bytes: u64) -> Result<Buffer, tombolo::Error> {
    let mut buffer = pool.take()?;
    buffer.write(0, &pattern(seed, length_bytes as usize))?;
    buffer.set_part(0, length_bytes)?;
    Ok(buffer)
}

pub(super) fn call(domain: &Domain, mut channel: Channel, how: &str) -> Outcome {
    let (bulk, pool) = place(how);
    let pool = domain.create_pool(&pool)?;
    let transfers = channel.open_bulk(domain, &bulk, std::slice::from_ref(&pool))?;
    let mut client = BuffersClient::bind(channel, ())?;
    let lengths = [8, 4096, BUFFER_BYTES - 8, BUFFER_BYTES];
    let mut claimed = None;
    for pieces in [0, 1, 4, 2, 4, 4] {
        let mut total = 0;
        let buffers = lengths[..pieces].iter().enumerate().map(|(seed, length)| {
            total += sum_of(&pattern(seed as u8, *length as usize));
            filled(&pool, seed as u8, *length)
        });
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let given = if pieces == 0 { Vec::new() } else { transfers.move_all(buffers)? };
        let lent = filled(&pool, 9, 128)?;
        let (lent, kept) = transfers.share(lent)?;
        total += sum_of(&pattern(9, 128));
        let request = BuffersPassRequest { given: &given, lent: Some(lent) };
        let reply = client.pass(&request)?;
        let (sum, back) = (reply.sum()?, reply.back()?);
        expect("the sum", sum, total)?;
        expect("whether one came back", back.is_some(), pieces > 0)?;
        if let Some(back) = back {
            let buffer = transfers.claim(back)?;
            let mut found = vec![0; lengths[0] as usize];
            buffer.read(0, &mut found)?;
            expect("what came back", found, pattern(0, lengths[0] as usize))?;
            claimed = given.first().copied();
        }
        drop(kept);
    }
    // Handles that were claimed before, never sent, and lent but declared as moved. The last is lost by that.
    let claimed = claimed.ok_or("nothing was claimed")?;
    let never = Handle { object: claimed.object ^ 0x4000_0000 };
    let lent = filled(&pool, 1, 64)?;
    let (lent, kept) = transfers.share(lent)?;
    let refused: [_; REFUSED as usize] = [claimed, never, Handle { object: lent.object }];
    for (number, handle) in refused.into_iter().enumerate() {
        let request = BuffersPassRequest { given: &[handle], lent: None };
        let outcome = client.pass(&request);
        let is_refused = matches!(outcome, Err(CallError::Fault(Fault::Refused)));
        expect(&format!("buffer {number} is refused"), is_refused, true)?;
    }
    drop(kept);
    let until = std::time::Instant::now() + PATIENCE;
    while pool.counts().free < COUNT {
        transfers.settle()?;
        if std::time::Instant::now() > until {
            return Err(format!("not all buffers came back: {:?}", pool.counts()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
