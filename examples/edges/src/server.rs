//! The server reads frames where they lie, and answers with buffers of its own.

use std::time::Duration;

use edges::{BUFFERS, EdgesError, EdgesFind, EdgesFindReply, EdgesHandler, EdgesServer, FRAME_BYTES};
use tombolo::bulk::Transfers;
use tombolo::interface::{Call, Decline, Response};
use tombolo::{BulkOptions, Channel, Domain, Error, Pool};

use crate::{NAME, Outcome};

/// State of the service for one client.
struct Session {
    transfers: Transfers,
    /// Pool for the results.
    pool: Pool,
}

impl EdgesHandler for Session {
    fn find(
        &mut self,
        request: Call<'_, EdgesFind>,
    ) -> Result<Response<EdgesFindReply>, Decline<EdgesError>> {
        // The number of a buffer is a claim of the client: what it did not lend is refused here.
        let frame = self.transfers.within(Duration::ZERO).claim(request.frame()?)?;
        if frame.len_bytes() != FRAME_BYTES as u64 {
            return Err(Decline::Error(EdgesError::WRONG_LENGTH));
        }
        let mut pixels = vec![0; FRAME_BYTES];
        frame.read(0, &mut pixels)?;
        let count = edges::find_edges(&mut pixels);
        let mut answer = self.pool.take()?;
        answer.write(0, &pixels)?;
        let edges = self.transfers.move_to(answer)?;
        Ok(EdgesFindReply { count, edges }.into())
    }
}

/// Serves one client after another, all from one pool.
pub(crate) fn serve(domain: &Domain) -> Outcome {
    let listener = crate::options().export(domain, NAME)?;
    println!("serving on {}", domain.node_name());
    let mut pool = None;
    loop {
        let channel = match listener.accept() {
            Err(Error::TimedOut { .. }) => continue,
            accepted => accepted?,
        };
        let pool = match &pool {
            Some(pool) => Pool::clone(pool),
            None => pool.insert(domain.create_pool(&edges::pool_between(domain, &channel)?)?).clone(),
        };
        let client = channel.peer();
        // Whatever ends one client does not end the server.
        if let Err(error) = serve_one(domain, channel, &pool) {
            println!("{error}");
        }
        println!("{} of {BUFFERS} buffers are free after client {client}", pool.counts().free);
    }
}

/// Serves one client until it is gone, and recovers the buffers that it had.
fn serve_one(domain: &Domain, mut channel: Channel, pool: &Pool) -> Outcome {
    let options = BulkOptions::default();
    let transfers = channel.open_bulk(domain, &options, std::slice::from_ref(pool))?;
    let mut server = EdgesServer::bind(channel)?;
    let mut session = Session { transfers: transfers.clone(), pool: pool.clone() };
    let ended = loop {
        if let Err(ended) = server.serve_one(&mut session) {
            break ended;
        }
    };
    println!("{} buffers were with the client", pool.counts().away);
    transfers.recover()?;
    Err(ended.into())
}
