//! Identification of functions: by Rust types, or by text for programs in other languages.

use std::marker::PhantomData;
use std::sync::Arc;

use tombolo_hubs::{Value, ValueType};
use tombolo_task::{Bytes, wire};

use crate::TaskError;

/// Name and types of a function that tasks run. Programs declare it as a constant, which is used both to
/// register the function and to start tasks.
pub struct Function<A, R> {
    name: &'static str,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Function<A, R> {
    /// Identifies the function with this name. Functions with the same name and different types are distinct.
    #[must_use]
    pub const fn new(name: &'static str) -> Function<A, R> {
        Function { name, types: PhantomData }
    }

    /// Name of the function.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<A: Value, R: Value> Function<A, R> {
    /// Number of the function in messages.
    pub(crate) fn number(&self) -> u64 {
        wire::function_number(self.name, &A::type_name(), &R::type_name())
    }

    /// Encodes an argument.
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

/// Name of a function and the types of its argument and result as text: the equivalent of [`Function`] for
/// other languages. A function registered under a signature can be started from any language with the same
/// texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    name: Arc<str>,
    argument: Arc<ValueType>,
    result: Arc<ValueType>,
}

impl Signature {
    /// Identifies the function with this name and types, written as in [`Value::TYPE`]: `u64`, `(u64, text)`.
    ///
    /// # Errors
    /// [`TaskError::BadType`].
    pub fn new(name: &str, argument: &str, result: &str) -> Result<Signature, TaskError> {
        let parse_type = |what, text: &str| {
            let parsed = ValueType::parse(text).map(Arc::new);
            parsed.ok_or_else(|| TaskError::BadType { task: name.to_owned(), what, text: text.to_owned() })
        };
        Ok(Signature {
            name: name.into(),
            argument: parse_type("argument", argument)?,
            result: parse_type("result", result)?,
        })
    }

    /// Name of the function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the function in messages.
    #[must_use]
    pub fn number(&self) -> u64 {
        wire::function_number(&self.name, &self.argument.to_string(), &self.result.to_string())
    }

    /// Checks that the bytes are a valid argument.
    ///
    /// # Errors
    /// [`TaskError::BadValue`], [`TaskError::TooLong`].
    pub fn check_argument(&self, bytes: &[u8]) -> Result<(), TaskError> {
        self.check(&self.argument, "argument", bytes)
    }

    /// Checks that the bytes are a valid result.
    ///
    /// # Errors
    /// [`TaskError::BadValue`], [`TaskError::TooLong`].
    pub fn check_result(&self, bytes: &[u8]) -> Result<(), TaskError> {
        self.check(&self.result, "result", bytes)
    }

    /// Checks the result that a function returned; returns the error message for its starter if it is
    /// invalid.
    pub(crate) fn checked_result(&self, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        if self.result.fits(&bytes) {
            return Ok(bytes);
        }
        Err(format!("it returned {} bytes, which are not a value of its type '{}'", bytes.len(), self.result))
    }

    fn check(&self, value_type: &ValueType, what: &'static str, bytes: &[u8]) -> Result<(), TaskError> {
        let task = || self.name.to_string();
        if bytes.len() > wire::MAX_VALUE_BYTES {
            return Err(TaskError::TooLong { task: task(), what });
        }
        if !value_type.fits(bytes) {
            return Err(TaskError::BadValue { task: task(), node: String::new(), what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_number_is_language_independent() {
        let count = Function::<(u64, u64), (u64, String)>::new("count");
        let signature = Signature::new("count", "(u64,u64)", "(u64, text)").unwrap();
        assert_eq!(signature.number(), count.number());
        assert_ne!(signature.number(), Signature::new("count", "u64", "(u64, text)").unwrap().number());
    }

    #[test]
    fn invalid_values_and_types_are_refused() {
        let signature = Signature::new("square", "u64", "u64").unwrap();
        assert!(signature.check_argument(&[0; 8]).is_ok());
        assert!(matches!(
            signature.check_argument(&[0; 7]),
            Err(TaskError::BadValue { what: "argument", .. })
        ));
        let any = Signature::new("any", "", "").unwrap();
        assert!(any.check_result(&[1; wire::MAX_VALUE_BYTES]).is_ok());
        let long = any.check_result(&[1; wire::MAX_VALUE_BYTES + 1]);
        assert!(matches!(long, Err(TaskError::TooLong { what: "result", .. })));
        assert!(signature.checked_result(vec![1]).unwrap_err().contains("'u64'"));
        assert!(matches!(Signature::new("f", "(u64", ""), Err(TaskError::BadType { what: "argument", .. })));
    }
}
