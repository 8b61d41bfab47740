//! Remote method calls on shared objects.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Listener};

use crate::error::ObjectError;
use crate::job::{Calls, Job};
use crate::plain::{Plain, shape, shape_of_name};
use crate::shared::{Pointer, Shared};

/// First byte of a reply: the result follows, or the text of an error.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// How long a serving rank waits for a call before it checks whether to continue.
const IDLE: Duration = Duration::from_millis(1);

/// A method of a shared object that other ranks can call.
pub trait Method {
    /// Name of the method, the same at callers and servers.
    const NAME: &'static str;
    /// Type of the object's value.
    type Object: Plain;
    /// Type of the arguments.
    type Arguments: Plain;
    /// Type of the result.
    type Returned: Plain;

    /// Runs the method at the called rank.
    ///
    /// # Errors
    /// Any error; the caller receives its text.
    fn call(
        job: &Job,
        object: &mut Shared<Self::Object>,
        arguments: Self::Arguments,
    ) -> Result<Self::Returned, ObjectError>;
}

/// Returns the number that identifies a method in messages: a hash of its name and types.
fn method_id<M: Method>() -> u64 {
    let types = shape(shape(M::Object::SHAPE, M::Arguments::SHAPE), M::Returned::SHAPE);
    shape(shape_of_name(M::NAME.as_bytes()), types)
}

type Handler = fn(&Job, &mut Objects, Pointer<()>, &[u8]) -> Result<Vec<u8>, ObjectError>;

/// Handles of called objects, by object id.
type Objects = BTreeMap<u64, Box<dyn Any>>;

/// The methods that a rank serves, with the handles of the objects that they were called for.
#[derive(Default)]
pub struct Methods {
    handlers: BTreeMap<u64, Handler>,
    objects: Objects,
}

impl std::fmt::Debug for Methods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Methods").field("methods", &self.handlers.len()).finish_non_exhaustive()
    }
}

impl Methods {
    /// Creates an empty set of methods.
    #[must_use]
    pub fn new() -> Methods {
        Methods::default()
    }

    /// Adds the method `M`.
    #[must_use]
    pub fn with<M: Method>(mut self) -> Methods {
        self.handlers.insert(method_id::<M>(), decode_and_call::<M>);
        self
    }

    fn handle_call(&mut self, job: &Job, call: &[u8]) -> Vec<u8> {
        let (head, arguments) = call.split_at(call.len().min(24));
        let outcome = if head.len() < 24 {
            Err("the call is not one of this library".to_owned())
        } else {
            let (number, pointer) = <(u64, Pointer<()>)>::decode(head);
            let handler = self.handlers.get(&number).ok_or_else(|| {
                "this rank does not serve it, or with other types; add it with Methods::with".to_owned()
            });
            handler.and_then(|handler| {
                handler(job, &mut self.objects, pointer, arguments).map_err(|error| error.to_string())
            })
        };
        match outcome {
            Ok(result) => [&[DONE][..], &result].concat(),
            Err(why) => [&[FAILED], why.as_bytes()].concat(),
        }
    }
}

fn decode_and_call<M: Method>(
    job: &Job,
    objects: &mut Objects,
    pointer: Pointer<()>,
    arguments: &[u8],
) -> Result<Vec<u8>, ObjectError> {
    if arguments.len() != M::Arguments::BYTES {
        let why = "the arguments have another length".to_owned();
        return Err(ObjectError::Refused { why });
    }
    let pointer = Pointer::<M::Object>::decode(&pointer.to_bytes());
    let known = objects.get_mut(&pointer.id).and_then(|object| object.downcast_mut::<Shared<M::Object>>());
    if known.is_none_or(|shared| shared.pointer() != pointer) {
        objects.insert(pointer.id, Box::new(job.open(pointer)?));
    }
    let object = objects.get_mut(&pointer.id).and_then(|object| object.downcast_mut());
    let object = object.ok_or(tombolo_sharing::Fault::NotHeld)?;
    Ok(M::call(job, object, M::Arguments::decode(arguments))?.to_bytes())
}

fn calls_name(job: &Job, rank: u32) -> String {
    job.job.name(&format!("objects/calls/{rank}"))
}

impl Job {
    /// Calls a method of an object at `rank`, which must [serve](Self::serve) it, and returns the result.
    ///
    /// # Errors
    /// [`ObjectError::CallFailed`] with the text of the rank's error; [`ObjectError::RankEnded`];
    /// [`ObjectError::TimedOut`] if it does not serve.
    pub fn call<M: Method>(
        &self,
        rank: u32,
        object: Pointer<M::Object>,
        arguments: &M::Arguments,
    ) -> Result<M::Returned, ObjectError> {
        let timeout = self.timeout();
        let failed = |error: tombolo::Error| match error {
            error if error.is_peer_gone() => ObjectError::RankEnded { rank, what: "a call" },
            tombolo::Error::TimedOut { timeout, .. } => {
                let what = format!("'{}' was not answered", M::NAME);
                ObjectError::TimedOut { what, timeout, rank: None }
            }
            error => error.into(),
        };
        let mut calls = self.calls.borrow_mut();
        let mut channel = match calls.outgoing.remove(&rank) {
            Some(channel) => channel,
            None => {
                let domain = self.domain.within(timeout);
                ChannelOptions::default().connect(&domain, calls_name(self, rank)).map_err(failed)?
            }
        };
        let (at_bytes, id) = (object.at_bytes, object.id);
        let mut message = (method_id::<M>(), at_bytes, id).to_bytes();
        message.extend(arguments.to_bytes());
        channel.within(timeout).send(&message).map_err(failed)?;
        let mut answer = Vec::new();
        channel.recv_into(&mut answer).map_err(failed)?;
        // A channel without a reply is not reused: the reply may still arrive.
        calls.outgoing.insert(rank, channel);
        let why = match answer.split_first() {
            Some((&DONE, result)) if result.len() == M::Returned::BYTES => {
                return Ok(M::Returned::decode(result));
            }
            Some((&FAILED, why)) => String::from_utf8_lossy(why).into_owned(),
            _ => "its answer has another length".to_owned(),
        };
        Err(ObjectError::CallFailed { rank, method: M::NAME, why })
    }

    /// Serves calls of other ranks as long as `keep_serving` returns true; it is called after each call and
    /// every millisecond. Returns the number of calls served.
    ///
    /// # Errors
    /// [`ObjectError::Domain`] if the monitor has ended. Callers that end or send garbage are not an error.
    pub fn serve(
        &self,
        methods: &mut Methods,
        mut keep_serving: impl FnMut() -> bool,
    ) -> Result<u64, ObjectError> {
        let Calls { mut listener, mut incoming, .. } = std::mem::take(&mut *self.calls.borrow_mut());
        let mut served = 0;
        let outcome = loop {
            if !keep_serving() {
                break Ok(served);
            }
            match self.serve_once(methods, &mut listener, &mut incoming) {
                Ok(count) => served += count,
                Err(error) => break Err(error),
            }
        };
        let mut calls = self.calls.borrow_mut();
        (calls.listener, calls.incoming) = (listener, incoming);
        outcome
    }

    /// Serves pending calls, or waits briefly for the next one.
    fn serve_once(
        &self,
        methods: &mut Methods,
        listener: &mut Option<Listener>,
        incoming: &mut Vec<Channel>,
    ) -> Result<u64, ObjectError> {
        let listener = match listener {
            Some(listener) => listener,
            None => {
                let name = calls_name(self, self.rank());
                listener.insert(ChannelOptions::default().export(&self.domain, &name)?.within(IDLE))
            }
        };
        let started = Instant::now();
        let mut served = 0;
        let mut message = Vec::new();
        while served == 0 && started.elapsed() < IDLE {
            incoming.retain_mut(|channel| match channel.try_recv_into(&mut message) {
                Ok(Some(_)) => {
                    served += 1;
                    let answer = methods.handle_call(self, &message);
                    channel.within(self.timeout()).send(&answer).is_ok()
                }
                Ok(None) => true,
                Err(_) => false,
            });
            if incoming.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        if served == 0 {
            let listener = listener.within(if incoming.is_empty() { IDLE } else { Duration::ZERO });
            match listener.accept() {
                Ok(channel) => incoming.push(channel),
                Err(error @ tombolo::Error::Monitor { .. }) => return Err(error.into()),
                // No call, or the caller is gone.
                Err(_) => {}
            }
        }
        Ok(served)
    }
}
