//! Names shared between programs: holders, waiters, and subscribers.

use std::io::BufRead;
use std::time::Duration;

use tombolo::names::{Condition, NewRecord, Value};

use crate::{Outcome, PATIENCE};

fn wait_for_end() -> Outcome {
    // The test kills this program or closes its input.
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    std::thread::sleep(PATIENCE);
    Ok(())
}

/// Holds a lock until it is killed.
pub(crate) fn hold_lock(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let guard = domain.names().lock(name)?.acquire(PATIENCE)?;
    println!("holding {}", guard.fencing_token());
    wait_for_end()
}

/// Waits in the queue of a lock.
pub(crate) fn queue_for_lock(name: &str) -> Outcome {
    let domain = crate::attach()?;
    println!("queueing");
    let guard = domain.names().lock(name)?.acquire(PATIENCE)?;
    println!("got {}", guard.fencing_token());
    Ok(())
}

/// Increments a counter under a lock with a read and a write, using only the lock's fencing token. A lost
/// update or a refusal shows that two held the lock at once.
pub(crate) fn count_under_lock(name: &str, rounds: &str) -> Outcome {
    let domain = crate::attach()?;
    let names = domain.names();
    let lock = names.lock(name)?;
    let mut last = 0;
    for _ in 0..rounds.parse()? {
        let guard = lock.acquire(PATIENCE)?;
        if guard.fencing_token() <= last {
            return Err(format!("token {} after {last}", guard.fencing_token()).into());
        }
        last = guard.fencing_token();
        let count = names.get("counter")?.integer("count")?;
        let fenced = Condition::Fenced { lock: lock.name().to_owned(), token: last };
        let next = NewRecord::new("counter").with("count", count + 1).with("token", last as i64).persistent();
        let before = names.get_and_set(&next.only_if(fenced))?.ok_or("the counter is gone")?;
        if before.integer("count")? != count || before.integer("token")? >= last as i64 {
            return Err(format!("somebody else was in: {before}").into());
        }
    }
    println!("counted");
    Ok(())
}

/// Waits at a barrier `times` times.
pub(crate) fn meet(name: &str, parties: &str, times: &str) -> Outcome {
    let domain = crate::attach()?;
    let barrier = domain.names().barrier(name, parties.parse()?)?;
    println!("joined");
    for _ in 0..times.parse()? {
        match barrier.wait(PATIENCE) {
            Ok(meeting) => println!("met {}", meeting.generation),
            Err(error) => {
                println!("barrier: {error}");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Joins a barrier and never waits at it.
pub(crate) fn stay_away(name: &str, parties: &str) -> Outcome {
    let domain = crate::attach()?;
    let _barrier = domain.names().barrier(name, parties.parse()?)?;
    println!("joined");
    wait_for_end()
}

/// Sets a record that lives as long as this program, in the scope that its name selects.
pub(crate) fn set_and_stay(record: &str) -> Outcome {
    let domain = crate::attach()?;
    domain.names().set(&record.parse::<NewRecord>()?)?;
    println!("set");
    wait_for_end()
}

/// Holds a permit of a semaphore until it is killed.
pub(crate) fn hold_permit(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let _permit = domain.names().semaphore(name, 1)?.acquire(1, PATIENCE)?;
    println!("holding");
    wait_for_end()
}

/// Uses node-local names of its own node: records, watches and locks.
pub(crate) fn use_own_node() -> Outcome {
    let domain = crate::attach()?;
    let names = domain.names();
    names.set(&NewRecord::new("@/here").with("isa", tombolo::Isa::current().to_string().as_str()))?;
    let here = names.wait_for("@/h* { isa: _ }", PATIENCE)?;
    let by_name = names.get(&format!("@{}/here", domain.node_name()))?;
    if by_name != here || names.exists("here")? {
        return Err("the node's names are not its own".into());
    }
    let mut watch = names.watch("@/*", tombolo::names::WatchOptions::default())?;
    let guard = names.lock("@/lock")?.acquire(Duration::from_secs(10))?;
    names.set(&NewRecord::new("@/here").with("token", Value::from(guard.fencing_token() as i64)))?;
    let notice = watch.next(PATIENCE)?;
    println!("told {:?}", matches!(notice.change, tombolo::names::Change::Set(_)));
    guard.release()?;
    Ok(())
}
