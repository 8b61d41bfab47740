//! Locks, semaphores and barriers, with their holders and the number of waiting requests.

use tombolo::Error;
use tombolo::control::{Reply, Request};
use tombolo_control::all_pages;
use tombolo_naming::{Answer, ObjectInfo, Operation, Scope, split_scope};

use crate::{Machine, unexpected};

impl Machine {
    /// Returns the locks, semaphores and barriers of a scope: `""` is the machine, `"@/"` the node of this
    /// machine's own [domain](Self::domain), `"@NODE/"` another node.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist.
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
