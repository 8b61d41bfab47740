//! The functions of an image, by name.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::process::ExitCode;

use tombolo_hubs::Value;
use tombolo_task::{Bytes, wire};

use crate::context::Context;
use crate::executor::Running;
use crate::{STARTER_VARIABLE, TaskError, worker};

/// The name and the types of a function that tasks run. Programs declare it as a constant, which is used both
/// where the function is registered and where tasks are started.
pub struct Function<A, R> {
    name: &'static str,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Function<A, R> {
    /// The function of this name. Two of one name and other types are two functions.
    #[must_use]
    pub const fn new(name: &'static str) -> Function<A, R> {
        Function { name, types: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<A: Value, R: Value> Function<A, R> {
    /// What it is called in messages.
    pub(crate) fn number(&self) -> u64 {
        wire::function_number(self.name, &A::type_name(), &R::type_name())
    }

    /// The bytes of an argument.
    pub(crate) fn argument(&self, argument: &A) -> Result<Bytes, TaskError> {
        let mut bytes = Vec::new();
        argument.encode(&mut bytes);
        if bytes.len() > wire::MAX_VALUE_BYTES {
            return Err(TaskError::TooLong { task: self.name.to_owned(), what: "argument" });
        }
        Ok(bytes.into())
    }
}

impl<A, R> Clone for Function<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Function<A, R> {}

impl<A, R> std::fmt::Debug for Function<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

/// Begins a task; `None` when the argument is not one.
pub(crate) type Body = Box<dyn Fn(Context, &[u8]) -> Option<Running>>;

/// The functions of an image.
#[derive(Default)]
pub struct Functions {
    bodies: HashMap<u64, Body>,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("count", &self.bodies.len()).finish()
    }
}

impl Functions {
    /// None yet.
    #[must_use]
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Adds a function; it replaces one of the same name and types. Its future stays on the thread of its
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
                bytes
            }))
        };
        self.bodies.insert(function.number(), Box::new(body));
        self
    }

    /// Where this domain was started as a worker: runs tasks until the starter ends, and returns the status
    /// that `main` is to return. `None` in every other domain.
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
