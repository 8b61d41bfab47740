//! Wakes futures that wait for messages of the monitor.

use std::sync::{Arc, Weak};
use std::task::Wake;

use super::MonitorLink;
use crate::error::Error;
use crate::reactor::Registration;

/// Waker of the observers of a connection to a monitor.
#[derive(Debug)]
struct LinkWaker(Weak<MonitorLink>);

impl Wake for LinkWaker {
    fn wake(self: Arc<Self>) {
        if let Some(link) = self.0.upgrade() {
            link.wake_observers();
        }
    }
}

/// Registration of a connection with the reactor, for as long as a future waits for it.
#[derive(Debug)]
pub(crate) struct Watch {
    registration: Registration,
    link: Arc<MonitorLink>,
}

impl Watch {
    pub(crate) fn start(link: &Arc<MonitorLink>) -> Result<Arc<Watch>, Error> {
        link.watch(|| {
            let mut registration = Registration::new()?;
            let herald = Arc::new(LinkWaker(Arc::downgrade(link)));
            registration.watch(link.descriptor(), herald.into())?;
            Ok(Watch { registration, link: Arc::clone(link) })
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.registration.forget(self.link.descriptor());
    }
}
