//! A service: one handler for any number of clients, in one thread.

use std::collections::HashMap;
use std::time::Duration;

use tombolo_base::{DomainId, OperationTimeout};
use tombolo_interface::{Interface, ServeError, Served, Serves};

use crate::domain::{Domain, Listener};
use crate::error::Error;
use crate::options::ChannelOptions;
use crate::waitset::{Ready, Token, WaitSet};

/// A name under which clients of an interface find a server. Each client has a channel; whatever one does ends that channel at
/// most.
///
/// What a client asks waits in its own ring until the service comes to it, in turn with the others. A client that takes no
/// answers holds the service up for 10 seconds and is let go then.
///
/// ```no_run
/// # use tombolo::{Domain, Error};
/// # use tombolo::interface::{Service, Turn};
/// # use tombolo_interfaces::kv::{Kv, KvHandler};
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
    set: WaitSet,
    timeout: OperationTimeout,
    clients: HashMap<Token, Served<I>>,
}

/// What a service did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It served a call or a message of that client.
    Served(DomainId),
    /// It took a client in.
    Connected(DomainId),
    /// A client closed its channel, died, or was let go.
    Left(DomainId, Error),
    /// Somebody connected whose channel could not be opened.
    Refused(Error),
}

impl<I: Interface> Service<I> {
    /// Takes up a name for clients of the interface.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn export(domain: &Domain, name: &str) -> Result<Self, Error> {
        Self::export_with(domain, name, &ChannelOptions::default())
    }

    /// As [`export`](Self::export), with channels of these options.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn export_with(domain: &Domain, name: &str, options: &ChannelOptions) -> Result<Self, Error> {
        let listener = options.clone().interface_hash(I::HASH).export(domain, name)?;
        let mut set = WaitSet::new()?;
        set.add_listener(&listener)?;
        let timeout = OperationTimeout::new(listener.timeout());
        Ok(Service { listener, set, timeout, clients: HashMap::new() })
    }

    /// Has the next turn wait up to `timeout`.
    #[must_use = "it is the next turn that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Self {
        self.timeout.set_once(timeout);
        self
    }

    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Waits for something to do and does it: one message of a client, or a client that comes or goes.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when there was nothing to do; [`Error::MonitorLost`].
    pub fn serve_one<H: ?Sized>(&mut self, handler: &mut H) -> Result<Turn, Error>
    where
        I: Serves<H>,
    {
        let timeout = self.timeout.take();
        loop {
            match self.set.wait(timeout)? {
                Ready::Listener(_) => return Ok(self.take_in()),
                Ready::Channel(token) => {
                    if let Some(turn) = self.serve_client(token, handler) {
                        return Ok(turn);
                    }
                }
                _ => {}
            }
        }
    }

    fn take_in(&mut self) -> Turn {
        let opened = self.listener.within(Duration::ZERO).accept().and_then(|mut channel| {
            let served = Served::bind(&mut channel)?;
            let client = channel.peer();
            let token = self.set.add(channel)?;
            self.clients.insert(token, served);
            Ok(client)
        });
        opened.map_or_else(Turn::Refused, Turn::Connected)
    }

    /// `None`: there was nothing after all.
    fn serve_client<H: ?Sized>(&mut self, token: Token, handler: &mut H) -> Option<Turn>
    where
        I: Serves<H>,
    {
        let (channel, served) = (self.set.get_mut(token)?, self.clients.get_mut(&token)?);
        let client = channel.peer();
        let why = match served.serve_one(channel, handler, Duration::ZERO) {
            Ok(true) => return Some(Turn::Served(client)),
            Ok(false) => return None,
            Err(ServeError::Ended(error)) => error,
            Err(stuck) => {
                Error::Stuck { peer: client, node: channel.peer_node().to_owned(), why: stuck.to_string() }
            }
        };
        self.clients.remove(&token);
        drop(self.set.remove(token));
        Some(Turn::Left(client, why))
    }
}

/// Serves clients of an interface under a name until the machine is gone.
///
/// # Errors
/// As [`Service::export`]; [`Error::MonitorLost`].
pub fn serve<I, H>(domain: &Domain, name: &str, handler: &mut H) -> Result<std::convert::Infallible, Error>
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
