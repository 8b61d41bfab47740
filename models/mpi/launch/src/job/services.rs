//! Service names of `MPI_Publish_name`, through which jobs of a machine find each other's ports.
//!
//! Each is a record in the machine's name service and is removed with the job that published it.

use std::collections::BTreeSet;
use std::fmt::Write;

use tombolo::Error;
use tombolo::error::Fault;
use tombolo::names::{Condition, NameFault, Names, NewRecord, Value};

/// Attribute of the record that holds the port.
const PORT: &str = "port";

/// Limit of services per job.
const MAX_SERVICES: usize = 1024;

/// Services published by a job.
pub(super) struct Services {
    names: Names,
    published: BTreeSet<String>,
}

impl Services {
    pub(super) fn new(names: Names) -> Services {
        Services { names, published: BTreeSet::new() }
    }

    pub(super) fn publish(&mut self, service: &str, port: &str) -> Result<String, String> {
        if self.published.len() >= MAX_SERVICES {
            return Err(format!("a job has at most {MAX_SERVICES} services"));
        }
        let name = record_name(service)?;
        let record = NewRecord::new(&name).with(PORT, port).only_if(Condition::Absent);
        self.names.set(&record).map_err(|error| error_text(&error))?;
        self.published.insert(name);
        Ok(String::new())
    }

    pub(super) fn unpublish(&mut self, service: &str) -> Result<String, String> {
        let name = record_name(service)?;
        if !self.published.remove(&name) {
            return Err("this job has published no such service".to_owned());
        }
        self.names.delete(&name).map(|_| String::new()).map_err(|error| error_text(&error))
    }

    pub(super) fn look_up(&self, service: &str) -> Result<String, String> {
        let record = self.names.get(&record_name(service)?).map_err(|error| error_text(&error))?;
        match record.attributes.get(PORT) {
            Some(Value::Text(port)) => Ok(port.clone()),
            _ => Err("that name is not of a service".to_owned()),
        }
    }
}

fn error_text(error: &Error) -> String {
    match error {
        Error::Monitor(Fault::Name { fault: NameFault::NoSuchName { .. } }) => "no such service".to_owned(),
        error => error.to_string(),
    }
}

/// Record name of a service: `mpi/` and the escaped name; characters that names cannot contain become `:hh`.
fn record_name(service: &str) -> Result<String, String> {
    const MAX_BYTES: usize = 128;
    let mut name = "mpi/".to_owned();
    for byte in service.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-/".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, ":{byte:02x}");
        }
    }
    if name.len() > MAX_BYTES {
        return Err(format!("the name of a service takes at most {MAX_BYTES} bytes"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_records_of_the_machine() {
        assert_eq!(record_name("ocean-1").unwrap(), "mpi/ocean-1");
        assert_eq!(record_name("a b:ü").unwrap(), "mpi/a:20b:3a:c3:bc");
        assert!(record_name(&"x".repeat(124)).is_ok() && record_name(&"x".repeat(125)).is_err());
    }
}
