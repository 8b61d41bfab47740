//! The server reads frames where they lie, and answers with buffers of its own.

use std::time::Duration;

use edges::{
    BUFFERS, EdgesError, EdgesFind, EdgesFindReply, EdgesFindRequestView, EdgesHandler, EdgesServer,
    FRAME_BYTES,
};
use tombolo::interface::{Decline, Later};
use tombolo::{BulkOptions, Channel, Domain, Error, Pool, Transfers};

use crate::{NAME, Outcome, PATIENCE};

/// What one client is served from.
struct Session {
    transfers: Transfers,
    /// Where answers are written.
    pool: Pool,
}

impl EdgesHandler for Session {
    fn find(
        &mut self,
        _: Later<EdgesFind>,
        request: EdgesFindRequestView<'_>,
    ) -> Result<EdgesFindReply, Decline<EdgesError>> {
        // The number of a buffer is a claim of the client: what it did not lend is refused here.
        let frame = self.transfers.claim(request.frame()?, Duration::ZERO)?;
        if frame.len_bytes() != FRAME_BYTES as u64 {
            return Err(Decline::Error(EdgesError::WRONG_LENGTH));
        }
        let mut pixels = vec![0; FRAME_BYTES];
        frame.read(0, &mut pixels)?;
        let count = edges::find_edges(&mut pixels);
        let mut answer = self.pool.take()?;
        answer.write(0, &pixels)?;
        let edges = self.transfers.move_to(answer, PATIENCE).map_err(Error::from)?;
        Ok(EdgesFindReply { count, edges })
    }
}

/// Serves one client after another, all from one pool.
pub(crate) fn serve(domain: &Domain) -> Outcome {
    let listener = domain.export(NAME, &crate::options())?;
    println!("serving on {}", domain.node_name());
    let mut pool = None;
    loop {
        let channel = match listener.accept(PATIENCE) {
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

/// Serves one client until it is gone, and has back what it had.
fn serve_one(domain: &Domain, mut channel: Channel, pool: &Pool) -> Outcome {
    let options = BulkOptions::default();
    let transfers = channel.open_bulk(domain, &options, std::slice::from_ref(pool), PATIENCE)?;
    let mut server = EdgesServer::bind(channel)?;
    let mut session = Session { transfers: transfers.clone(), pool: pool.clone() };
    let ended = loop {
        if let Err(ended) = server.serve_one(&mut session, PATIENCE) {
            break ended;
        }
    };
    println!("{} buffers were with the client", pool.counts().away);
    transfers.recover(PATIENCE)?;
    Err(ended.into())
}
