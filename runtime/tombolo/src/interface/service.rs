//! Service: one handler for any number of clients, on one thread.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use tombolo_base::{DomainId, OperationTimeout};
use tombolo_interface::{BindError, Interface, Served, Serves};

use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::interface::queued::Queued;
use crate::listener::Listener;
use crate::options::ChannelOptions;
use crate::waitset::{Ready, Token, WaitSet, Waited};

/// Server for any number of clients of an interface, under an exported name. Each client has a channel of its
/// own; an error of one client ends at most its own channel.
///
/// A call stays in its client's ring until the service reaches it, in turn with the calls of other clients.
/// Answers that find no room are queued per client. While 64 answers of a client are queued, the service
/// takes no further calls from that client; the others are served as before.
///
/// ```no_run
/// # use tombolo::{Domain, Error};
/// # use tombolo::interface::{Service, Turn};
/// # use tombolo_stubs::kv::{Kv, KvHandler};
/// # fn serve(handler: &mut impl KvHandler) -> Result<(), Error> {
/// let mut service = Service::<Kv>::export(&Domain::attach()?, "kv")?;
/// loop {
///     if let Turn::Left(client, why) = service.serve_one(handler)? {
///         println!("client {client} left: {why}");
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Service<I> {
    listener: Listener,
    set: WaitSet<Client<I>>,
    timeout: OperationTimeout,
}

/// Result of one turn of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Served a call or a message of this client.
    Served(DomainId),
    /// Accepted a new client.
    Connected(DomainId),
    /// A client closed its channel, died, or broke the protocol.
    Left(DomainId, Error),
    /// A domain connected, but its channel could not be opened.
    Refused(Error),
}

/// Client of the service, with its calls in progress.
#[derive(Debug)]
struct Client<I> {
    port: Queued,
    served: Served<I>,
}

impl<I> Waited for Client<I> {
    type End = Channel;

    fn end(&self) -> &Channel {
        self.port.channel()
    }

    fn end_mut(&mut self) -> &mut Channel {
        self.port.channel_mut()
    }
}

impl<I: Interface> Service<I> {
    /// Claims a name for clients of the interface.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export(domain: &Domain, name: &str) -> Result<Self, Error> {
        Self::export_with(domain, name, &ChannelOptions::default())
    }

    /// Like [`export`](Self::export), with these options for the channels.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export_with(domain: &Domain, name: &str, options: &ChannelOptions) -> Result<Self, Error> {
        let listener = options.clone().interface_hash(I::HASH).export(domain, name)?;
        let mut set = WaitSet::new()?;
        set.add_listener(&listener)?;
        let timeout = OperationTimeout::new(listener.timeout());
        Ok(Service { listener, set, timeout })
    }

    /// Sets the timeout of the next turn.
    #[must_use = "it is the next turn that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Self {
        self.timeout.set_once(timeout);
        self
    }

    /// Number of connected clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.set.channels()
    }

    /// Waits for an event and handles it: one message of a client, or a client that connects or leaves.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if nothing happened; [`Error::MonitorLost`].
    pub fn serve_one<H: ?Sized>(&mut self, handler: &mut H) -> Result<Turn, Error>
    where
        I: Serves<H>,
    {
        let timeout = self.timeout.take();
        loop {
            match self.set.wait(timeout)? {
                Ready::Listener(_) => {
                    let accepted = self.listener.within(Duration::ZERO).accept();
                    return Ok(self.take_in(accepted));
                }
                Ready::Channel(token) => {
                    if let Some(turn) = self.serve_client(token, handler) {
                        return Ok(turn);
                    }
                }
                _ => {}
            }
        }
    }

    /// Async [`serve_one`](Self::serve_one). Dropping the future serves no message; a client that was being
    /// accepted sees its channel end.
    ///
    /// # Errors
    /// Same as [`serve_one`](Self::serve_one).
    pub fn serve_one_async<'a, H>(
        &'a mut self,
        handler: &'a mut H,
    ) -> impl Future<Output = Result<Turn, Error>> + Send + 'a
    where
        I: Serves<H>,
        H: Send + ?Sized,
    {
        let timeout = self.timeout.take();
        async move {
            loop {
                match self.set.wait_async(timeout).await? {
                    Ready::Listener(_) => {
                        let listener = self.listener.within(Duration::ZERO);
                        let accepted = listener.accept_async().await;
                        return Ok(self.take_in(accepted));
                    }
                    Ready::Channel(token) => {
                        if let Some(turn) = self.serve_client(token, handler) {
                            return Ok(turn);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn take_in(&mut self, accepted: Result<Channel, Error>) -> Turn {
        let opened = accepted.and_then(|channel| {
            let peer = channel.peer();
            let mut port = Queued::new(channel);
            let served = Served::bind(&mut port).map_err(|error: BindError| Error::from(error))?;
            self.set.add(Client { port, served })?;
            Ok(peer)
        });
        opened.map_or_else(Turn::Refused, Turn::Connected)
    }

    /// Serves one message of a client; returns `None` if there was none.
    fn serve_client<H: ?Sized>(&mut self, token: Token, handler: &mut H) -> Option<Turn>
    where
        I: Serves<H>,
    {
        let client = self.set.get_mut(token)?;
        let peer = client.port.channel().peer();
        let before = client.port.interest();
        let served = client.port.flush().and_then(|()| {
            let takes = client.port.takes_calls();
            Ok(takes && client.served.serve_one(&mut client.port, handler, Duration::ZERO)?)
        });
        match served {
            Ok(served) => {
                let now = client.port.interest();
                if now != before {
                    self.set.set_interest(token, now);
                }
                served.then_some(Turn::Served(peer))
            }
            Err(why) => {
                drop(self.set.remove(token));
                Some(Turn::Left(peer, why))
            }
        }
    }
}

/// Serves clients of an interface under a name until the machine ends.
///
/// # Errors
/// Same as [`Service::export`]; [`Error::MonitorLost`].
pub fn serve<I, H>(domain: &Domain, name: &str, handler: &mut H) -> Result<Infallible, Error>
where
    I: Interface + Serves<H>,
    H: ?Sized,
{
    let mut service = Service::<I>::export(domain, name)?;
    loop {
        match service.serve_one(handler) {
            Ok(_) | Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Async version of [`serve`].
///
/// # Errors
/// Same as [`serve`].
pub async fn serve_async<I, H>(domain: &Domain, name: &str, handler: &mut H) -> Result<Infallible, Error>
where
    I: Interface + Serves<H>,
    H: Send + ?Sized,
{
    let mut service = Service::<I>::export(domain, name)?;
    loop {
        match service.serve_one_async(handler).await {
            Ok(_) | Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
