//! Capabilities passed along with messages: copied, moved, several, none; and refused ones.

use tombolo::interface::{Call, CallError, Decline, Fault, Handle, Never, Response, ServeError};
use tombolo::region::{Capability, Extent, FarEnd, Region, RegionOptions, Rights};
use tombolo::{Channel, Domain, Endpoint};
use tombolo_stubs::rights::{
    Rights as Interface, RightsClient, RightsHandler, RightsPass, RightsPassReply, RightsPassRequest,
    RightsServer,
};

use super::expect;
use crate::regions::{PAGE_BYTES, pattern};
use crate::{Outcome, PATIENCE};

pub(super) const HASH: u64 = Interface::HASH;

/// Number of refused calls per client.
const REFUSED: u64 = 4;

/// Returns the sum of all bytes of a region.
fn sum(capability: &Capability) -> Result<u64, tombolo::Error> {
    let mapping = capability.map(Rights::READ)?;
    let mut bytes = vec![0; mapping.length_bytes()];
    mapping.read(0, &mut bytes)?;
    Ok(sum_of(&bytes))
}

fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

struct Adder {
    domain: Domain,
    client: FarEnd,
    /// Endpoint to notify, and the sum to send.
    told: Option<(Endpoint, u64)>,
}

impl RightsHandler for Adder {
    fn pass(&mut self, request: Call<'_, RightsPass>) -> Result<Response<RightsPassReply>, Decline<Never>> {
        let (domain, client) = (&self.domain, self.client);
        let endpoint = domain.accept(client, request.endpoint()?)?;
        let region = domain.accept(client, request.region()?)?;
        let mut total = sum(&region)?;
        if let Some(any) = request.any()? {
            total += sum(&domain.accept(client, any)?)?;
        }
        for part in request.parts()?.iter() {
            total += sum(&domain.accept(client, part?)?)?;
        }
        // The region would end with this program's capability; the copy keeps it alive.
        let back = (*region).copy_to(client, Rights::READ)?;
        self.told = Some((endpoint, total));
        Ok(RightsPassReply { sum: total, back: Some(back) }.into())
    }
}

pub(super) fn serve(domain: &Domain, channel: Channel) -> Outcome {
    let client = FarEnd::from(&channel);
    let mut server = RightsServer::bind(channel)?;
    let mut adder = Adder { domain: domain.clone(), client, told: None };
    loop {
        match server.serve_one(&mut adder) {
            Ok(true) => {}
            Ok(false) => return Err("the client says nothing".into()),
            Err(ServeError::Ended(error)) if error.is_peer_gone() => break,
            Err(error) => return Err(error.into()),
        }
        if let Some((endpoint, total)) = adder.told.take() {
            let mut channel = domain.connect(endpoint)?;
            channel.send(&total.to_le_bytes())?;
        }
    }
    expect("calls refused", server.counts().refused, REFUSED)
}

/// Creates a region within reach of all involved nodes and fills it.
fn filled(domain: &Domain, window: Option<&str>, seed: u8) -> Result<Region, tombolo::Error> {
    let options = RegionOptions::new(2 * PAGE_BYTES);
    let options = window.map_or(options.clone(), |node| options.in_window_of(node));
    let region = domain.create_region(&options)?;
    region.map(Rights::READ_WRITE)?.write(0, &pattern(seed, 2 * PAGE_BYTES as usize))?;
    Ok(region)
}

/// Runs the client. `window` names the node whose window contains the memory, if both are not on one kernel.
pub(super) fn call(domain: &Domain, channel: Channel, window: Option<&str>) -> Outcome {
    let server = FarEnd::from(&channel);
    let mut client = RightsClient::bind(channel, ())?;
    let listener = domain.listen()?;
    let endpoint = listener.endpoint().ok_or("it has no endpoint")?.to_copy();
    let lent = filled(domain, window, 1)?;
    let lent_sum = sum_of(&pattern(1, 2 * PAGE_BYTES as usize));
    let half = Extent::new(PAGE_BYTES, PAGE_BYTES);
    let half = lent.derive(Some(half), Rights::READ | Rights::GRANT)?;
    let half_sum = sum_of(&pattern(1, 2 * PAGE_BYTES as usize)[PAGE_BYTES as usize..]);
    let mut stale = None;
    for (with_any, parts) in [(true, 4), (false, 0), (false, 1)] {
        let moved = filled(domain, window, 2)?;
        let any = with_any.then(|| (*lent).copy_to(server, Rights::READ)).transpose()?;
        let parts = (0..parts).map(|_| half.copy_to(server, Rights::READ)).collect::<Result<Vec<_>, _>>()?;
        let expected = sum_of(&pattern(2, 2 * PAGE_BYTES as usize))
            + any.map_or(0, |_| lent_sum)
            + parts.len() as u64 * half_sum;
        let region = moved.move_to(server)?;
        let request = RightsPassRequest { endpoint, region, any, parts: &parts };
        let reply = client.pass(&request)?;
        let (total, back) = (reply.sum()?, reply.back()?);
        expect("the sum", total, expected)?;
        let back = domain.accept(server, back.ok_or("nothing came back")?)?;
        expect("what came back", (sum(&back)?, back.rights()), (sum_of(&pattern(2, 8192)), Rights::READ))?;
        expect("what was moved is lost here", moved.map(Rights::READ).is_err(), true)?;
        let mut told = Vec::new();
        listener.accept()?.recv_into(&mut told)?;
        expect("what the endpoint was told", told, expected.to_le_bytes().to_vec())?;
        stale = Some(region);
    }
    // Capabilities that were accepted before, taken back, never granted, and revoked.
    let stale = stale.ok_or("nothing was moved")?;
    let fresh = filled(domain, window, 3)?;
    let returned = fresh.move_to(server)?;
    let fresh = domain.take_back(returned)?;
    expect("it is this program's again", sum(&fresh)?, sum_of(&pattern(3, 8192)))?;
    let foreign = Handle { object: fresh.id().0 };
    let revoked = half.copy_to(server, Rights::READ)?;
    half.revoke(PATIENCE)?;
    let last = filled(domain, window, 4)?.move_to(server)?;
    let refused: [_; REFUSED as usize] =
        [(stale, None), (returned, None), (foreign, None), (last, Some(revoked))];
    for (number, (region, any)) in refused.into_iter().enumerate() {
        let request = RightsPassRequest { endpoint, region, any, parts: &[] };
        let outcome = client.pass(&request);
        let is_refused = matches!(outcome, Err(CallError::Fault(Fault::Refused)));
        expect(&format!("right {number} is refused"), is_refused, true)?;
    }
    Ok(())
}
