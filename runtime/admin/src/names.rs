//! Locks, semaphores and barriers: who holds them, and how many wait.

use tombolo::Error;
use tombolo::control::{Reply, Request};
use tombolo_control::all_pages;
use tombolo_naming::{Answer, ObjectInfo, Operation, Scope, split_scope};

use crate::{Machine, unexpected};

impl Machine {
    /// The locks, semaphores and barriers of a scope: `""` is the machine's, `"@/"` that of the node of this
    /// machine's own [domain](Self::domain), `"@NODE/"` that of another node.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such node.
    pub fn locks(&self, scope: &str) -> Result<Vec<ObjectInfo>, Error> {
        let scope = match split_scope(scope).0 {
            Scope::Node(node) if node == self.domain().node_name() => Scope::Own,
            scope => scope,
        };
        all_pages(|last: Option<&ObjectInfo>| {
            let after = last.map(|object| (object.kind.clone(), object.name.clone())).unwrap_or_default();
            let operation = Operation::Objects { after };
            match self.ask(Request::Names { scope: scope.clone(), operation })? {
                Reply::Names { answer: Answer::Objects { objects, more }, .. } => Ok((objects, more)),
                other => Err(unexpected(&other)),
            }
        })
    }
}
