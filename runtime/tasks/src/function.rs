//! Functions of an image, by name.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use tombolo_hubs::Value;
use tombolo_task::{Failure, FailureKind};

use crate::blocking::{Blocking, ThreadPool};
use crate::context::Context;
use crate::executor::Running;
use crate::signature::{Function, Signature};
use crate::{STARTER_VARIABLE, worker};

/// Starts a task; `None` if the argument is invalid.
pub(crate) type Body = Box<dyn Fn(Context, &[u8]) -> Option<Running>>;

/// Set of the functions of an image.
#[derive(Default)]
pub struct Functions {
    bodies: HashMap<u64, Body>,
    threads: Arc<ThreadPool>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("count", &self.bodies.len()).finish()
    }
}

impl Functions {
    /// Creates an empty set of functions.
    #[must_use]
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Adds a function, replacing one with the same name and types. Its future stays on the thread of its
    /// worker, so it need not be `Send`.
    #[must_use]
    pub fn register<A, R, F>(
        mut self,
        function: Function<A, R>,
        body: impl Fn(Context, A) -> F + 'static,
    ) -> Functions
    where
        A: Value,
        R: Value,
        F: Future<Output = R> + 'static,
    {
        let body = move |context: Context, argument: &[u8]| -> Option<Running> {
            let future = body(context, A::decode(argument)?);
            Some(Box::pin(async move {
                let mut bytes = Vec::new();
                future.await.encode(&mut bytes);
                Ok(bytes)
            }))
        };
        self.bodies.insert(function.number(), Box::new(body));
        self
    }

    /// Adds a function identified by its signature, with encoded argument and result; replaces one with the
    /// same signature. Its future returns the encoded result, or an error message, which the starter sees as
    /// a panic with that message.
    #[must_use]
    pub fn register_bytes<F>(
        mut self,
        signature: &Signature,
        body: impl Fn(Context, Vec<u8>) -> F + 'static,
    ) -> Functions
    where
        F: Future<Output = Result<Vec<u8>, String>> + 'static,
    {
        let (number, signature) = (signature.number(), signature.clone());
        let body = move |context: Context, argument: &[u8]| -> Option<Running> {
            signature.check_argument(argument).ok()?;
            let (future, signature) = (body(context, argument.to_vec()), signature.clone());
            Some(Box::pin(async move {
                let ended = future.await.and_then(|result| signature.checked_result(result));
                ended.map_err(|text| Failure::new(FailureKind::Panicked).with_text(text))
            }))
        };
        self.bodies.insert(number, Box::new(body));
        self
    }

    /// Adds a blocking function, like [`register_bytes`](Self::register_bytes). Each of its tasks has a
    /// thread, of which only one per worker runs at a time. Other tasks run while such a thread is in
    /// [`block_on`](crate::block_on).
    #[must_use]
    pub fn register_blocking(
        self,
        signature: &Signature,
        body: impl Fn(Context, Vec<u8>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Functions {
        let (body, threads) = (Arc::new(body), Arc::clone(&self.threads));
        self.register_bytes(signature, move |context, argument| {
            let body = Arc::clone(&body);
            Blocking::new(Arc::clone(&threads), move || body(context, argument))
        })
    }

    /// Runs tasks until the starter ends, if this domain was started as a worker. Returns the exit status for
    /// `main`; `None` in every other domain.
    #[must_use]
    pub fn run_worker(self) -> Option<ExitCode> {
        let starter = std::env::var(STARTER_VARIABLE).ok()?;
        Some(match worker::run(self, &starter) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        })
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Body> {
        self.bodies.get(&number)
    }
}
